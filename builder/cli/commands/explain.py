"""imgbuild explain"""

from __future__ import annotations

from pathlib import Path

import click

from builder.cli import diff_text, rebuild_text, wiring
from builder.cli.options import emit, json_option, lane_named, result
from builder.cli.text import clean
from builder.pipeline.compare import explain


@click.command()
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@json_option
@click.pass_obj
def command(folder: Path, before: str, after: str, as_json: bool) -> None:
    """Say which input differs first between two locked lanes, and what a build does again.

    A and B are LANE, or LANE@REVISION. What is said to run may still be in a cache; what is
    said to come from the cache has the same inputs.
    """
    with lane_named():
        project = wiring.project(folder)
        found, again = explain(before, after, project=project, at=wiring.revisions(project))
    if as_json:
        emit(result({
            "before": found.before.title, "after": found.after.title,
            "headline": diff_text.headline(found), **(rebuild_text.rebuild_json(again, {}) or {}),
        }))  # fmt: skip
        return
    click.echo(clean(f"{found.before.title} → {found.after.title}"))
    click.echo(clean(diff_text.headline(found)))
    for line in rebuild_text.explained(again):
        click.echo(clean(line))
