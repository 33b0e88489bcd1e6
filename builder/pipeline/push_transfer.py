"""Move an image's missing layers: by loads here, by pulls in push_pulls."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from builder.model.distribution import NodePlan
from builder.node_ports import Layers
from builder.pipeline.push_nodes import settle
from builder.pipeline.push_pulls import Move, pulling
from builder.steps.distribution import archives
from builder.steps.distribution.plan import batches
from builder.tools.delivery import deliver
from builder.tools.receiver import Parcel, Receiver


def transfer(move: Move, pool: ThreadPoolExecutor) -> None:
    """Bring the image to all nodes that lack it, prove it there and move the tags."""
    loads = [n for n in move.plan.nodes if n.transport == "load"]
    with pulling(move, pool):
        if loads:
            _load(move, loads, pool)


def _load(move: Move, loads: Sequence[NodePlan], pool: ThreadPoolExecutor) -> None:
    compress = move.compress and bool(shutil.which("zstd"))
    compress = compress and all("zstd" in plan.facts.tools for plan in loads)
    receivers = {
        plan.node.name: Receiver(
            move.links[plan.node.name], plan.facts.docker, move.ends.line(plan.node.name),
            unpack="zstd -dcq | " if compress else "",
        )
        for plan in loads
    }  # fmt: skip
    oci = any(plan.facts.store == "containerd" for plan in loads)
    parcels = Parcels(move.layers, loads, move.batch, oci=oci)
    deliver(parcels.each(), list(receivers.values()), compress=compress, limit=move.limit)
    config = move.layers.config_digest()

    def end(plan: NodePlan) -> None:
        receiver, name = receivers[plan.node.name], plan.node.name
        if receiver.error is not None:
            move.ends.fail(name, receiver.error, sent=receiver.sent)
        else:
            settle(plan, move.links[name], config, parcels.manifest, move.ends, sent=receiver.sent)

    list(pool.map(end, loads))


class Parcels:
    """The loads of one image, in order; the last one makes the image itself."""

    def __init__(self, layers: Layers, loads: Sequence[NodePlan], batch: int, *, oci: bool) -> None:
        self._layers, self._loads, self._batch, self._oci = layers, loads, batch, oci
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
        return Parcel(name, partial(self._pieces, batch), partial(self._tail, prefix), wanted)

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
        tag = archives.transfer_tag(self._layers.config_digest(), prefix)
        if prefix is not None:
            return archives.tail(archives.prefix_config(config, prefix), digests[:prefix], tag)
        if not self._oci:  # sizes are not needed: to learn them, each layer's list is read
            return archives.tail(config, digests, tag)
        oci = self._layers.manifest() or archives.manifest(config, self._layers.blobs())
        self.manifest = archives.digest(oci)
        return archives.tail(config, digests, tag, oci)
