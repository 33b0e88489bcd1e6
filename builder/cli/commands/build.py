"""imgbuild build"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from builder.cli import progress, wiring
from builder.cli.options import emit, json_option, lane_argument, reported
from builder.pipeline.build import Options, build
from builder.pipeline.lock import lock


@click.command()
@lane_argument
@click.option("--lock", "relock", is_flag=True, help="Resolve first, and write the lock.")
@click.option("--no-cache", is_flag=True, help="Run every step of the Dockerfile again.")
@click.option("--force", is_flag=True, help="Build although the image is there.")
@click.option("--platform", metavar="linux/ARCH", help="Default: the engine's own.")
@json_option
@click.pass_obj
def command(
    folder: Path,
    lane: str,
    relock: bool,
    no_cache: bool,
    force: bool,
    platform: str | None,
    as_json: bool,
) -> None:
    """Build LANE from its lock: fetch, verify, patch, preflight, stage, build, gates, label.

    Says so and stops early when the image of these inputs is there. A failed run leaves its
    record and log (imgbuild history); the same command goes on from what is done.
    """
    with reported(as_json=as_json):
        project = wiring.project(folder)
        shown = progress.progress()
        tools = wiring.sources(project)
        if relock:
            lock(lane, update=None, host=wiring.host_platform(), progress=shown, **tools)
        record = build(
            lane,
            Options(platform, no_cache, force),
            cache=wiring.cache(),
            contexts=wiring.contexts(),
            engine=wiring.engine(),
            records=wiring.records(),
            progress=shown,
            **tools,
        )
    if as_json:
        emit(asdict(record))
