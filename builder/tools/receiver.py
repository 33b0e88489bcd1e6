"""One end of a delivery: a thread that feeds a node's loads, two under way at most.

The node may pass on what it gets to others, in a chain; each says `ok NAME` for every load.
"""

from __future__ import annotations

import contextlib
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from subprocess import Popen

from builder.errors import DistributionError, ImgbuildError
from builder.node_ports import Connection, NodeLine
from builder.tools.load_words import load_failed

_QUEUED = 24  # pieces of at most 1 MB for each node
_STALL_S = 60.0
_LOAD_S = 3600.0  # the engine's own work after the last byte
_END = object()


class Stalled(DistributionError):
    """A node takes no more bytes."""

    code = "stalled"


@dataclass(frozen=True, slots=True)
class Parcel:
    """`pieces` gives each piece with the digest of the layer that it belongs to (None: for
    all); `wanted` says which of them each node lacks."""

    name: str  # for people: "layers 3-5 of 9"
    pieces: Callable[[], Iterator[tuple[str | None, bytes]]]
    tail: Callable[[], bytes]  # asked when all pieces were given
    wanted: Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Tail:
    data: bytes


class Receiver:
    """Feeds the loads of `names`, the first over `link`; `command` is for so many of them.

    `error` says why it ended early. In a chain `names` shrinks to those that still follow, and
    `lost` says of the first that does not what was heard.
    """

    def __init__(
        self,
        link: Connection,
        names: Sequence[str],
        command: Callable[[int], str],
        lines: Sequence[NodeLine],
    ) -> None:
        self.names, self.lost = tuple(names), ""
        self.is_chain = len(self.names) > 1
        self._command = command
        self._link, self._lines = link, lines
        self._items: queue.Queue[object] = queue.Queue(_QUEUED)
        self._running: list[Popen[bytes]] = []
        self._stack = contextlib.ExitStack()
        self._waits = False  # for the engine, not for the link
        self.error: ImgbuildError | None = None
        self.sent = 0
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    @property
    def name(self) -> str:
        return self._link.node.name

    def put(self, item: object) -> None:
        """Give it the next item; a node that takes nothing for a minute is given up."""
        since = time.monotonic()
        while self.error is None:
            with contextlib.suppress(queue.Full):
                self._items.put(item, timeout=0.5)
                return
            if self._waits:
                since = time.monotonic()
            if time.monotonic() - since > _STALL_S:
                self.stop(Stalled(f"{self.name} takes no more bytes",
                                  hint="look at its disk and link, then run it again"))  # fmt: skip

    def finish(self) -> None:
        """No more comes: wait for its last load."""
        self.put(_END)
        self._thread.join()

    def stop(self, error: ImgbuildError) -> None:
        self.error = self.error or error
        for running in self._running:
            with contextlib.suppress(OSError):
                running.kill()

    def _work(self) -> None:
        try:
            with self._stack:
                while self.error is None:
                    item = self._items.get()
                    if item is _END:
                        self._settle(0)
                        return
                    self._take(item)
        except ImgbuildError as error:
            self.error = self.error or error
        except OSError as error:
            self.error = self.error or self._ended(str(error))

    def _take(self, item: object) -> None:
        if isinstance(item, Parcel):
            for line in self._lines:
                line.say(item.name)
            self._running.append(
                self._stack.enter_context(self._link.stream(self._command(len(self.names))))
            )
        elif isinstance(item, Tail):
            self._settle(1)
            self._write(item.data)
            stdin = self._running[-1].stdin
            assert stdin is not None
            stdin.close()
            self._running[-1].stdin = None
        else:
            assert isinstance(item, bytes)
            self._write(item)

    def _write(self, data: bytes) -> None:
        stdin = self._running[-1].stdin
        assert stdin is not None
        try:
            stdin.write(data)
            stdin.flush()
        except BrokenPipeError:
            for running in list(self._running):
                running.stdin = None
                self._check(running)
            raise
        self.sent += len(data)
        for line in self._lines:
            line.moved(len(data))

    def _settle(self, keep: int) -> None:
        """Wait until all loads but the last `keep` have ended well."""
        self._waits = True
        while len(self._running) > keep:
            self._check(self._running[0])
            self._running.pop(0)
        self._waits = False

    def _check(self, running: Popen[bytes]) -> None:
        try:
            out, err = running.communicate(timeout=_LOAD_S)
        except subprocess.TimeoutExpired:
            raise Stalled(
                f"{self.name}: docker load does not end", hint="look at the node"
            ) from None
        if running.returncode:
            raise self._ended((err or out).decode("utf-8", "replace"))
        if len(self.names) > 1:
            said = set(out.decode("utf-8", "replace").splitlines())
            follow = tuple(takewhile(lambda name: f"ok {name}" in said, self.names))
            if len(follow) < len(self.names):
                heard = err.decode("utf-8", "replace").strip().splitlines()
                self.lost = self.lost or (heard or ["it said nothing"])[-1]
                self.names = follow or self.names[:1]

    def _ended(self, complaint: str) -> ImgbuildError:
        return load_failed(self._link, complaint)
