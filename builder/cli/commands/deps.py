"""imgbuild deps"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from builder.cli import wiring
from builder.cli.options import emit, json_option, lane_argument, lane_named, result
from builder.cli.text import clean, size, table
from builder.model.counts import plural
from builder.pipeline.deps import DepList, ListedDep, listed


@click.command()
@lane_argument
@json_option
@click.pass_obj
def command(folder: Path, lane: str, as_json: bool) -> None:
    """List what LANE's deps tarball holds: commits, sizes, and where each is used.

    A table of deps with `from = "SOURCE"` stands for what that source's CMake files would
    fetch; it is derived when the lane is locked.
    """
    with lane_named():
        found = listed(lane, project=wiring.project(folder), store=wiring.store())
    if as_json:
        emit(result(_report(found)))
        return
    for line in _lines(found):
        click.echo(clean(line))


def _lines(found: DepList) -> Iterator[str]:
    if not found.deps:
        yield f"{found.lane.name} has no deps"
        return
    yield from table([_row(dep) for dep in found.deps])
    for dep in found.deps:
        for path, reason in sorted(dep.locked.unfilled.items()):
            yield f"{dep.name}/{path} stays empty: {reason}"
    archive = found.lock.deps_archive
    digest = archive.content[7:19] if archive else "no archive"
    yield f"{plural(len(found.deps), 'dep')}, {size(found.size)}; deps-src.tar.gz {digest}"


def _row(dep: ListedDep) -> tuple[str, ...]:
    tag = dep.locked.tag if dep.locked.tag != dep.locked.commit else ""
    held = "not here" if dep.size is None else size(dep.size)
    modules = f"+{len(dep.locked.submodules)}" if dep.locked.submodules else ""
    return (
        dep.name, dep.locked.commit[:12], tag, f"{held:>8}", modules, dep.locked.url,
        dep.locked.variable or "", dep.used,
    )  # fmt: skip


def _report(found: DepList) -> dict[str, Any]:
    archive = found.lock.deps_archive
    return {
        "lane": found.lane.name,
        "archive": archive.content if archive else None,
        "size": found.size,
        "deps": [
            {
                "name": dep.name,
                "url": dep.locked.url,
                "commit": dep.locked.commit,
                "tag": dep.locked.tag or None,
                "into": dep.locked.into,
                "from": dep.locked.from_,
                "used": dep.used,
                "variable": dep.locked.variable,
                "folder": dep.folder,
                "files": dep.files,
                "size": dep.size,
                "submodules": {p: s.commit for p, s in dep.locked.submodules.items()},
                "unfilled": dict(dep.locked.unfilled),
            }
            for dep in found.deps
        ],
    }
