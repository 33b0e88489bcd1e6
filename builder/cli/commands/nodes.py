"""imgbuild nodes"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click

from builder.cli import findings, nodes_wiring
from builder.cli.commands import nodes_cache
from builder.cli.options import emit, json_option, lane_named
from builder.cli.text import clean, size, table
from builder.errors import DistributionError
from builder.pipeline import nodes_fleet
from builder.pipeline.nodes_fleet import NodeState
from builder.steps.distribution import fleet

F = TypeVar("F", bound=Callable[..., Any])


def _nodes_option(function: F) -> F:
    return click.option(
        "--nodes", "asked", metavar="NAMES",
        help="Nodes and groups of nodes.toml, or user@host; separated by commas.",
    )(function)  # fmt: skip


@click.group()
def command() -> None:
    """Look at the nodes, go back to the former image, remove old ones, copy JIT caches."""


@command.command()
@click.argument("asked", metavar="[GROUP]", required=False)
@json_option
@click.pass_obj
def status(folder: Path, asked: str | None, as_json: bool) -> int:
    """Show each node's engine, disk and images of ours, and whether they are the same."""
    with lane_named():
        chosen = nodes_wiring.choose(nodes_wiring.known(folder), asked)
        states = nodes_fleet.status(chosen, connections=nodes_wiring.connections())
    answered = {one.node: one.images for one in states if one.facts is not None}
    wrong = [one.finding for one in states if one.finding is not None]
    differs = fleet.differing(answered)
    if as_json:
        rows = [_json(one) for one in states]
        emit({"same": not differs and not wrong, "differing": differs, "nodes": rows})
    else:
        for line in _lines(states, differs):
            click.echo(clean(line))
        for line in findings.lines(wrong):
            click.echo(line, err=True)
    return DistributionError.exit_code if wrong else 0


@command.command()
@click.argument("lane")
@_nodes_option
@json_option
@click.pass_obj
def rollback(folder: Path, lane: str, asked: str | None, as_json: bool) -> None:
    """Go back to the former image of LANE: on all nodes, or on none.

    The image that was there becomes TAG-previous, so that a second rollback goes forward.
    """
    with lane_named():
        chosen = nodes_wiring.choose(nodes_wiring.known(folder), asked)
        done = nodes_fleet.rollback(lane, chosen, connections=nodes_wiring.connections())
    if as_json:
        emit({"ok": True, "nodes": done})
        return
    rows = [(node, tag, _short(before), _short(now))
            for node, tags in done.items() for tag, (before, now) in tags.items()]  # fmt: skip
    for line in table([("node", "tag", "before", "now"), *rows]):
        click.echo(clean(line))


@command.command()
@click.argument("lane")
@_nodes_option
@click.option("--keep", type=click.IntRange(min=1), default=2, show_default=True,
              help="How many builds stay, the newest.")  # fmt: skip
@click.option("--yes", is_flag=True, help="Remove them; without it they are only shown.")
@json_option
@click.pass_obj
def prune(folder: Path, lane: str, asked: str | None, keep: int, yes: bool, as_json: bool) -> None:
    """Remove old images of LANE: none that a container uses or that another tag names."""
    with lane_named():
        chosen = nodes_wiring.choose(nodes_wiring.known(folder), asked)
        going = nodes_fleet.prunable(
            lane, chosen, keep=keep, remove=yes, connections=nodes_wiring.connections()
        )
    if as_json:
        emit({"removed": yes, "nodes": {n: [asdict(i) for i in some] for n, some in going.items()}})
        return
    rows = [(node, ", ".join(image.tags) or "-", _short(image.id), size(image.size))
            for node, some in going.items() for image in some]  # fmt: skip
    if not rows:
        none = f"nothing to remove: no node has more than {keep} builds of {lane} to spare"
        click.echo(clean(none))
        return
    for line in table([("node", "tags", "image", "size"), *rows]):
        click.echo(clean(line))
    click.echo("removed" if yes else "nothing was removed yet: add --yes")


command.add_command(nodes_cache.command)


def _lines(states: Sequence[NodeState], differs: Sequence[str]) -> Iterator[str]:
    head = ("node", "engine", "store", "arch", "free")
    rows = [
        (one.node, one.facts.version, one.facts.store, one.facts.architecture,
         "?" if one.facts.free is None else size(one.facts.free))
        for one in states if one.facts is not None
    ]  # fmt: skip
    yield from table([head, *rows])
    images = [
        (one.node, image.lane or "NO LOCK", image.build_id[:12] or "-", image.gates or "-",
         image.created[:10], _short(image.id), ", ".join(image.tags))
        for one in states for image in one.images
    ]  # fmt: skip
    if not images:
        yield "no images of ours"
        return
    yield ""
    yield from table([("node", "lane", "build", "gates", "from", "image", "tags"), *images])
    yield ""
    yield from differs or ("the same on every node that answered",)


def _json(one: NodeState) -> dict[str, Any]:
    facts = one.facts
    engine = None if facts is None else {
        "version": facts.version, "store": facts.store, "architecture": facts.architecture,
        "free": facts.free, "docker": facts.docker,
    }  # fmt: skip
    return {
        "node": one.node,
        "engine": engine,
        "images": [asdict(image) for image in one.images],
        "finding": None if one.finding is None else findings.finding_json(one.finding),
    }


def _short(image: str) -> str:
    return image.removeprefix("sha256:")[:12]
