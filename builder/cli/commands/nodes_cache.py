"""imgbuild nodes cache"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from builder.cli import board, findings, nodes_wiring, wiring
from builder.cli.options import GivenPath, emit, json_option, lane_argument, lane_named
from builder.cli.text import clean, duration, size, table
from builder.errors import DistributionError, UsageError
from builder.model.caches import CacheOutcome, Unit
from builder.model.nodes import Node
from builder.pipeline import caches
from builder.steps import nodes


@click.group("cache")
def command() -> None:
    """Copy what JIT compilers keep from a warm node to others.

    A lane names the folders under [caches]. They go only to nodes of the same architecture and
    GPU, under the cache fingerprint of the lane's lock.
    """


@command.command()
@lane_argument
@click.option("--nodes", "asked", metavar="NAMES", help="Nodes and groups of nodes.toml, or "
              "user@host; separated by commas.")  # fmt: skip
@click.option("--from", "source", metavar="NODE|FOLDER", help="A warm node, or a folder (with a "
              "/ in it) that a pull made. Default: what this host has.")  # fmt: skip
@json_option
@click.pass_obj
def push(folder: Path, lane: str, asked: str | None, source: str | None, as_json: bool) -> int:
    """Bring the JIT caches of LANE to nodes.

    Copied beside, compared with a manifest, then renamed into place: a node has the former
    cache or the whole new one. What failed on one node stops no other.
    """
    with lane_named():
        known = nodes_wiring.known(folder)
        what = caches.wanted(lane, project=wiring.project(folder))
        chosen = nodes_wiring.choose(known, asked)
        units: Sequence[Unit]
        if source is None:
            units = caches.kept(what, nodes_wiring.jit_store())
        elif "/" in source and not source.startswith("ssh://"):
            units = [caches.opened(what, (folder / source).absolute())]
        else:
            warm = _one(known, source)
            chosen = tuple(n for n in chosen if n.destination != warm.destination)
            if not chosen:
                raise UsageError(f"--nodes names no other node than {warm.name}",
                                 hint="name those that shall get its cache")  # fmt: skip
            units = [_pulled(known, what, warm, None)[0]]
        if not units:
            raise UsageError(
                f"this host has no cache of {lane} {what.key}",
                hint=f"imgbuild nodes cache pull {lane} --from NODE; or push it --from NODE",
            )
        outcomes = caches.push(
            what, units, chosen,
            here=nodes_wiring.here(), connections=nodes_wiring.connections(),
            copier=nodes_wiring.copier(known, shares=len(chosen)), board=board.board(),
        )  # fmt: skip
    wrong = [one.finding for one in outcomes if one.finding is not None]
    if as_json:
        emit(
            {
                "ok": not wrong,
                **_about(units[0]),
                "nodes": [findings.outcome_json(one) for one in outcomes],
            }
        )
    else:
        for line in _lines(outcomes):
            click.echo(clean(line))
        for line in findings.lines(wrong):
            click.echo(line, err=True)
    return DistributionError.exit_code if wrong else 0


@command.command()
@lane_argument
@click.option("--from", "source", metavar="NODE", required=True, help="The warm node.")
@click.option("--to", metavar="FOLDER", type=GivenPath(file_okay=False),
              help="Instead of this host's own place for caches.")  # fmt: skip
@json_option
@click.pass_obj
def pull(folder: Path, lane: str, source: str, to: Path | None, as_json: bool) -> None:
    """Take the JIT caches of LANE from a warm node to this host."""
    with lane_named():
        known = nodes_wiring.known(folder)
        what = caches.wanted(lane, project=wiring.project(folder))
        into = caches.choose_folder(to) if to else None
        unit, outcome = _pulled(known, what, _one(known, source), into)
    if as_json:
        emit(
            {
                "ok": True,
                **_about(unit),
                "folder": unit.folder,
                "node": findings.outcome_json(outcome),
            }
        )
    else:
        click.echo(clean(f"{outcome.state}: {outcome.files} files, {size(unit.size)}"))
        click.echo(clean(unit.folder))


def _pulled(
    known: nodes.Known, what: caches.Wanted, warm: Node, into: Path | None
) -> tuple[Unit, CacheOutcome]:
    return caches.pull(
        what, warm, into,
        store=nodes_wiring.jit_store(), here=nodes_wiring.here(),
        connections=nodes_wiring.connections(), copier=nodes_wiring.copier(known, shares=1),
        board=board.board(),
    )  # fmt: skip


def _one(known: nodes.Known, name: str) -> Node:
    found = nodes_wiring.choose(known, name)
    if len(found) != 1:
        raise UsageError(f"--from {name}: that is {len(found)} nodes", hint="name the warm one")
    return found[0]


def _about(unit: Unit) -> dict[str, Any]:
    return {**asdict(unit.key), "from": unit.node, "bytes": unit.size}


def _lines(outcomes: Sequence[CacheOutcome]) -> Iterator[str]:
    head = ("node", "state", "files", "sent", "time", "reason")
    rows = [
        (one.node, one.state, str(one.files), size(one.sent), duration(one.seconds),
         one.finding.code if one.finding else "-")
        for one in outcomes
    ]  # fmt: skip
    yield from table([head, *rows])
