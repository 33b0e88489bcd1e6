"""Nodes, and an image's layers, as a push sees them: small Protocols that tools implement."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from subprocess import Popen
from typing import TYPE_CHECKING, Protocol

from builder.errors import ImgbuildError

if TYPE_CHECKING:  # names only: whoever draws a line needs no model
    from builder.model.distribution import Blob, Receipt, SourceImage
    from builder.model.nodes import Node


class Shell(Protocol):
    """Where commands run: a node, or this host."""

    @property
    def node(self) -> Node: ...
    def script(
        self,
        text: str,
        *words: str,
        timeout_s: float,
        lives_on: bool = False,
        is_alive: Callable[[], bool] | None = None,
    ) -> str:
        """Run `sh -s` there; what it wrote. It and what it started end when the time is over, when
        it `is_alive` no more, or the connection is cut; with `lives_on` they go on to their end.

        Raises: NodeFailed, ConnectionLost.
        """

    def stream(
        self, command: str, *, lives_on: bool = False, timeout_s: float | None = None
    ) -> AbstractContextManager[Popen[bytes]]:
        """A running shell command there, with pipes, which end when the time is over; `lives_on`
        as for `script`."""


class Connection(Shell, Protocol):
    """An open connection to a node, shared by all that is done there."""

    @property
    def address(self) -> str:
        """Where this host's ssh finds it: ssh://user@host:port."""

    @property
    def words(self) -> tuple[str, ...]:
        """The words that run a command there, when it follows them."""

    def failed(self, complaint: str) -> ImgbuildError:
        """The error for a command that ended badly there."""

    def tunnel(self, target: str) -> AbstractContextManager[int]:
        """The port on the node's loopback that leads to a socket or address of this host.
        Raises: NoTunnel."""

    def closed(self) -> bool:
        """Whether the connection is gone."""


class Connections(Protocol):
    """Connections of one push; they end with it."""

    def open(self, nodes: Sequence[Node]) -> AbstractContextManager[OpenNodes]: ...


class OpenNodes(Protocol):
    @property
    def folder(self) -> Path:
        """A private folder with a short name, for sockets."""

    def connect(self, node: Node) -> Connection:
        """Raises: HostKeyChanged, HostKeyUnknown, LoginRefused, Unreachable."""

    def cut(self) -> None:
        """End all connections at once: whatever goes on over them fails."""


class Layers(Protocol):
    """The layers of one image of the build host's engine, as blobs."""

    @property
    def is_random(self) -> bool:
        """Whether any layer can be had at any time; else all come once, in the engine's order."""

    def config(self) -> bytes: ...
    def config_digest(self) -> str: ...
    def digests(self) -> tuple[str, ...]:
        """Of each layer's blob, from the lowest; known before anything is read."""

    def manifest(self) -> bytes | None:
        """The image's own manifest, where the source has one."""

    def blobs(self) -> tuple[Blob, ...]:
        """One for each layer, from the lowest. Where nothing is random: only after `stream`."""

    def sizes(self) -> tuple[int, ...]:
        """About how large each layer is, known before it is read."""

    def stream(self, layers: Sequence[int]) -> Iterator[tuple[Blob, Iterator[bytes]]]:
        """The blobs of these layers, each digest once. Raises: LayerDamaged."""

    def read(self, digest: str, offset: int = 0) -> Iterator[bytes]:
        """One blob from a byte on; only where `is_random`."""


class Source(Protocol):
    """The build host's engine, as a push uses it."""

    def find(self, reference: str) -> SourceImage | None: ...
    def newest(self, label: str, value: str | None = None) -> SourceImage | None:
        """The image with this label that was made last."""

    def layers(self, image: SourceImage) -> Layers: ...


class Receipts(Protocol):
    def write(self, receipt: Receipt) -> Path: ...


Moved = Callable[[int], None]
"""Tells how many bytes more went to a node."""


class Copier(Protocol):
    """Copies folders to or from a node, into a folder; the bytes that went. `basis`, from that
    folder, holds what need not go again. Raises: NoSpace, NodeFailed, ConnectionLost."""

    def fetch(
        self, link: Connection, paths: Sequence[str], into: str, *, basis: str, moved: Moved
    ) -> int: ...
    def send(
        self, link: Connection, paths: Sequence[str], into: str, *, basis: str, moved: Moved
    ) -> int: ...


class NodeLine(Protocol):
    """One node's line of progress."""

    def say(self, text: str) -> None: ...
    def expect(self, total: int) -> None:
        """About how many bytes will go to the node."""

    def moved(self, count: int) -> None:
        """So many bytes more went to the node."""

    def done(self, text: str, *, is_good: bool) -> None: ...


class Board(Protocol):
    """A line for each node, while all of them are served at once."""

    def lines(self, names: Sequence[str]) -> AbstractContextManager[Callable[[str], NodeLine]]: ...
