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
    def stage(self, name: str, *, last_s: float | None = None) -> Iterator[StageLine]:
        began = time.monotonic()
        line = _PlainLine(self, name, last_s)
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

    def __init__(self, owner: PlainProgress, name: str, last_s: float | None) -> None:
        self._owner, self._name, self._last = owner, name, last_s
        self._topic = ""
        self.text, self.good = "", True

    def say(self, text: str) -> None:
        topic = text.split(" ", 1)[0]
        if topic != self._topic:
            self._topic = topic
            last = f"  ({self._name} took {duration(self._last)} last time)" if self._last else ""
            self._last = None
            self._owner._print(f"  .. {self._name:{_NAME}} {one_line(text)}{last}")

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
    def stage(self, name: str, *, last_s: float | None = None) -> Iterator[StageLine]:
        from rich.live import Live

        line = _LiveLine(name, last_s, self._console.width)
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

    def __init__(self, name: str, last_s: float | None, width: int) -> None:
        from rich.spinner import Spinner

        self._name, self._last, self._width = name, last_s, width
        self._spinner = Spinner("dots")
        self._began = time.monotonic()
        self._now = ""
        self._done, self.good = "", True

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

        room = max(20, min(self._width, 100) - _NAME - 6)
        left = room - len(right) - 1 if right else room
        if len(middle) > left:
            middle = middle[: left - 1] + "…"
        return Text.assemble(
            "  ", glyph, " ", f"{self._name:{_NAME}} ", middle.ljust(left), " ", (right, "dim")
        )


def _shown(took: float) -> str:
    return duration(took) if took >= _QUIET_S else ""


def _time(took: float) -> str:
    shown = _shown(took)
    return f"  ({shown})" if shown else ""
