"""imgbuild history"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import click

from builder.cli import findings, wiring
from builder.cli.options import emit, json_option
from builder.cli.text import clean, duration, one_line, table
from builder.errors import Finding, Place, UsageError
from builder.model.counts import plural
from builder.model.ids import NAME_RULE, is_name
from builder.model.values import Record


@click.command()
@click.argument("lane", required=False)
@click.option("-n", "count", default=20, show_default=True, help="How many, the newest last.")
@click.option("--run", "run", metavar="ID", help="Show one run whole.")
@json_option
@click.pass_obj
def command(folder: Path, lane: str | None, count: int, run: str | None, as_json: bool) -> None:  # noqa: ARG001
    """List the builds on this machine, of LANE or of all lanes."""
    kept = wiring.records()
    if lane is not None and not is_name(lane):
        raise UsageError(
            f"{lane!r} is no lane's name: it must be {NAME_RULE}",
            hint="imgbuild history lists all builds",
        )
    records = tuple(
        replace(record, outcome="killed")
        if record.outcome == "running" and kept.ended(record.lane, record.id)
        else record
        for record in kept.runs(lane)
    )
    if run is not None:
        _one(records, run, as_json=as_json)
        return
    shown = records[-count:] if count > 0 else ()
    if as_json:
        emit([asdict(record) for record in shown])
    elif not shown:
        click.echo(f"no builds of {lane} yet" if lane else "no builds yet")
    else:
        head = ("run", "lane", "build", "outcome", "time", "image or error")
        for line in table([head, *(_row(record) for record in shown)]):
            click.echo(clean(line))


def _row(record: Record) -> tuple[str, ...]:
    end = record.image.removeprefix("sha256:")[:12]
    if errors := _errors(record):
        end = one_line(f"{errors[0].code}: {errors[0].what}"[:60])
    return (
        record.id, record.lane, record.build_id[:12], record.outcome,
        duration(record.seconds), end,
    )  # fmt: skip


def _one(records: tuple[Record, ...], wanted: str, *, as_json: bool) -> None:
    found = [r for r in records if r.id.startswith(wanted)]
    if len(found) != 1:
        word = "no run" if not found else plural(len(found), "run")
        raise UsageError(f"{word} with id {wanted}", hint="imgbuild history lists them")
    record = found[0]
    later = [r for r in records if r.lane == record.lane and r.id > record.id]
    is_gone = any(stage.name == "gates" for each in later for stage in each.stages)
    if as_json:
        emit(asdict(record))
        return
    click.echo(clean(f"{record.lane} · build {record.build_id} · {record.outcome}"))
    stages = [(s.name, duration(s.seconds), clean(s.said)) for s in record.stages]
    steps = [
        (s.stage, "cached" if s.cached else duration(s.seconds), one_line(s.name)[:90])
        for s in record.steps
    ]
    gates = [("ok" if v.passed else "FAILED", v.gate, v.about, v.seen) for v in record.verdicts]
    for title, rows in (("stages", stages), ("steps", steps), ("gates", gates)):
        if rows:
            click.echo(f"{title}:")
            for line in table(rows, indent="  "):
                click.echo(clean(line))
    for tag in record.tags:
        click.echo(clean(f"tag: {tag}"))
    if record.log:
        click.echo(clean(f"log: {record.log}"))
    shown = [f for f in _errors(record) if not (is_gone and f.code == "gate-candidate")]
    for line in findings.lines(shown):
        click.echo(line)
    if is_gone and len(shown) < len(_errors(record)):
        click.echo("the candidate is gone: a later build of its lane removed it")


def _errors(record: Record) -> list[Finding]:
    """The findings of a failed run, as the run itself showed them."""
    rows = [row for row in (record.error or {}).get("findings", []) if isinstance(row, dict)]
    return [
        Finding(
            row["code"], row["what"], row.get("hint", ""), row.get("detail", ""),
            Place(Path(row["file"])) if row.get("file") else None,
            "warning" if row.get("level") == "warning" else "error",
        )
        for row in rows
    ]  # fmt: skip
