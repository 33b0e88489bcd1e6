"""imgbuild push"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from builder.cli import board, nodes_wiring, progress, pushes
from builder.cli.options import emit, json_option, lane_named
from builder.errors import ImgbuildError, UsageError
from builder.model.distribution import Fanout
from builder.pipeline.push import push


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
    with lane_named():
        if fanout == "chain" and (via or transport == "pull"):
            raise UsageError("in a chain nodes pass loads on: it has no pulls and no registry",
                             hint="leave out --fanout chain, or the other")  # fmt: skip
        known = nodes_wiring.known(folder)
        options = replace(
            nodes_wiring.options(known, compress, limit_rate),
            force=force, transport=transport, dry_run=dry_run, fanout=fanout,
            registry=via[1] if via else None,
        )  # fmt: skip
        chosen = nodes_wiring.choose(known, asked)
        receipt = push(
            name,
            chosen,
            options,
            progress=progress.progress(),
            board=board.board(),
            **nodes_wiring.tools(),
        )
        if keep is not None and receipt.lane and not dry_run:
            from builder.pipeline.nodes_fleet import prunable as prune

            good = {one.node for one in receipt.nodes if one.state != "failed"}
            served = [node for node in chosen if node.name in good]
            try:
                prune(receipt.lane, served, keep=keep, remove=True,
                      connections=nodes_wiring.connections())  # fmt: skip
            except ImgbuildError as error:  # no reason to hide how it went on the nodes
                receipt = replace(receipt, findings=(*receipt.findings, *error.findings))
    if as_json:
        emit(pushes.report(receipt))
    else:
        pushes.show(receipt)
    return pushes.code(receipt)
