"""imgbuild stage"""

from __future__ import annotations

from pathlib import Path

import click

from builder.cli import progress, wiring
from builder.cli.options import (
    emit,
    json_option,
    lane_argument,
    lane_named,
    platform_option,
    result,
)
from builder.cli.text import clean, size, table
from builder.pipeline.stage import Staged, stage


@click.command()
@lane_argument
@platform_option
@json_option
@click.pass_obj
def command(folder: Path, lane: str, platform: str | None, as_json: bool) -> None:
    """Fetch, verify, patch and stage LANE; show the folder that buildx would get.

    Needs no Docker.
    """
    with lane_named():
        staged = stage(
            lane,
            platform=platform or wiring.host_platform(),
            contexts=wiring.contexts(),
            progress=progress.progress(),
            **wiring.sources(wiring.project(folder)),
        )
    if as_json:
        emit(result(_report(staged)))
        return
    rows = [(a.sha256[7:19], size(a.size), path) for path, a in sorted(staged.archives.items())]
    for line in table(rows):
        click.echo(clean(line))
    click.echo(clean(f"context: {staged.context.path}"))
    for name, path in sorted(staged.context.named.items()):
        click.echo(clean(f"{name}: {path}"))


def _report(staged: Staged) -> dict[str, object]:
    archives = [
        {"path": path, "sha256": a.sha256, "size": a.size, "new": a.new}
        for path, a in sorted(staged.archives.items())
    ]
    return {
        "lane": staged.lane.name,
        "build-id": staged.build_id,
        "context": str(staged.context.path),
        "named": {name: str(path) for name, path in sorted(staged.context.named.items())},
        "archives": archives,
    }
