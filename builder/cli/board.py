"""One line a node while all are served at once: live on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from builder.cli.text import clean, duration, one_line, size
from builder.node_ports import Board, NodeLine

if TYPE_CHECKING:
    from rich.text import Text

_EVERY_S = 5.0  # between plain lines of one node


def board(stream: TextIO | None = None) -> Board:
    out = stream or sys.stderr
    if out.isatty() and os.environ.get("TERM") != "dumb":
        return LiveBoard()
    return PlainBoard(out)


class Meter:
    """Bytes that went, and how fast over the last seconds."""

    def __init__(self) -> None:
        self.count = 0
        self._marks = [(time.monotonic(), 0)]

    def add(self, count: int) -> None:
        self.count += count
        now = time.monotonic()
        if now - self._marks[-1][0] > 0.25:
            self._marks = [*self._marks[-12:], (now, self.count)]

    @property
    def rate(self) -> float:
        (then, before), now = self._marks[0], time.monotonic()
        return (self.count - before) / max(0.1, now - then)

    def shown(self, total: int) -> str:
        """`120.0 MB of 1.1 GB, 98.0 MB/s, 10 s left`"""
        if not self.count:
            return ""
        of = f" of {size(total)}" if total > self.count else ""
        text = f"{size(self.count)}{of}, {size(self.rate)}/s"
        if total > self.count and self.rate > 1:
            text += f", {duration((total - self.count) / self.rate)} left"
        return text


class PlainBoard:
    """A line when a node begins something, now and then while bytes go, and at its end."""

    def __init__(self, out: TextIO) -> None:
        self._out, self._lock = out, threading.Lock()

    @contextmanager
    def lines(self, names: Sequence[str]) -> Iterator[Callable[[str], NodeLine]]:
        width = max(map(len, names), default=0)
        made = {name: _PlainLine(self, f"{clean(name):{width}}") for name in names}
        yield made.__getitem__

    def write(self, text: str) -> None:
        with self._lock:
            print(clean(text).rstrip(), file=self._out, flush=True)


class _PlainLine:
    def __init__(self, owner: PlainBoard, name: str) -> None:
        self._owner, self._name = owner, name
        self._meter, self._total = Meter(), 0
        self._said, self._last = "", time.monotonic()
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self._owner.write(f"  .. {self._name} {one_line(text)}")

    def expect(self, total: int) -> None:
        self._total = total

    def moved(self, count: int) -> None:
        self._meter.add(count)
        if time.monotonic() - self._last > _EVERY_S:
            self._last = time.monotonic()
            self._owner.write(f"  .. {self._name} {self._said}: {self._meter.shown(self._total)}")

    def done(self, text: str, *, is_good: bool) -> None:
        took = duration(time.monotonic() - self._began)
        self._owner.write(
            f"  {'ok' if is_good else 'FAILED'} {self._name} {one_line(text)}  ({took})"
        )


class LiveBoard:
    """All nodes' lines, drawn anew a few times a second."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False)

    @contextmanager
    def lines(self, names: Sequence[str]) -> Iterator[Callable[[str], NodeLine]]:
        from rich.console import Group
        from rich.live import Live

        width = max(map(len, names), default=0)
        made = {name: _LiveLine(f"{clean(name):{width}}", self._console.width) for name in names}
        with Live(Group(*made.values()), console=self._console, refresh_per_second=8):
            yield made.__getitem__


class _LiveLine:
    def __init__(self, name: str, width: int) -> None:
        self._name, self._width = name, width
        self._meter, self._total = Meter(), 0
        self._said, self._end = "waiting", ""
        self._glyph, self._style = "·", ""
        self._began, self._took = time.monotonic(), 0.0

    def say(self, text: str) -> None:
        self._said = one_line(text)

    def expect(self, total: int) -> None:
        self._total = total

    def moved(self, count: int) -> None:
        self._meter.add(count)

    def done(self, text: str, *, is_good: bool) -> None:
        self._glyph, self._style = ("✓", "green") if is_good else ("✗", "red")
        self._took, self._end = time.monotonic() - self._began, one_line(text)

    def __rich__(self) -> Text:
        from rich.text import Text

        right = duration(self._took or time.monotonic() - self._began)
        moved = self._meter.shown(self._total)
        middle = self._end or (f"{self._said}: {moved}" if moved else self._said)
        room = max(20, min(self._width - 2, 110) - len(self._name) - 6)
        left = room - len(right) - 1
        if len(middle) > left:
            middle = middle[: left - 1] + "…"
        return Text.assemble("  ", (self._glyph, self._style), " ", self._name, " ",
                             middle.ljust(left), " ", (right, "dim"))  # fmt: skip
