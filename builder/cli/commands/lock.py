"""imgbuild lock"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from builder.cli import changes_text, findings, progress, wiring
from builder.cli.options import emit, json_option, lane_argument, lane_named, result
from builder.cli.text import clean, one_line
from builder.pipeline.lock import LockReport, lock


@click.command()
@lane_argument
@click.argument("names", nargs=-1)
@click.option(
    "--update", is_flag=True,
    help="Move the named entries (all, when none is named) to their tracked refs.",
)  # fmt: skip
@json_option
@click.pass_obj
def command(folder: Path, lane: str, names: tuple[str, ...], update: bool, as_json: bool) -> None:
    """Resolve LANE and write locks/LANE.lock.

    What is locked stays, unless the lane says something else or --update moves it. NAMES
    are entries of the lane: sources, deps, bases, wheels, debs.
    """
    if names and not update:
        raise click.UsageError(f"to move {names[0]}: imgbuild lock {lane} --update {names[0]}")
    with lane_named():
        project = wiring.project(folder)
        report = lock(
            lane,
            update=frozenset(names) if update else None,
            host=wiring.host_platform(),
            progress=progress.progress(),
            registry=wiring.registry(),
            **wiring.sources(project),
        )
    _show(report, as_json=as_json)


def _show(report: LockReport, *, as_json: bool) -> None:
    for line in findings.lines(report.warnings):
        click.echo(line, err=True)
    if as_json:
        changes = [{"key": k, "before": b, "after": a} for k, b, a in report.changes]
        extra = {"lane": report.lane.name, "written": report.written, "changes": changes}
        warned = [findings.finding_json(warning) for warning in report.warnings]
        moved = report.moved.plain() if report.moved is not None else None
        emit({**result(extra), "findings": warned, "moved": moved})
        return
    for change in report.changes:
        for line in _change(*change):
            click.echo(clean(line))
    if report.moved is not None:
        for line in changes_text.lines(report.moved):
            click.echo(line)


def _change(key: str, before: Any, after: Any) -> Iterator[str]:
    """The lines of one change; of lists, those of each entry that differs."""
    if before == after:
        return
    if before is None:
        yield f"+ {key}"
    elif after is None:
        yield f"- {key}"
    elif isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in dict.fromkeys((*before, *after)):
            yield from _change(f"{key}.{name}", before.get(name), after.get(name))
    elif isinstance(before, Sequence) and not isinstance(before, str):
        was, now = _entries(before), _entries(after)
        for name in dict.fromkeys((*was, *now)):
            yield from _change(f"{key} {name}", was.get(name), now.get(name))
        if sorted(was) == sorted(now) and [*was] != [*now]:
            yield f"~ {key}: in another order"
    else:
        yield f"~ {key}: {_short(before)} → {_short(after)}"


def _entries(held: Sequence[Any]) -> Mapping[str, Any]:
    """The entries of a list by what tells them apart: the pull request, the path, themselves."""
    found = {}
    for one in held:
        name = one.get("pull", one.get("path")) if isinstance(one, Mapping) else one
        found[f"#{name}" if isinstance(name, int) else _short(name)] = one
    return found


def _short(value: str | int) -> str:
    text = one_line(str(value))
    return text if len(text) <= 24 or "/" in text else f"{text[:19]}…"
