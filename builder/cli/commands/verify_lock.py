"""imgbuild verify-lock

Answers from a stamp before anything else is imported: see tools/stamps.py.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from builder.cli import wiring
from builder.cli.options import emit, json_option
from builder.cli.text import one_line
from builder.model.counts import plural
from builder.pipeline.proof import Proof

if TYPE_CHECKING:
    from builder.tools.project import ProjectFolder
    from builder.tools.stamps import Stamps


@click.command()
@click.argument("lane", nargs=-1)
@click.option("--offline", is_flag=True, help="Look only at what this machine has.")
@click.option(
    "--deep", is_flag=True,
    help="Hash every object and merge every composition again, whatever was proven before.",
)  # fmt: skip
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
    deep: bool,
    annotate: bool | None,
    as_json: bool,
) -> None:
    """Prove the locks of LANEs (of all, when none is named), without Docker.

    What was proven is remembered, and holds as long as lane, lock, patches, image folder and
    store are the same; registries, indexes and git servers are asked again after a day.

    Ends with 3 when a lane or lock is wrong, 4 when a source, a base or a wheel is not what
    the lock says, 5 for a patch, 7 for a marker; with several lanes, with the first of these
    that was met.
    """
    project = wiring.project(folder)
    stamps = wiring.stamps(project)
    names = lane or project.lanes()
    proofs = [_proof(name, project, stamps, offline=offline, deep=deep) for name in names]
    proofs += [] if lane else [_orphan(name, project) for name in project.orphans()]
    if as_json:
        emit([_json(proof) for proof in proofs])
    else:
        _text(proofs)
    if annotate if annotate is not None else bool(os.environ.get("GITHUB_ACTIONS")):
        _annotate(proofs)
    ctx.exit(next((p.exit_code for p in proofs if p.exit_code), 0))


def _proof(
    name: str, project: ProjectFolder, stamps: Stamps, *, offline: bool, deep: bool
) -> Proof:
    known = None if deep else stamps.recall(name, online=not offline)
    if known is not None:
        return Proof.stamped(name, *known)
    from builder.pipeline.verify import verify_lock

    watch, tools = wiring.proving(project)
    proof = verify_lock(name, tools, offline=offline, deep=deep)
    if not proof.findings:
        stamps.keep(name, watch.seen, proof.answer, online=not offline)
    return replace(proof, findings=tuple(found.named(name) for found in proof.findings))


def _orphan(name: str, project: ProjectFolder) -> Proof:
    from builder.errors import Finding, LaneError, Place

    path = project.root / "locks" / f"{name}.lock"
    found = Finding(
        "lock-orphan", f"locks/{name}.lock belongs to no lane: there is no {name}.toml beside it",
        f"git rm locks/{name}.lock, or bring back the lane", place=Place(path),
    )  # fmt: skip
    return Proof(name, "", (found,), LaneError.exit_code, ())


def _text(proofs: list[Proof]) -> None:
    for proof in proofs:
        if proof.findings:
            from builder.cli import findings

            for line in findings.lines(proof.findings):
                click.echo(line, err=True)
        for what in proof.unchecked:
            click.echo(f"  not checked: {one_line(what)}", err=True)
    for proof in proofs:
        if not proof.findings:
            since = "" if proof.age_s is None else f" (proven {_ago(proof.age_s)}, all is the same)"
            click.echo(f"{proof.lane}: the lock holds, build {proof.build_id[:12]}{since}")
    for proof in proofs:
        if proof.findings:
            count = plural(len(proof.findings), "finding")
            click.echo(f"{proof.lane}: {count}, exit {proof.exit_code}")
    if not proofs:
        click.echo("no lanes: locks/ holds no .toml file")


def _ago(seconds: int) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit} ago"
    return f"{seconds} s ago"


def _annotate(proofs: list[Proof]) -> None:
    from builder.cli import findings

    for proof in proofs:
        for found in proof.findings:
            sys.stderr.write(findings.annotation(found) + "\n")


def _json(proof: Proof) -> dict[str, object]:
    from builder.cli import findings

    return {
        "lane": proof.lane,
        "ok": not proof.findings,
        "exit": proof.exit_code,
        "build-id": proof.build_id or None,
        "findings": [findings.finding_json(found) for found in proof.findings],
        "unchecked": list(proof.unchecked),
        "proven-seconds-ago": proof.age_s,
    }
