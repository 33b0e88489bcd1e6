"""imgbuild gate"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from builder.cli import progress, verdicts, wiring
from builder.cli.options import emit, json_option, junit_option, lane_named
from builder.pipeline.gate import gate


@click.command()
@click.argument("image")
@click.option("--lane", help="Whose gates; the default is the lane that the image names.")
@junit_option
@json_option
@click.pass_obj
@click.pass_context
def command(
    ctx: click.Context,
    folder: Path,
    image: str,
    lane: str | None,
    junit: Path | None,
    as_json: bool,
) -> None:
    """Run gates on IMAGE, which may come from anywhere; nothing is labelled."""
    with lane_named():
        found, judged = gate(
            image, lane, project=wiring.project(folder), store=wiring.store(),
            files=wiring.files(), records=wiring.records(), engine=wiring.engine(),
            progress=progress.progress(),
        )  # fmt: skip
    passed = all(v.passed for v in judged)
    if junit is not None:
        verdicts.write_junit(junit, verdicts.junit(f"gates of {image}", judged))
    if as_json:
        emit({"ok": passed, "image": found.id, "verdicts": [asdict(v) for v in judged]})
    else:
        for line in verdicts.table(judged):
            click.echo(line)
        click.echo(verdicts.summary(judged))
    ctx.exit(0 if passed else 7)
