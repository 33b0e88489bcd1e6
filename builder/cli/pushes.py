"""How a push ended, for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import click

from builder.cli import findings
from builder.cli.text import clean, duration, size, table
from builder.errors import DistributionError
from builder.model.distribution import Receipt


def report(receipt: Receipt) -> Mapping[str, Any]:
    """As JSON."""
    nodes = [findings.outcome_json(one) for one in receipt.nodes]
    found = [findings.finding_json(one) for one in receipt.findings]
    return {"ok": not code(receipt), **asdict(receipt), "nodes": nodes, "findings": found}


def code(receipt: Receipt) -> int:
    return DistributionError.exit_code if receipt.is_failed else 0


def _lines(receipt: Receipt) -> Iterator[str]:
    head = ("node", "state", "sent", "time", "image", "proof or reason")
    rows = [
        (
            one.node, one.state, size(one.sent), duration(one.seconds),
            one.id.removeprefix("sha256:")[:12] or "-",
            one.finding.code if one.finding else one.proof,
        )
        for one in receipt.nodes
    ]  # fmt: skip
    yield from table([head, *rows])
    yield f"image: {receipt.config} (config)"
    for tag in receipt.tags:
        yield f"tag: {tag}"
    for one in receipt.nodes:
        if one.via or one.note:
            yield f"{one.node}: {one.note or f'from {one.via}'}"
    if receipt.via:
        yield f"via: {receipt.via} ({size(receipt.uploaded)} uploaded)"
    if receipt.forced:
        yield "forced: its gates did not pass"


def show(receipt: Receipt) -> None:
    """The table, and each reason once."""
    for line in _lines(receipt):
        click.echo(clean(line))
    found = dict.fromkeys(one.finding for one in receipt.nodes if one.finding is not None)
    for line in findings.lines([*found, *receipt.findings]):
        click.echo(line, err=True)
