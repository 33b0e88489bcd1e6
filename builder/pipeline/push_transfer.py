"""Move an image's missing layers: by loads here, straight or in chains; by pulls in push_pulls."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from builder.errors import ImgbuildError
from builder.model.distribution import NodeFacts, NodePlan
from builder.pipeline.push_nodes import settle, settle_present
from builder.pipeline.push_pulls import Move, pulling
from builder.steps.distribution import archives, chain, probe
from builder.steps.distribution.plan import batches
from builder.tools.delivery import deliver
from builder.tools.receiver import Parcel, Receiver
from builder.tools.ssh_guard import GUARD

_CHAINED = 4  # times as much in a load: each one connects every node to the next


def transfer(move: Move, pool: ThreadPoolExecutor) -> None:
    """Bring the image to all nodes that lack it, prove it there and move the tags.

    Who a chain does not reach is asked anew what it has, and gets the rest from here.
    """
    if behind := _transfer(move, pool):
        facts = {plan.node: found for plan in behind if (found := _asked(move, plan)) is not None}
        again = replace(move, plan=move.anew(facts))
        move.ends.refuse(again.plan.refused)
        settle_present(again.plan, move.links, move.layers.config_digest(), move.ends, pool)
        _transfer(again, pool)


def _transfer(move: Move, pool: ThreadPoolExecutor) -> Sequence[NodePlan]:
    """Once; the nodes that chains did not reach."""
    routes = chain.routes(move.plan)
    with pulling(move, pool):
        return _load(move, routes, pool) if routes else ()


def _asked(move: Move, plan: NodePlan) -> NodeFacts | None:
    name = plan.node.name
    try:
        return probe.read(name, move.links[name].script(probe.SCRIPT, timeout_s=60))
    except ImgbuildError as error:
        move.ends.fail(name, error)
        return None


def _load(
    move: Move, routes: Sequence[Sequence[NodePlan]], pool: ThreadPoolExecutor
) -> Sequence[NodePlan]:
    """Send loads to the first of each route; the nodes that did not get them by a chain."""
    heads, all_of = [route[0] for route in routes], [plan for route in routes for plan in route]
    compress = move.compress and bool(shutil.which("zstd"))
    compress = compress and all("zstd" in plan.facts.tools for plan in all_of)
    unpack = chain.ZSTD if compress else chain.PLAIN
    receivers = [
        Receiver(
            move.links[route[0].node.name], [plan.node.name for plan in route],
            partial(chain.command, route, unpack, GUARD),
            [move.ends.line(p.node.name) for p in route], stall_s=move.stall_s,
        )
        for route in routes
    ]  # fmt: skip
    oci = any(plan.facts.store == "containerd" for plan in all_of)
    batch = move.batch * (_CHAINED if len(all_of) > len(heads) else 1)
    parcels = Parcels(move, heads, batch, oci=oci)
    deliver(parcels.each(), receivers, compress=compress, limit=move.limit)
    behind: list[NodePlan] = []

    def end(plan: NodePlan, receiver: Receiver) -> None:
        name, is_first = plan.node.name, plan.transport == "load"
        sent = receiver.sent if is_first else 0
        if receiver.error is None and name in receiver.names:
            settle(plan, move.links[name], move.layers.config_digest(), parcels.manifest,
                   move.ends, sent=sent)  # fmt: skip
        elif receiver.error is not None and is_first and not receiver.is_chain:
            move.ends.fail(name, receiver.error, sent=sent)
        else:
            why = receiver.lost or str(receiver.error)
            move.ends.again(name, f"the chain broke, from here: {why}", sent=sent)
            behind.append(plan)

    by = [receiver for route, receiver in zip(routes, receivers, strict=True) for _ in route]
    list(pool.map(end, all_of, by))
    return behind


class Parcels:
    """The loads of one image, in order; the last one makes the image itself."""

    def __init__(self, move: Move, loads: Sequence[NodePlan], batch: int, *, oci: bool) -> None:
        self._move, self._loads, self._batch, self._oci = move, loads, batch, oci
        self._layers = move.layers
        self.manifest = ""  # digest, known at the end

    def each(self) -> Iterator[Parcel]:
        sizes, needs = self._layers.sizes(), [plan.missing for plan in self._loads]
        if self._layers.is_random and not self._oci:
            loads = batches(sizes, needs, smallest=self._batch) or ((),)
        else:
            loads = (tuple(range(min((n[0] for n in needs if n), default=0), len(sizes))),)
        for i, batch in enumerate(loads):
            is_last = i == len(loads) - 1
            yield self._parcel(batch, None if is_last else batch[-1] + 1)

    def _parcel(self, batch: tuple[int, ...], prefix: int | None) -> Parcel:
        digests = self._layers.digests()
        wanted = {
            plan.node.name: frozenset(digests[i] for i in plan.missing if i in batch)
            for plan in self._loads
        }
        if prefix is not None:  # who lacks none of these needs no load
            wanted = {name: some for name, some in wanted.items() if some}
        name = f"layers {batch[0] + 1}-{batch[-1] + 1} of {len(digests)}" if batch else "config"
        size = sum(self._layers.sizes()[i] for i in batch)
        pieces, tail = partial(self._pieces, batch), partial(self._tail, prefix)
        return Parcel(name, pieces, tail, wanted, size)

    def _pieces(self, batch: tuple[int, ...]) -> Iterator[tuple[str | None, bytes]]:
        if not batch:
            return
        for blob, chunks in self._layers.stream(batch):
            yield blob.digest, archives.member(blob.digest, blob.size)
            for chunk in chunks:
                yield blob.digest, chunk
            yield blob.digest, archives.padding(blob.size)

    def _tail(self, prefix: int | None) -> bytes:
        config, digests = self._layers.config(), self._layers.digests()
        tag = self._move.tag
        if prefix is not None:
            tag = archives.prefix_tag(self._move.image, prefix)
            return archives.tail(archives.prefix_config(config, prefix), digests[:prefix], tag)
        if not self._oci:  # sizes are not needed: to learn them, each layer's list is read
            return archives.tail(config, digests, tag)
        oci = self._layers.manifest() or archives.manifest(config, self._layers.blobs())
        self.manifest = archives.digest(oci)
        return archives.tail(config, digests, tag, oci)
