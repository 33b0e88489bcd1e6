"""Nodes that pull by digest: from this host's own layers, or from an OCI registry."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from builder.errors import DistributionError, ImgbuildError
from builder.model.distribution import (
    NodeFacts,
    NodePlan,
    Plan,
    RegistryPlace,
    Shelf,
    SourceImage,
)
from builder.model.nodes import Node
from builder.node_ports import Connection, Layers, NodeLine
from builder.pipeline.push_nodes import Ends, settle
from builder.steps.distribution import archives
from builder.steps.distribution.said import megabytes
from builder.tools.delivery import Limit
from builder.tools.load_words import load_failed
from builder.tools.receiver import patience, stalled
from builder.tools.registry_words import pull_failed
from builder.tools.ssh_words import NodeFailed

_PULL_S = 6 * 3600.0
_UNDER_WAY = 8e6  # bytes to a node that may wait for the limit
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
    tag: str  # under which the image arrives
    limit: Limit
    compress: bool
    batch: int  # bytes; smaller layers share a load
    stall_s: float  # without a byte, until a node is given up
    anew: Callable[[Mapping[Node, NodeFacts]], Plan]  # without chains


@dataclass
class Taken:
    """What a node took from here, and since when nothing."""

    patience_s: float = math.inf  # what it takes from a registry is not seen
    count: int = 0  # bytes
    last: float = field(default_factory=time.monotonic)

    def more(self, count: int) -> None:
        self.count += count
        self.last = time.monotonic()

    def is_alive(self) -> bool:
        return time.monotonic() - self.last < self.patience_s


def shelve(
    plan: Plan, layers: Layers, place: RegistryPlace, ends: Ends, limit: Limit
) -> tuple[Plan, Shelf | None]:
    """Put the image into the registry if a node lacks it; when that fails, so do those nodes."""
    line = ends.line(place.host)
    lacking = [node.node.name for node in plan.nodes if node.transport]
    if not lacking:
        line.done("not needed: no node lacks the image", is_good=True)
        return plan, None
    try:
        return plan, _upload(layers, place, line, limit)
    except ImgbuildError as error:
        line.done(str(error), is_good=False)
        for name in lacking:
            ends.fail(name, error)
        return replace(plan, nodes=tuple(n for n in plan.nodes if not n.transport)), None


def _upload(layers: Layers, place: RegistryPlace, line: NodeLine, limit: Limit) -> Shelf:
    """By digest, and only what the registry lacks.

    Raises: RegistryDown, RegistryDenied, RegistryRefused, RegistryDiffers.
    """
    from builder.tools.registry_client import RegistryClient

    client, digests, sent = RegistryClient(place), layers.digests(), 0

    def counted(chunks: Iterable[bytes]) -> Iterator[bytes]:
        nonlocal sent
        for chunk in chunks:
            limit.take(len(chunk))
            yield chunk
            sent += len(chunk)
            line.moved(len(chunk))

    line.say("asking what it has")
    lacks = [i for i, digest in enumerate(digests) if not client.has(digest)]
    line.expect(sum(layers.sizes()[i] for i in lacks))
    line.say("taking layers")
    for blob, chunks in layers.stream(lacks) if lacks else ():
        client.put(blob.digest, blob.size, counted(chunks))
    config, manifest = layers.config(), archives.manifest_of(layers)
    name, digest = archives.digest(config), archives.digest(manifest)
    if not client.has(name):
        client.put(name, len(config), counted([config]))
    client.put_manifest(digest, archives.media(manifest), manifest)
    line.done(f"took {megabytes(sent)}, has {digest[:19]}", is_good=True)
    path = f"{place.repository}@{digest}"
    reached = {"target": place.host} if place.is_loopback else {"host": place.host}
    return Shelf(path, **reached, uploaded=sent)


def from_registry(move: Move, shelf: Shelf, pool: ThreadPoolExecutor) -> None:
    """All nodes that lack the image pull it there, prove it and move the tags."""
    nodes = [node for node in move.plan.nodes if node.transport == "registry"]
    list(pool.map(lambda node: _pull(move, node, shelf, Taken()), nodes))


@contextmanager
def pulling(move: Move, pool: ThreadPoolExecutor) -> Iterator[None]:
    """The nodes that pull from here do so while the block runs; it is left when all ended."""
    pulls = [node for node in move.plan.nodes if node.transport == "pull"]
    if not pulls:
        yield
        return
    from builder.tools.push_registry import Registry

    config, manifest = move.layers.config(), archives.manifest_of(move.layers)
    digest = archives.digest(manifest)
    served = (digest, manifest), (archives.digest(config), config)
    registry, socket = Registry(*served, move.layers, move.limit), move.folder / "registry"

    def one(node: NodePlan) -> None:
        secret, line = secrets.token_hex(12), move.ends.line(node.node.name)
        taken = Taken(_patience(move, node))

        def moved(count: int) -> None:
            taken.more(count)
            line.moved(count)

        registry.clients[secret] = moved
        try:
            _pull(move, node, Shelf(f"{secret}/image@{digest}", "", str(socket)), taken)
        finally:
            del registry.clients[secret]

    with registry.serving(socket):
        ends = [pool.submit(one, node) for node in pulls]
        yield
        for end in ends:
            end.result()


def _patience(move: Move, plan: NodePlan) -> float:
    """Layers are unpacked one after another, maybe when all have come."""
    limit = move.limit.rate
    waits = _UNDER_WAY * len(move.plan.nodes) / limit if limit else 0.0
    return waits + patience(move.stall_s, sum(move.layers.sizes()[i] for i in plan.missing))


def _pull(move: Move, plan: NodePlan, shelf: Shelf, taken: Taken) -> None:
    """One node's pull, from its beginning to its tags."""
    name, config = plan.node.name, move.layers.config_digest()
    try:
        move.ends.line(name).say(f"pulling{' from ' + shelf.host if shelf.host else ''}")
        _try_pull(move.links[name], plan, shelf, move.tag, taken)
    except ImgbuildError as error:
        move.ends.fail(name, error, sent=taken.count)
        return
    manifest = shelf.path.rpartition("@")[2]
    settle(plan, move.links[name], config, manifest, move.ends, sent=taken.count)


def _try_pull(link: Connection, plan: NodePlan, shelf: Shelf, tag: str, taken: Taken) -> None:
    """Pull; again when it was cut, since what came is kept (containerd)."""
    docker = " ".join(plan.facts.docker)
    for left in reversed(range(_TRIES)):
        try:
            with link.tunnel(shelf.target) if shelf.target else nullcontext() as port:
                host = shelf.host or f"127.0.0.1:{port}"
                words = (docker, f"{host}/{shelf.path}", tag)
                taken.more(0)
                link.script(PULL, *words, timeout_s=_PULL_S, is_alive=taken.is_alive)
            return
        except DistributionError as error:
            if not taken.is_alive():
                raise stalled(link.node.name, "takes no more bytes", taken.patience_s) from error
            said = error.findings[0].detail or str(error)
            if plan.transport == "registry":
                known = pull_failed(link, shelf.host or shelf.target, docker, said)
                if type(known) is not NodeFailed or not left:
                    raise known from error
            elif not left or link.closed():
                raise load_failed(link, said) from error
