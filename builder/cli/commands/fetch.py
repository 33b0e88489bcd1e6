"""imgbuild fetch"""

from __future__ import annotations

from pathlib import Path

import click

from builder.cli import progress, wiring
from builder.cli.options import lane_argument, lane_named, platform_option
from builder.pipeline.stage import fetch


@click.command()
@lane_argument
@platform_option
@click.pass_obj
def command(folder: Path, lane: str, platform: str | None) -> None:
    """Bring every commit, wheel and Debian package of LANE's lock into the cache.

    A build afterwards touches no network.
    """
    with lane_named():
        fetch(
            lane,
            platform=platform or wiring.host_platform(),
            progress=progress.progress(),
            **wiring.sources(wiring.project(folder)),
        )
