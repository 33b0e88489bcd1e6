"""`imgbuild push`: the same image on every node, proved."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime

from builder.errors import UsageError
from builder.model.distribution import NodeFacts, Outcome, Plan, Receipt, SourceImage
from builder.model.nodes import Compress, Hooks, Node
from builder.node_ports import Board, Connection, Connections, Layers, Receipts, Source
from builder.pipeline.push_nodes import Ends, before_all, link_rates, probe_all, settle_present
from builder.pipeline.push_transfer import Move, transfer
from builder.ports import Progress
from builder.steps.distribution import plan as planning
from builder.steps.labels import BUILD_ID, GATES, LANE
from builder.tools import hooks

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
    image = None
    if options.hooks.before_push and not options.dry_run:  # before it connects: it may wake nodes
        image = _chosen(name, options, source)
        hooks.run_all(options.hooks.before_push, "before-push", _about(image))
    with ExitStack() as held:
        pool = held.enter_context(ThreadPoolExecutor(max(4, 2 * len(nodes))))
        opened = held.enter_context(connections.open(nodes))  # while it connects:
        image = image or _chosen(name, options, source)
        tags = planning.tags_to_move(image)
        progress.title(_title(image, nodes))
        reading = pool.submit(source.layers, image)
        lines = held.enter_context(board.lines([node.name for node in nodes]))
        ends = Ends(image, tags, lines, options.hooks, _about(image))
        links, facts = probe_all(nodes, opened, ends, pool)
        layers = reading.result()
        plan, rates = _planned(image, tags, layers, links, facts, options, pool)
        ends.refuse(plan.refused)
        if options.dry_run:
            ends.planned(plan, layers.sizes())
        else:
            ends.expect(plan, layers.sizes())
            plan = before_all(plan, links, ends, pool)
            move = Move(image, layers, plan, links, ends, opened.folder, options.limit,
                        _compresses(options, rates), options.batch)  # fmt: skip
            settle_present(plan, links, layers.config_digest(), ends, pool)
            transfer(move, pool)
    receipt = _receipt(image, tags, layers, ends.outcomes(nodes), started, began, options)
    if not options.dry_run:
        receipts.write(receipt)
        result = "failed" if any(one.state == "failed" for one in receipt.nodes) else "ok"
        about = {**_about(image), "IMGBUILD_RESULT": result}
        hooks.run_all(options.hooks.after_push, "after-push", about)
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


def _chosen(name: str | None, options: Options, source: Source) -> SourceImage:
    image = find(name, source=source)
    planning.check_gates(image, force=options.force)
    return image


def _about(image: SourceImage) -> Mapping[str, str]:
    labels, tags = image.labels, planning.tags_to_move(image)
    return hooks.variables(
        labels.get(LANE, ""), labels.get(BUILD_ID, ""), tags[0] if tags else image.id
    )


def _planned(
    image: SourceImage,
    tags: Sequence[str],
    layers: Layers,
    links: Mapping[str, Connection],
    facts: Mapping[Node, NodeFacts],
    options: Options,
    pool: ThreadPoolExecutor,
) -> tuple[Plan, Mapping[str, float]]:
    """What goes where; and bytes a second to each node, where that was worth asking."""
    can_pull = layers.is_random and options.transport != "load"

    def plan(*, is_fast: bool) -> Plan:
        return planning.plan(
            image, layers.config_digest(), facts,
            tags=tags, can_pull=can_pull, always_pull=options.transport == "pull", is_fast=is_fast,
        )  # fmt: skip

    first = plan(is_fast=False)
    sizes = layers.sizes()
    lacking = [node for node in first.nodes if node.missing]
    total = sum(sizes[i] for node in lacking for i in node.missing)
    if total < _WORTH_PROBING or options.dry_run:
        return first, {}
    rates = link_rates([links[node.node.name] for node in lacking], pool)
    is_fast = not planning.needs_compression(list(rates.values()))  # they share our link
    return plan(is_fast=is_fast), rates


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
