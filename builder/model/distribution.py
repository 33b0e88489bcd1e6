"""What a push decides by: an image as blobs, nodes as they were found, what goes where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from builder.errors import Finding
from builder.model.nodes import Node

Store = Literal["classic", "containerd"]
Transport = Literal["load", "pull", "registry", "chain"]
Fanout = Literal["auto", "star", "chain"]


@dataclass(frozen=True, slots=True)
class Blob:
    """A layer as the source gives it."""

    digest: str  # of these bytes; of the tar itself when it is not compressed
    size: int  # bytes
    media: str = "application/vnd.oci.image.layer.v1.tar"


@dataclass(frozen=True, slots=True)
class RegistryPlace:
    """A repository of an OCI registry."""

    scheme: str  # http, https
    host: str  # with the port, as docker names it
    repository: str
    is_loopback: bool  # of the build host: nodes reach it through a tunnel

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}"


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where nodes pull the image from, by digest."""

    path: str  # repository@digest
    host: str = ""  # as the nodes' engines name it; "": their end of a tunnel
    target: str = ""  # what a tunnel leads to: a socket or an address of this host
    uploaded: int = 0  # bytes that were not there before


@dataclass(frozen=True, slots=True)
class SourceImage:
    """The image that is pushed, as the build host's engine describes it."""

    id: str  # the engine's: of the config or of the manifest, by its store
    layers: tuple[str, ...]  # diff ids
    tags: tuple[str, ...]
    labels: Mapping[str, str]
    architecture: str
    created: str
    size: int  # bytes, all layers
    digest: str = ""  # of what runs of it, see model/proven

    @property
    def chains(self) -> tuple[str, ...]:
        return chain_ids(self.layers)


@dataclass(frozen=True, slots=True)
class NodeImage:
    """An image that a node has, as its engine describes it."""

    id: str
    layers: tuple[str, ...]
    tags: tuple[str, ...]
    labels: Mapping[str, str]
    architecture: str
    created: str
    size: int


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a node said when it was asked."""

    docker: tuple[str, ...]  # how it is called there: docker, or sudo -n docker
    version: str
    store: Store
    architecture: str  # amd64, arm64
    free: int | None  # bytes where the images lie
    tools: frozenset[str]
    images: tuple[NodeImage, ...]


@dataclass(frozen=True, slots=True)
class NodePlan:
    """What one node gets."""

    node: Node
    facts: NodeFacts
    transport: Transport | None  # None: it has the image
    missing: tuple[int, ...] = ()  # layers, from the lowest
    present: str = ""  # the id that the image has there already
    moves: tuple[str, ...] = ()  # tags that do not name the image there
    is_settled: bool = False  # nothing is left to do or to prove
    via: str = ""  # in a chain: the node that passes it on
    reach: str = ""  # what that node's ssh calls it


@dataclass(frozen=True, slots=True)
class Plan:
    image: SourceImage
    nodes: tuple[NodePlan, ...]
    refused: Mapping[str, Finding] = field(default_factory=dict)  # by node name


@dataclass(frozen=True, slots=True)
class Arrived:
    """What the node's engine says after the transfer."""

    listed: bool  # image ls shows it
    creatable: bool  # a container can be made of it: its content is there
    image: NodeImage | None
    complaint: str = ""
    moved: Mapping[str, str] | None = None  # tag -> former id; None: not proved there


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the push to one node ended."""

    node: str
    state: Literal["pushed", "present", "failed", "planned"]
    seconds: float
    sent: int  # bytes that this host sent for it
    layers: int  # that were missing
    id: str = ""  # what the node's engine calls the image
    proof: str = ""  # what was compared
    tags: tuple[str, ...] = ()  # moved
    previous: Mapping[str, str] = field(default_factory=dict)  # tag -> id it had
    transport: str = ""
    via: str = ""  # the node that passed it on; "": this host, or the receipt's registry
    note: str = ""  # why it was not served as it was meant to
    finding: Finding | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """One push, kept as JSON."""

    id: str  # sorts by time
    started: str  # UTC, ISO 8601
    seconds: float
    lane: str
    build_id: str
    image: str  # the source engine's id
    config: str  # config digest
    layers: tuple[str, ...]
    tags: tuple[str, ...]
    gates: str  # as the label says, "" without one
    forced: bool  # it went although its gates did not pass
    nodes: tuple[Outcome, ...]
    via: str = ""  # where in which registry it was put: host/repository@digest
    uploaded: int = 0  # bytes that the registry lacked
    ahead: Mapping[str, int] = field(default_factory=dict)  # by node: bytes sent before its gates
    findings: tuple[Finding, ...] = ()  # what failed when the nodes were served

    @property
    def is_failed(self) -> bool:
        """Whether a node failed, or what came after."""
        return bool(self.findings) or any(one.state == "failed" for one in self.nodes)


def chain_ids(diff_ids: tuple[str, ...]) -> tuple[str, ...]:
    """The id of each layer together with all below it (OCI image-spec, config.md)."""
    from hashlib import sha256

    chain, found = "", []
    for diff_id in diff_ids:
        text = f"{chain} {diff_id}" if chain else diff_id
        chain = f"sha256:{sha256(text.encode()).hexdigest()}" if chain else diff_id
        found.append(chain)
    return tuple(found)
