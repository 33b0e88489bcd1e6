"""imgbuild plan"""

from __future__ import annotations

from pathlib import Path

import click

from builder.cli import rebuild_text, wiring
from builder.cli.options import emit, json_option, lane_argument, lane_named, result
from builder.cli.text import clean
from builder.pipeline.plan import plan


@click.command()
@lane_argument
@json_option
@click.pass_obj
def command(folder: Path, lane: str, as_json: bool) -> None:
    """Say what a build of LANE would do now, and why; nothing is fetched or written.

    Without a Docker engine it says so, and tells the rest.
    """
    with lane_named():
        found = plan(
            lane,
            project=wiring.project(folder),
            store=wiring.store(),
            files=wiring.files(),
            engine=wiring.engine(),
            records=wiring.records(),
        )
    if as_json:
        emit(result(rebuild_text.plan_json(found)))
        return
    for line in rebuild_text.planned(found):
        click.echo(clean(line))
