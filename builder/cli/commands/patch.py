"""imgbuild patch check | refresh | extract"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from builder.cli import findings, progress, wiring
from builder.cli.options import GivenPath, emit, json_option, lane_argument, lane_named, result
from builder.cli.text import clean, one_line, table
from builder.pipeline import patch_check, patch_extract, patch_refresh, patch_settle
from builder.pipeline.patch_check import CheckedPatch
from builder.steps.refresh import RefreshedPatch
from builder.tools.settle_folder import Settling

P = TypeVar("P", CheckedPatch, RefreshedPatch)

_FAILED = 5

update_option = click.option(
    "--update", is_flag=True, help="On the tips of the tracked refs, not on the lane's pins."
)


@click.group()
def command() -> None:
    """Look after patch sets: patches/<source>/<set>/."""


@command.command("check")
@lane_argument
@click.argument("source", required=False)
@update_option
@json_option
@click.pass_obj
@click.pass_context
def check_command(
    ctx: click.Context, folder: Path, lane: str, source: str | None, update: bool, as_json: bool
) -> None:
    """Show the state of every patch of LANE, and the upstream commit that broke it."""
    with lane_named():
        tools = wiring.sources(wiring.project(folder))
        found = patch_check.check(
            lane, source, update=update, progress=progress.progress(),
            project=tools["project"], store=tools["store"], files=tools["files"],
        )  # fmt: skip
        found = tuple(_named(one, lane) for one in found)
    failed = any(one.state is None for one in found)
    if as_json:
        emit({"ok": not failed, "exit": _FAILED if failed else 0,
              "patches": [_checked_json(one) for one in found]})  # fmt: skip
    else:
        _show_checked(found)
    ctx.exit(_FAILED if failed else 0)


@command.command("refresh")
@lane_argument
@click.argument("source")
@update_option
@click.option(
    "--into", type=GivenPath(), metavar="FOLDER",
    help="Lay out the source before the first patch that conflicts, to settle it there.",
)  # fmt: skip
@click.option(
    "--from", "settled", type=GivenPath(), metavar="FOLDER",
    help="Take what was settled in such a folder as the patch.",
)  # fmt: skip
@json_option
@click.pass_obj
@click.pass_context
def refresh_command(
    ctx: click.Context, folder: Path, lane: str, source: str, update: bool,
    into: Path | None, settled: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Rewrite the patches of SOURCE that do not apply any more, by a merge with upstream.

    Only files of patches that change are written. What conflicts is told and left as it is.
    """
    with lane_named():
        tools = wiring.sources(wiring.project(folder))
        if settled is not None:
            if update or into is not None:
                raise click.UsageError("--from stands alone: its folder says the rest")
            about, changed = patch_settle.take_back(
                settled, lane, source, progress=progress.progress(),
                project=tools["project"], store=tools["store"],
            )  # fmt: skip
            _show_settled(about, changed, as_json=as_json)
            return
        found = patch_refresh.refresh(
            lane, source, update=update, into=into, progress=progress.progress(),
            project=tools["project"], store=tools["store"], files=tools["files"],
        )  # fmt: skip
        found = tuple(_named(one, lane) for one in found)
    failed = any(one.outcome == "conflict" for one in found)
    if as_json:
        emit({"ok": not failed, "exit": _FAILED if failed else 0,
              "patches": [_refreshed_json(one) for one in found]})  # fmt: skip
    else:
        for line in table([(_words(one.outcome), one.patch.path) for one in found]):
            click.echo(clean(line))
        if any(one.outcome == "empty" for one in found):
            click.echo("empty: upstream has it now, in other words; take it out of the series")
        _show_findings([one.finding for one in found if one.finding])
        if not failed and (update or any(one.data is not None for one in found)):
            click.echo(f"next: imgbuild lock {lane}" + (f" --update {source}" if update else ""))
    ctx.exit(_FAILED if failed else 0)


@command.command("extract")
@click.argument("image")
@click.option("--manifest", required=True, metavar="PATH", help="In the image; lists the files.")
@click.option("--lane", required=True)
@click.option("--source", required=True, help="The lane's source that the files belong to.")
@click.option("--set", "name", default="extracted", show_default=True, help="The set to write.")
@json_option
@click.pass_obj
def extract_command(
    folder: Path, image: str, manifest: str, lane: str, source: str, name: str, as_json: bool
) -> None:
    """Make a patch set of files that someone baked into IMAGE; nothing of it is run."""
    with lane_named():
        tools = wiring.sources(wiring.project(folder))
        found = patch_extract.extract(
            image, manifest, lane, source, name,
            project=tools["project"], store=tools["store"], files=tools["files"],
            engine=wiring.engine(), progress=progress.progress(),
        )  # fmt: skip
    if as_json:
        emit(result({"set": found.folder or None, "patches": list(found.patches),
                     "same": list(found.same), "left": list(found.left)}))  # fmt: skip
        return
    for patch in found.patches:
        click.echo(clean(f"+ {found.folder}/{patch}"))
    for path in found.left:
        click.echo(clean(f"not of {source}: /{path}"))
    if found.folder and not found.listed:
        click.echo(f'next: patches = [… "{source}/{name}"] in [sources.{source}] of {lane}')


def _show_checked(found: tuple[CheckedPatch, ...]) -> None:
    rows = []
    for one in found:
        state = _words(one.state) if one.state else "FAILED" if one.finding else "not tried"
        was = f"was {_words(one.locked)}" if one.locked not in (None, one.state) else ""
        rows.append((one.source, state, one.patch.path, "; ".join(filter(None, (was, one.why)))))
    for line in table(rows):
        click.echo(one_line(line) if "\n" in line else clean(line))
    for one in found:
        if one.finding:
            _show_findings([one.finding])
        if one.broken_by:
            by = one.broken_by
            click.echo(clean(f"  broken by {by.commit[:12]} {by.subject} ({by.author})"), err=True)


def _named(one: P, lane: str) -> P:
    return replace(one, finding=one.finding.named(lane)) if one.finding else one


def _show_settled(about: Settling, changed: tuple[str, ...], *, as_json: bool) -> None:
    again = f"imgbuild patch refresh {about.lane} {about.source}"
    again += " --update" if about.update else ""
    if as_json:
        emit(result({"patch": about.patch, "changes": list(changed), "next": again}))
        return
    for path in changed:
        click.echo(clean(f"  {path}"))
    click.echo(f"next: {again}")


def _show_findings(found: list[Any]) -> None:
    for line in findings.lines(found):
        click.echo(line, err=True)


def _words(state: str | None) -> str:
    return (state or "").replace("-", " ")


def _checked_json(one: CheckedPatch) -> dict[str, Any]:
    by = one.broken_by
    return {
        "source": one.source,
        "path": one.patch.path,
        "state": one.state or ("failed" if one.finding else "not-tried"),
        "locked": one.locked,
        "why": one.why,
        "finding": findings.finding_json(one.finding) if one.finding else None,
        "broken-by": {"commit": by.commit, "subject": by.subject, "author": by.author}
        if by else None,
    }  # fmt: skip


def _refreshed_json(one: RefreshedPatch) -> dict[str, Any]:
    return {
        "path": one.patch.path,
        "outcome": one.outcome,
        "written": one.data is not None,
        "finding": findings.finding_json(one.finding) if one.finding else None,
    }
