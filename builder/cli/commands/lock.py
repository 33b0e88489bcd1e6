"""imgbuild lock"""

from __future__ import annotations

from pathlib import Path

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
    for key, before, after in report.changes:
        if before is None:
            click.echo(clean(f"+ {key}"))
        elif after is None:
            click.echo(clean(f"- {key}"))
        elif isinstance(before, str | int) and isinstance(after, str | int):
            click.echo(clean(f"~ {key}: {_short(before)} → {_short(after)}"))
        else:
            click.echo(clean(f"~ {key}"))

    if report.moved is not None:
        for line in changes_text.lines(report.moved):
            click.echo(line)


def _short(value: str | int) -> str:
    text = one_line(str(value))
    return text if len(text) <= 24 else f"{text[:19]}…"
