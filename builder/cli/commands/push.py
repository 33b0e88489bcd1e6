"""imgbuild push"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from builder.cli import board, findings, nodes_wiring, progress
from builder.cli.options import emit, json_option, reported
from builder.cli.text import clean, duration, size, table
from builder.errors import DistributionError, UsageError
from builder.model.distribution import Fanout, Receipt
from builder.pipeline.nodes_fleet import prunable as prune
from builder.pipeline.push import Options, push


@click.command()
@click.argument("name", metavar="[LANE|IMAGE]", required=False)
@click.option("--nodes", "asked", metavar="NAMES", help="Nodes and groups of nodes.toml, or "
              "user@host; separated by commas.")  # fmt: skip
@click.option("--force", is_flag=True, help="Also an image that did not pass its gates.")
@click.option("--dry-run", is_flag=True, help="Say what would move; change nothing.")
@click.option("--compress", type=click.Choice(["auto", "zstd", "none"]),
              help="auto: zstd where the link is the slowest part.")  # fmt: skip
@click.option("--limit-rate", metavar="RATE", help='At most this from here: "50 MB", "400 Mbit".')
@click.option("--transport", type=click.Choice(["auto", "load", "pull"]), default="auto",
              help="How layers travel; auto chooses for each node.")  # fmt: skip
@click.option("--fanout", type=click.Choice(["auto", "star", "chain"]), default="auto",
              help="From here to every node, or passed on from node to node.")  # fmt: skip
@click.option("--via", type=(click.Choice(["registry"]), str), metavar="registry URL",
              help="Put it into this OCI registry once; nodes pull it by digest.")  # fmt: skip
@click.option("--keep", type=click.IntRange(min=1), metavar="N",
              help="Then remove older images of the lane: nodes prune --keep N.")  # fmt: skip
@json_option
@click.pass_obj
def command(
    folder: Path,
    name: str | None,
    asked: str | None,
    force: bool,
    dry_run: bool,
    compress: str | None,
    limit_rate: str | None,
    transport: str,
    fanout: Fanout,
    via: tuple[str, str] | None,
    keep: int | None,
    as_json: bool,
) -> int:
    """Bring an image to all nodes of a group, and prove that each has exactly it.

    Without a name, the newest image that imgbuild built. Only layers that a node lacks move;
    tags move last, the former image stays as TAG-previous. What failed on one node stops no
    other; the same command completes the rest.
    """
    with reported(as_json=as_json):
        if fanout == "chain" and (via or transport == "pull"):
            raise UsageError("in a chain nodes pass loads on: it has no pulls and no registry",
                             hint="leave out --fanout chain, or the other")  # fmt: skip
        known = nodes_wiring.known(folder)
        options = Options(
            force,
            nodes_wiring.compress(known, compress),
            nodes_wiring.limit(known, limit_rate),
            transport,
            dry_run,
            known.hooks,
            nodes_wiring.batch(),
            via[1] if via else None,
            fanout,
        )
        chosen = nodes_wiring.choose(known, asked)
        receipt = push(
            name,
            chosen,
            options,
            source=nodes_wiring.source(),
            connections=nodes_wiring.connections(),
            receipts=nodes_wiring.receipts(),
            progress=progress.progress(),
            board=board.board(),
        )
        if keep is not None and receipt.lane and not dry_run:
            good = {one.node for one in receipt.nodes if one.state != "failed"}
            served = [node for node in chosen if node.name in good]
            prune(receipt.lane, served, keep=keep, remove=True,
                  connections=nodes_wiring.connections())  # fmt: skip
    if as_json:
        emit(_report(receipt))
    else:
        for line in _lines(receipt):
            click.echo(clean(line))
        _complain(receipt)
    return DistributionError.exit_code if _failed(receipt) else 0


def _report(receipt: Receipt) -> Mapping[str, Any]:
    nodes = [
        {**asdict(one), "finding": one.finding and findings.finding_json(one.finding)}
        for one in receipt.nodes
    ]
    return {"ok": not _failed(receipt), **asdict(receipt), "nodes": nodes}


def _failed(receipt: Receipt) -> bool:
    return any(one.state == "failed" for one in receipt.nodes)


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


def _complain(receipt: Receipt) -> None:
    found = dict.fromkeys(one.finding for one in receipt.nodes if one.finding is not None)
    for line in findings.lines(list(found)):
        click.echo(line, err=True)
