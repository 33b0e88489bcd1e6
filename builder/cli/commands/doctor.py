"""imgbuild doctor"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from builder.cli import wiring
from builder.cli.options import emit, json_option
from builder.cli.text import clean, table
from builder.pipeline.doctor import doctor


@click.command()
@json_option
@click.pass_obj
@click.pass_context
def command(ctx: click.Context, folder: Path, as_json: bool) -> None:  # noqa: ARG001
    """Say what this machine has and lacks for building; ends with 10 when something is missing."""
    checks = doctor(engine=wiring.engine(), cache=wiring.cache())
    if as_json:
        emit([asdict(check) for check in checks])
    else:
        rows = [("ok" if c.passed else "MISSING", c.name, c.seen) for c in checks]
        for line, check in zip(table(rows), checks, strict=True):
            click.echo(clean(line))
            if not check.passed:
                click.echo(f"         hint: {clean(check.hint)}")
    ctx.exit(0 if all(c.passed for c in checks) else 10)
