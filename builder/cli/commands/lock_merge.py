"""imgbuild lock-merge"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from builder.cli import findings, wiring
from builder.cli.options import GivenPath
from builder.cli.text import clean
from builder.pipeline.lockmerge import lock_merge
from builder.tools.project import replace_file


@click.command()
@click.argument("base", required=False, type=GivenPath())
@click.argument("ours", required=False, type=GivenPath())
@click.argument("theirs", required=False, type=GivenPath())
@click.argument("path", required=False, type=GivenPath())
@click.option("--install", is_flag=True, help="Make it the driver of this project's git.")
@click.pass_context
def command(
    ctx: click.Context,
    base: Path | None,
    ours: Path | None,
    theirs: Path | None,
    path: Path | None,
    install: bool,
) -> None:
    """Merge locks entry by entry, as git's merge driver: lock-merge %O %A %B %P.

    The result is written to OURS. Ends with 0 when it is a valid lock, and with 1 when
    markers stand around the entries that conflict, or `imgbuild lock` has to compute a value.
    """
    if install:
        for line in wiring.install_driver(ctx.obj) or ("nothing to do: it is there",):
            click.echo(clean(line))
        return
    if base is None or ours is None or theirs is None:
        raise click.UsageError("three files are needed: BASE OURS THEIRS")
    try:
        texts = [file.read_bytes() for file in (base, ours, theirs)]
    except OSError as error:
        raise click.UsageError(f"{error.filename}: {error.strerror}") from error
    merged = lock_merge(*texts, path=path)
    replace_file(ours, merged.text)
    for line in findings.lines(merged.findings):
        sys.stderr.write(f"{line}\n")
    ctx.exit(1 if merged.findings else 0)
