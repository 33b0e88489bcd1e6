"""imgbuild verify-lock"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from builder.cli import findings, progress, wiring
from builder.cli.options import emit, json_option
from builder.pipeline.verify import Proof, verify_lock
from builder.steps import lanes


@click.command()
@click.argument("lane", nargs=-1)
@click.option("--offline", is_flag=True, help="Look only at what this machine has.")
@click.option(
    "--annotate/--no-annotate", default=None,
    help="Write GitHub annotations; the default is on inside a GitHub workflow.",
)  # fmt: skip
@json_option
@click.pass_obj
@click.pass_context
def command(
    ctx: click.Context,
    folder: Path,
    lane: tuple[str, ...],
    offline: bool,
    annotate: bool | None,
    as_json: bool,
) -> None:
    """Prove the locks of LANEs (of all, when none is named), without Docker.

    Ends with 3 when a lane or lock is wrong, 4 when a source is not what the lock says,
    5 for a patch, 7 for a marker; with several lanes, with the first of these that was met.
    """
    project = wiring.project(folder)
    names = lane or lanes.names(project)
    proofs = [
        verify_lock(
            name, offline=offline, project=project, store=wiring.store(),
            files=wiring.files(), progress=progress.progress(),
        )
        for name in names
    ]  # fmt: skip
    if as_json:
        emit([_json(proof) for proof in proofs])
    else:
        _text(proofs)
    if annotate if annotate is not None else bool(os.environ.get("GITHUB_ACTIONS")):
        for proof in proofs:
            for found in proof.findings:
                sys.stderr.write(findings.annotation(found) + "\n")
    ctx.exit(next((p.exit_code for p in proofs if p.exit_code), 0))


def _text(proofs: list[Proof]) -> None:
    for proof in proofs:
        for line in findings.lines(proof.findings):
            click.echo(line, err=True)
        for what in proof.unchecked:
            click.echo(f"  not checked: {what}", err=True)
    good = [proof for proof in proofs if not proof.findings]
    for proof in good:
        click.echo(f"{proof.lane}: the lock holds, build {proof.build_id[:12]}")
    for proof in proofs:
        if proof.findings:
            click.echo(f"{proof.lane}: {len(proof.findings)} findings, exit {proof.exit_code}")
    if not proofs:
        click.echo("no lanes: locks/ holds no .toml file")


def _json(proof: Proof) -> dict[str, object]:
    return {
        "lane": proof.lane,
        "ok": not proof.findings,
        "exit": proof.exit_code,
        "build-id": proof.build_id or None,
        "findings": [findings.finding_json(found) for found in proof.findings],
        "unchecked": list(proof.unchecked),
    }
