"""Bring an image's layers to nodes: ask, choose the ways, move, prove, tag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from builder.model.distribution import Fanout, NodeFacts, Plan, RegistryPlace, Shelf, SourceImage
from builder.model.nodes import Compress, Hooks, Node
from builder.node_ports import Connection, Layers, OpenNodes
from builder.pipeline.push_fanout import chained
from builder.pipeline.push_nodes import (
    Ends,
    before_all,
    held,
    link_rates,
    probe_all,
    settle_present,
)
from builder.pipeline.push_pulls import Move, from_registry, shelve
from builder.pipeline.push_transfer import transfer
from builder.steps.distribution import archives
from builder.steps.distribution import plan as planning
from builder.tools.delivery import Limit
from builder.tools.receiver import STALL_S

BATCH = 64_000_000
_WORTH_PROBING = 100_000_000  # bytes to all nodes; below, the link does not matter


@dataclass(frozen=True, slots=True)
class Options:
    force: bool = False  # push although the gates did not pass
    compress: Compress = "auto"
    limit: float | None = None  # bytes a second, to all nodes together
    transport: str = "auto"  # auto, load or pull
    dry_run: bool = False  # say what would move
    hooks: Hooks = field(default_factory=Hooks)
    batch: int = BATCH  # bytes; smaller layers share a load
    stall_s: float = STALL_S  # without a byte, until a node is given up
    registry: str | None = None  # the URL of the one that nodes pull from
    fanout: Fanout = "auto"


def bring(
    nodes: Sequence[Node],
    reading: Future[Layers],
    options: Options,
    ends: Ends,
    opened: OpenNodes,
    pool: ThreadPoolExecutor,
    place: RegistryPlace | None = None,
) -> tuple[Layers, Shelf | None]:
    """Bring `ends.image` to all nodes; how that ended on each is in `ends`.

    The layers, and where the image was put in the registry.
    """
    image = ends.image
    links, facts = probe_all(nodes, opened, ends, pool)
    layers = reading.result()
    anew = _planner(image, ends.tags, layers, options)
    plan, rates = _planned(anew, facts, layers.sizes(), links, options, pool)
    ends.refuse(plan.refused)
    fan = partial(fanned, options=options, rates=rates, links=links, ends=ends, pool=pool)
    if options.dry_run:
        ends.planned(fan(plan), layers.sizes())
        return layers, None
    limit, shelf = Limit(options.limit), None
    ends.expect(plan, layers.sizes())
    if place is not None:
        plan, shelf = shelve(plan, layers, place, ends, limit)
    tag = archives.transfer_tag(image, layers.config_digest())
    if ends.is_ahead:
        tag = archives.prefix_tag(image, len(image.layers))
    move = Move(image, layers, plan, links, ends, opened.folder, tag, limit,
                _compresses(options, rates), options.batch, options.stall_s, anew)  # fmt: skip
    try:
        move = replace(move, plan=fan(before_all(plan, links, ends, pool)))
        with held(move.plan, links, ends):
            settle_present(move.plan, links, layers.config_digest(), ends, pool)
            transfer(move, pool)
            if shelf is not None:
                from_registry(move, shelf, pool)
    except BaseException:
        ends.cut_off()
        raise
    return layers, shelf


def fanned(
    plan: Plan,
    options: Options,
    rates: Mapping[str, float],
    links: Mapping[str, Connection],
    ends: Ends,
    pool: ThreadPoolExecutor,
) -> Plan:
    """The plan with chains, where loads may go by some."""
    if options.registry is not None or options.transport == "pull":
        return plan
    return chained(plan, options.fanout, rates, options.limit, links, ends, pool)


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
    if total < _WORTH_PROBING or options.registry:
        return first, {}
    asked = lacking[:1] if options.fanout == "chain" else lacking
    rates = link_rates([links[node.node.name] for node in asked], pool)
    is_fast = not planning.needs_compression(list(rates.values()))  # they share our link
    return anew(facts, is_fast=is_fast), rates


def _compresses(options: Options, rates: Mapping[str, float]) -> bool:
    if options.compress != "auto":
        return options.compress == "zstd"
    limited = options.limit is not None
    return limited or planning.needs_compression(list(rates.values()))
