"""Move an image's missing layers: loads to classic stores, pulls to containerd stores."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from builder.errors import DistributionError, ImgbuildError
from builder.model.distribution import NodePlan, Plan, SourceImage
from builder.node_ports import Connection, Layers
from builder.pipeline.push_nodes import Ends, settle
from builder.steps.distribution import archives
from builder.steps.distribution.plan import batches
from builder.tools.delivery import Limit, deliver
from builder.tools.load_words import load_failed
from builder.tools.push_registry import Registry
from builder.tools.receiver import Parcel, Receiver

_PULL_S = 6 * 3600.0
_TRIES = 3
PULL = r"""
d=$1; ref=$2; tag=$3
$d pull -q "$ref" >/dev/null && $d tag "$ref" "$tag" && $d image rm "$ref" >/dev/null
"""


@dataclass(frozen=True, slots=True)
class Move:
    """One push's transfers."""

    image: SourceImage
    layers: Layers
    plan: Plan
    links: Mapping[str, Connection]
    ends: Ends
    folder: Path  # private, for sockets
    limit: float | None
    compress: bool
    batch: int  # bytes; smaller layers share a load


def transfer(move: Move, pool: ThreadPoolExecutor) -> None:
    """Bring the image to all nodes that lack it, prove it there and move the tags."""
    limit = Limit(move.limit)
    loads = [n for n in move.plan.nodes if n.transport == "load"]
    pulls = [n for n in move.plan.nodes if n.transport == "pull"]
    with _pulling(move, pulls, limit, pool):
        if loads:
            _load(move, loads, limit, pool)


@contextmanager
def _pulling(
    move: Move, pulls: Sequence[NodePlan], limit: Limit, pool: ThreadPoolExecutor
) -> Iterator[None]:
    """The nodes that pull do so while the block runs; it is left when all have ended."""
    if not pulls:
        yield
        return
    config = move.layers.config()
    manifest = move.layers.manifest() or archives.manifest(config, move.layers.blobs())
    digest = archives.digest(manifest)
    served = (digest, manifest), (archives.digest(config), config)
    registry, socket = Registry(*served, move.layers, limit), move.folder / "registry"
    with registry.serving(socket):
        ends = [pool.submit(_pull, move, plan, registry, socket, digest) for plan in pulls]
        yield
        for end in ends:
            end.result()


def _pull(move: Move, plan: NodePlan, registry: Registry, socket: Path, manifest: str) -> None:
    name, sent = plan.node.name, 0
    line, secret = move.ends.line(name), secrets.token_hex(12)
    tag = archives.transfer_tag(move.layers.config_digest())

    def moved(count: int) -> None:
        nonlocal sent
        sent += count
        line.moved(count)

    registry.clients[secret] = moved
    try:
        line.say("pulling")
        _try_pull(move.links[name], plan, socket, f"{secret}/image@{manifest}", tag)
    except ImgbuildError as error:
        move.ends.fail(name, error, sent=sent)
        return
    finally:
        del registry.clients[secret]
    config = move.layers.config_digest()
    settle(plan, move.links[name], config, manifest, move.ends, sent=sent)


def _try_pull(link: Connection, plan: NodePlan, socket: Path, path: str, tag: str) -> None:
    """Pull through a tunnel; again when it was cut, since what came is kept (containerd)."""
    docker = " ".join(plan.facts.docker)
    for left in reversed(range(_TRIES)):
        try:
            with link.tunnel(socket) as port:
                link.script(PULL, docker, f"127.0.0.1:{port}/{path}", tag, timeout_s=_PULL_S)
            return
        except DistributionError as error:
            if not left or link.closed():
                raise load_failed(link, error.findings[0].detail or str(error)) from error


def _load(move: Move, loads: Sequence[NodePlan], limit: Limit, pool: ThreadPoolExecutor) -> None:
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
    deliver(parcels.each(), list(receivers.values()), compress=compress, limit=limit)
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
