"""One end of a delivery: a thread that feeds a node's loads, two under way at most.

The node may pass on what it gets to others, in a chain; each says `ok NAME` for every load.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
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
STALL_S = 180.0  # Linux itself calls a program hung that waits 120 s for a disk
_UNPACK = 5e6  # bytes a second; a slow disk takes layers in at ten times that
_PIECE = 1 << 16
_END = object()


class Stalled(DistributionError):
    """A node takes no more bytes, or does not come to an end with those that it took."""

    code = "stalled"


def patience(stall_s: float, size: int) -> float:
    """Seconds that an engine may work on so many bytes of layers without taking or saying more."""
    return stall_s + size / _UNPACK


def stalled(node: str, what: str, after_s: float) -> Stalled:
    return Stalled(
        f"{node}: {what} for {after_s:.0f} s: given up",
        hint="look at its disk, its link and its engine (there: docker info; dmesg); the same "
        "push then goes on from the layers that arrived",
    )


@dataclass(frozen=True, slots=True)
class Parcel:
    """`pieces` gives each piece with the digest of the layer that it belongs to (None: for
    all); `wanted` says which of them each node lacks."""

    name: str  # for people: "layers 3-5 of 9"
    pieces: Callable[[], Iterator[tuple[str | None, bytes]]]
    tail: Callable[[], bytes]  # asked when all pieces were given
    wanted: Mapping[str, frozenset[str]]
    size: int = 0  # about, of all its layers as they are unpacked


@dataclass(frozen=True, slots=True)
class Tail:
    data: bytes


@dataclass(frozen=True, slots=True)
class _Load:
    process: Popen[bytes]
    size: int


class Receiver:
    """Feeds the loads of `names`, the first over `link`; `command` is for so many of them.

    A node that takes no byte for `stall_s`, or does not end a load in reasonable time, is given up.

    `error` says why it ended early. In a chain `names` shrinks to those that still follow, and
    `lost` says of the first that does not what was heard.
    """

    def __init__(
        self,
        link: Connection,
        names: Sequence[str],
        command: Callable[[int], str],
        lines: Sequence[NodeLine],
        *,
        stall_s: float = STALL_S,
    ) -> None:
        self.names, self.lost = tuple(names), ""
        self.is_chain = len(self.names) > 1
        self._command = command
        self._link, self._lines = link, lines
        self._items: queue.Queue[object] = queue.Queue(_QUEUED)
        self._running: list[_Load] = []
        self._stack = contextlib.ExitStack()
        self._stall_s = stall_s
        self.error: ImgbuildError | None = None
        self.sent = 0
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    @property
    def name(self) -> str:
        return self._link.node.name

    def put(self, item: object) -> None:
        """Give it the next item, unless it has ended: how long that may take, it sees to itself."""
        while self.error is None:
            with contextlib.suppress(queue.Full):
                self._items.put(item, timeout=0.5)
                return

    def finish(self) -> None:
        """No more comes: wait for its last load."""
        self.put(_END)
        self._thread.join()

    def stop(self, error: ImgbuildError) -> None:
        self.error = self.error or error
        for running in self._running:
            with contextlib.suppress(OSError):
                running.process.kill()
        with contextlib.suppress(queue.Full):
            self._items.put_nowait(_END)  # where it waits for an item

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
            running = self._stack.enter_context(self._link.stream(self._command(len(self.names))))
            assert running.stdin is not None
            os.set_blocking(running.stdin.fileno(), False)
            self._running.append(_Load(running, item.size))
        elif isinstance(item, Tail):
            self._settle(1)
            self._write(item.data)
            running = self._running[-1].process
            assert running.stdin is not None
            running.stdin.close()
            running.stdin = None
        else:
            assert isinstance(item, bytes)
            self._write(item)

    def _write(self, data: bytes) -> None:
        stdin = self._running[-1].process.stdin
        assert stdin is not None
        try:
            self._write_all(stdin.fileno(), memoryview(data))
        except BrokenPipeError:
            for running in list(self._running):
                running.process.stdin = None
                self._check(running)
            raise
        self.sent += len(data)
        for line in self._lines:
            line.moved(len(data))

    def _write_all(self, pipe: int, rest: memoryview) -> None:
        room, since = select.poll(), time.monotonic()
        room.register(pipe, select.POLLOUT)
        while rest and self.error is None:
            if room.poll(500):
                with contextlib.suppress(BlockingIOError):
                    rest, since = rest[os.write(pipe, rest[:_PIECE]) :], time.monotonic()
            elif time.monotonic() - since > self._stall_s:
                raise stalled(self.name, "takes no more bytes", self._stall_s)

    def _settle(self, keep: int) -> None:
        """Wait until all loads but the last `keep` have ended well."""
        while len(self._running) > keep:
            self._check(self._running[0])
            self._running.pop(0)

    def _check(self, load: _Load) -> None:
        running, limit_s = load.process, patience(self._stall_s, load.size)
        try:
            out, err = running.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise stalled(self.name, "docker load does not end", limit_s) from None
        if running.returncode:
            raise self._ended((err.strip() or out).decode("utf-8", "replace"))
        if len(self.names) > 1:
            said = set(out.decode("utf-8", "replace").splitlines())
            follow = tuple(takewhile(lambda name: f"ok {name}" in said, self.names))
            if len(follow) < len(self.names):
                heard = err.decode("utf-8", "replace").strip().splitlines()
                self.lost = self.lost or (heard or ["it said nothing"])[-1]
                self.names = follow or self.names[:1]

    def _ended(self, complaint: str) -> ImgbuildError:
        return load_failed(self._link, complaint)
