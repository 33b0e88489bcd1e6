"""imgbuild check"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from builder.cli import explanations, findings, progress, wiring
from builder.cli.options import emit, json_option, platform_option
from builder.cli.text import clean, one_line
from builder.model.counts import plural
from builder.pipeline.check import Checked, check
from builder.steps import lanes


@click.command()
@click.argument("lane", nargs=-1)
@platform_option
@click.option("--offline", is_flag=True, help="Look only at what this machine has.")
@click.option("--explain", "code", metavar="CODE", help="Say what a finding means, and stop.")
@json_option
@click.pass_obj
@click.pass_context
def command(
    ctx: click.Context,
    folder: Path,
    lane: tuple[str, ...],
    platform: str | None,
    offline: bool,
    code: str | None,
    as_json: bool,
) -> None:
    """Find what is wrong with LANEs (all, when none is named) before a container starts.

    Needs no Docker, and looks at the engine when one answers. Ends with the exit code of the
    first error; warnings leave it at 0.
    """
    if code is not None:
        _explain(code)
        return
    project = wiring.project(folder)
    checked = [
        check(
            name, platform=platform or wiring.host_platform(), offline=offline, project=project,
            store=wiring.store(), files=wiring.files(), engine=wiring.engine(),
            cache=wiring.cache(), progress=progress.progress(),
        )
        for name in lane or lanes.names(project)
    ]  # fmt: skip
    checked = [
        replace(each, findings=tuple(found.named(each.lane) for found in each.findings))
        for each in checked
    ]
    if as_json:
        emit([_json(each) for each in checked])
    else:
        for each in checked:
            _show(each)
    ctx.exit(next((each.exit_code for each in checked if each.exit_code), 0))


def _explain(code: str) -> None:
    found = explanations.of(code)
    if found is None:
        near = explanations.near(code)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise click.UsageError(f"there is no finding {clean(code)}{hint}")
    click.echo(found)


def _show(checked: Checked) -> None:
    for line in findings.lines(checked.findings):
        click.echo(line)
    for what in checked.unchecked:
        click.echo(f"  not checked: {one_line(what)}", err=True)
    errors = sum(found.level == "error" for found in checked.findings)
    warnings = len(checked.findings) - errors
    counts = f"{plural(errors, 'error')}, {plural(warnings, 'warning')}"
    click.echo(f"{checked.lane}: {plural(checked.checks, 'check')}, {counts}")
    if checked.findings:
        first = checked.findings[0].code
        click.echo(f"  what one means: imgbuild check --explain {first}", err=True)


def _json(checked: Checked) -> dict[str, object]:
    return {
        "lane": checked.lane,
        "ok": not checked.exit_code,
        "exit": checked.exit_code,
        "build-id": checked.build_id or None,
        "checks": checked.checks,
        "findings": [findings.finding_json(found) for found in checked.findings],
        "unchecked": list(checked.unchecked),
    }
