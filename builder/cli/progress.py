"""Progress of a pipeline on stderr: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from builder.cli.text import clean, duration, one_line
from builder.ports import Progress, StageLine

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

_NAME = 10  # columns of a stage's name
_TYPED = 2  # columns that stay free for the ^C that a terminal shows: a line that wraps stays
_QUIET_S = 0.05  # a shorter stage shows no time


def progress(stream: TextIO | None = None) -> Progress:
    """The form that fits the stream."""
    out = stream or sys.stderr
    if out.isatty() and os.environ.get("TERM") != "dumb":
        return LiveProgress()
    return PlainProgress(out)


class PlainProgress:
    """One line when a stage begins to say something, one when it is done; for logs."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def title(self, text: str) -> None:
        self._print(text)

    def note(self, text: str) -> None:
        self._print(f"  note: {text}")

    @contextmanager
    def stage(self, name: str) -> Iterator[StageLine]:
        began = time.monotonic()
        line = _PlainLine(self, name)
        try:
            yield line
        except BaseException as error:
            word = "FAILED" if isinstance(error, Exception) else "stopped"
            self._print(f"  {word} {name:{_NAME}} {duration(time.monotonic() - began)}")
            raise
        took = time.monotonic() - began
        word = "ok" if line.good else "FAILED"
        self._print(f"  {word} {name:{_NAME}} {line.text}{_time(took)}")

    def _print(self, text: str) -> None:
        print(clean(text).rstrip(), file=self._out, flush=True)


class _PlainLine:
    """Says something at most once a change of its first word: a stage of the Dockerfile."""

    def __init__(self, owner: PlainProgress, name: str) -> None:
        self._owner, self._name = owner, name
        self._topic, self._last = "", ""
        self.text, self.good = "", True

    def expect(self, seconds: float | None) -> None:
        self._last = f"  ({self._name} took {duration(seconds)} last time)" if seconds else ""

    def say(self, text: str) -> None:
        topic = text.split(" ", 1)[0]
        if topic != self._topic:
            self._topic = topic
            self._owner._print(f"  .. {self._name:{_NAME}} {one_line(text)}{self._last}")
            self._last = ""

    def done(self, text: str, *, good: bool = True) -> None:
        self.text, self.good = text, good


class LiveProgress:
    """One line a stage, the running one with a spinner and its time."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False)

    def title(self, text: str) -> None:
        from rich.text import Text

        name, dot, rest = clean(text).partition(" · ")
        self._console.print(Text.assemble((name, "bold"), dot, rest), soft_wrap=True)

    def note(self, text: str) -> None:
        from rich.text import Text

        self._console.print(Text(f"  {clean(text)}"), soft_wrap=True)

    @contextmanager
    def stage(self, name: str) -> Iterator[StageLine]:
        from rich.live import Live

        line = _LiveLine(name, self._console.width)
        with Live(line, console=self._console, refresh_per_second=8, transient=True) as live:
            line.live = live
            try:
                yield line
            except BaseException:
                live.stop()
                self._console.print(line.ended("✗", "red"))
                raise
        self._console.print(line.ended("✓", "green") if line.good else line.ended("✗", "red"))


class _LiveLine:
    """Renders itself anew at each refresh."""

    live: Live

    def __init__(self, name: str, width: int) -> None:
        from rich.spinner import Spinner

        self._name, self._width = name, width
        self._last: float | None = None
        self._spinner = Spinner("dots")
        self._began = time.monotonic()
        self._now = ""
        self._done, self.good = "", True

    def expect(self, seconds: float | None) -> None:
        self._last = seconds

    def say(self, text: str) -> None:
        self._now = one_line(text)

    def done(self, text: str, *, good: bool = True) -> None:
        self._done, self.good = clean(text), good

    def __rich__(self) -> Text:
        from rich.text import Text

        took = time.monotonic() - self._began
        spin = self._spinner.render(time.monotonic())
        right = duration(took) if took >= 1 else ""
        if self._last is not None and self._last >= 1:
            right += f" of {duration(self._last)} last time"
        glyph = spin if isinstance(spin, Text) else Text("·")
        return self._row(glyph, self._now, right)

    def ended(self, glyph: str, style: str) -> Text:
        from rich.text import Text

        took = time.monotonic() - self._began
        return self._row(Text(glyph, style), self._done or self._now, _shown(took))

    def _row(self, glyph: Text, middle: str, right: str) -> Text:
        from rich.text import Text

        name = f"{self._name:{_NAME}}"
        room = max(8, min(self._width - _TYPED, 100) - len(name) - 6)
        right = right if len(right) < room - 8 else ""
        said = Text(middle)
        said.truncate(room - len(right) - 1, overflow="ellipsis", pad=True)
        return Text.assemble("  ", glyph, " ", f"{name} ", said, " ", (right, "dim"))


def _shown(took: float) -> str:
    return duration(took) if took >= _QUIET_S else ""


def _time(took: float) -> str:
    shown = _shown(took)
    return f"  ({shown})" if shown else ""
