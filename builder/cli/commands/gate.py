"""imgbuild gate"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from builder.cli import progress, wiring
from builder.cli.options import emit, json_option, reported
from builder.cli.text import clean, one_line
from builder.model.values import Verdict
from builder.pipeline.gate import gate


@click.command()
@click.argument("image")
@click.option("--lane", help="Whose gates; the default is the lane that the image names.")
@json_option
@click.pass_obj
@click.pass_context
def command(ctx: click.Context, folder: Path, image: str, lane: str | None, as_json: bool) -> None:
    """Run gates on IMAGE, which may come from anywhere; nothing is labelled."""
    with reported(as_json=as_json):
        found, verdicts = gate(
            image, lane, project=wiring.project(folder), engine=wiring.engine(),
            progress=progress.progress(),
        )  # fmt: skip
    if as_json:
        passed = all(v.passed for v in verdicts)
        emit({"ok": passed, "image": found.id, "verdicts": [asdict(v) for v in verdicts]})
    else:
        for verdict in verdicts:
            for line in verdict_lines(verdict):
                click.echo(line)
    ctx.exit(0 if all(v.passed for v in verdicts) else 7)


def verdict_lines(verdict: Verdict) -> list[str]:
    """One line for a gate that holds; with its output and cure for one that does not."""
    word = "ok    " if verdict.passed else "FAILED"
    lines = [f"{word} {verdict.gate:12} {one_line(verdict.about)}: {one_line(verdict.seen)}"]
    if not verdict.passed:
        lines += [f"       | {clean(line)}" for line in verdict.detail.splitlines()]
        lines += [f"       hint: {clean(verdict.hint)}"] if verdict.hint else []
    return lines
