"""`imgbuild push`: the same image on every node, proved."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from builder.errors import UsageError
from builder.model.distribution import Fanout, NodeFacts, Outcome, Plan, Receipt, SourceImage
from builder.model.nodes import Compress, Hooks, Node
from builder.node_ports import Board, Connection, Connections, Layers, Receipts, Source
from builder.pipeline.push_fanout import fanned
from builder.pipeline.push_nodes import Ends, before_all, link_rates, probe_all, settle_present
from builder.pipeline.push_pulls import Move, from_registry, shelve
from builder.pipeline.push_transfer import transfer
from builder.ports import Progress
from builder.steps.distribution import place as placing
from builder.steps.distribution import plan as planning
from builder.steps.labels import BUILD_ID, GATES, LANE
from builder.tools import hooks
from builder.tools.delivery import Limit

_WORTH_PROBING = 100_000_000  # bytes to all nodes; below, the link does not matter


@dataclass(frozen=True, slots=True)
class Options:
    force: bool = False  # push although the gates did not pass
    compress: Compress = "auto"
    limit: float | None = None  # bytes a second, to all nodes together
    transport: str = "auto"  # auto, load or pull
    dry_run: bool = False  # say what would move
    hooks: Hooks = field(default_factory=Hooks)
    batch: int = 64_000_000  # bytes; smaller layers share a load
    registry: str | None = None  # the URL of the one that nodes pull from
    fanout: Fanout = "auto"


def push(
    name: str | None,
    nodes: Sequence[Node],
    options: Options,
    *,
    source: Source,
    connections: Connections,
    receipts: Receipts,
    progress: Progress,
    board: Board,
) -> Receipt:
    """Bring an image to all nodes; what happened on each is in the receipt, which is kept.

    A node's failure is its outcome and stops no other. On a node that failed no tag was moved;
    layers that arrived stay for the next push. Raises: Ungated, UsageError, EngineMissing.
    """
    began, started = time.monotonic(), datetime.now(UTC)
    if not options.dry_run:
        hooks.run_all(options.hooks.before_push, "before-push")
    with ExitStack() as held:
        pool = held.enter_context(ThreadPoolExecutor(max(4, 2 * len(nodes))))
        opened = held.enter_context(connections.open(nodes))  # while it connects:
        image = find(name, source=source)
        planning.check_gates(image, force=options.force)
        tags = planning.tags_to_move(image)
        progress.title(_title(image, nodes))
        place = placing.place(options.registry, image) if options.registry else None
        reading = pool.submit(source.layers, image)
        names = [*(node.name for node in nodes), *([place.host] if place else ())]
        lines = held.enter_context(board.lines(names))
        ends = Ends(image, tags, lines, options.hooks)
        links, facts = probe_all(nodes, opened, ends, pool)
        layers = reading.result()
        anew = _planner(image, tags, layers, options)
        plan, rates = _planned(anew, facts, layers.sizes(), links, options, pool)
        ends.refuse(plan.refused)
        shelf = None
        if options.dry_run:
            ends.planned(plan, layers.sizes())
        else:
            limit = Limit(options.limit)
            ends.expect(plan, layers.sizes())
            if place is not None:
                plan, shelf = shelve(plan, layers, place, ends, limit)
            elif options.transport != "pull":
                plan = fanned(plan, options.fanout, rates, options.limit, links, ends, pool)
            plan = before_all(plan, links, ends, pool)
            move = Move(image, layers, plan, links, ends, opened.folder, limit,
                        _compresses(options, rates), options.batch, anew)  # fmt: skip
            settle_present(plan, links, layers.config_digest(), ends, pool)
            transfer(move, pool)
            if shelf is not None:
                from_registry(move, shelf, pool)
    receipt = _receipt(image, tags, layers, ends.outcomes(nodes), started, began, options)
    if place is not None and shelf is not None:
        receipt = replace(receipt, via=f"{place.host}/{shelf.path}", uploaded=shelf.uploaded)
    if not options.dry_run:
        receipts.write(receipt)
        hooks.run_all(options.hooks.after_push, "after-push")
    return receipt


def find(name: str | None, *, source: Source) -> SourceImage:
    """The newest image of a lane, an image by its reference, or the newest of all."""
    found = source.newest(LANE, name) or (source.find(name) if name else None)
    if found is None:
        raise UsageError(
            f"this host's engine has no image of a lane {name!r} and none by that name"
            if name else "this host's engine has no image that imgbuild built",
            hint="build it: imgbuild build LANE; docker images lists what there is",
        )  # fmt: skip
    return found


class Planner(Protocol):
    """Plans with what is known of an image, without chains."""

    def __call__(self, found: Mapping[Node, NodeFacts], *, is_fast: bool = False) -> Plan: ...


def _planner(image: SourceImage, tags: Sequence[str], layers: Layers, options: Options) -> Planner:
    return partial(
        planning.plan, image, layers.config_digest(), tags=tags,
        can_pull=layers.is_random and options.transport != "load",
        always_pull=options.transport == "pull", in_registry=options.registry is not None,
    )  # fmt: skip


def _planned(
    anew: Planner,
    facts: Mapping[Node, NodeFacts],
    sizes: Sequence[int],
    links: Mapping[str, Connection],
    options: Options,
    pool: ThreadPoolExecutor,
) -> tuple[Plan, Mapping[str, float]]:
    """What goes where; and bytes a second to each node, where that was worth asking."""
    first = anew(facts)
    lacking = [node for node in first.nodes if node.missing]
    total = sum(sizes[i] for node in lacking for i in node.missing)
    if total < _WORTH_PROBING or options.dry_run or options.registry:
        return first, {}
    rates = link_rates([links[node.node.name] for node in lacking], pool)
    is_fast = not planning.needs_compression(list(rates.values()))  # they share our link
    return anew(facts, is_fast=is_fast), rates


def _compresses(options: Options, rates: Mapping[str, float]) -> bool:
    if options.compress != "auto":
        return options.compress == "zstd"
    limited = options.limit is not None
    return limited or planning.needs_compression(list(rates.values()))


def _receipt(
    image: SourceImage,
    tags: Sequence[str],
    layers: Layers,
    outcomes: tuple[Outcome, ...],
    started: datetime,
    began: float,
    options: Options,
) -> Receipt:
    return Receipt(
        id=f"{started:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}",
        started=started.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - began, 3),
        lane=image.labels.get(LANE, ""),
        build_id=image.labels.get(BUILD_ID, ""),
        image=image.id,
        config=layers.config_digest(),
        layers=image.layers,
        tags=tuple(tags),
        gates=image.labels.get(GATES, ""),
        forced=options.force and not planning.passed_gates(image.labels),
        nodes=outcomes,
    )


def _title(image: SourceImage, nodes: Sequence[Node]) -> str:
    name = image.labels.get(LANE) or (image.tags[0] if image.tags else image.id[7:19])
    build = image.labels.get(BUILD_ID, "")
    about = f"build {build[:12]}" if build else f"image {image.id[7:19]}"
    return f"{name} · {about} · {len(nodes)} node{'s' if len(nodes) != 1 else ''}"
