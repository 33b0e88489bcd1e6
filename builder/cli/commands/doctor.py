"""imgbuild doctor"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from builder.cli import wiring
from builder.cli.options import emit, json_option
from builder.cli.text import clean, table
from builder.errors import ToolMissing
from builder.pipeline.doctor import Check, doctor


@click.command()
@json_option
@click.pass_obj
@click.pass_context
def command(ctx: click.Context, folder: Path, as_json: bool) -> None:  # noqa: ARG001
    """Say what this machine has and lacks, and which command needs it.

    Ends with 10 when git or a Docker engine is missing. What only some commands need is a
    warning that names them.
    """
    checks = doctor(engine=wiring.engine(), cache=wiring.cache())
    if as_json:
        emit([asdict(check) for check in checks])
    else:
        rows = [(_state(check), check.name, check.seen) for check in checks]
        for line, check in zip(table(rows), checks, strict=True):
            click.echo(clean(line))
            if check.passed:
                click.echo(clean(f"         for {check.uses}"))
            else:
                click.echo(clean(f"         without it: {check.without}"))
                click.echo(clean(f"         hint: {check.hint}"))
    ctx.exit(0 if all(c.passed or c.is_optional for c in checks) else ToolMissing.exit_code)


def _state(check: Check) -> str:
    return "ok" if check.passed else "warning" if check.is_optional else "MISSING"
