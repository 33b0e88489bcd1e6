"""Stages as they pass: shown to the person, timed for the record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from builder.model.values import StageTime
from builder.ports import Progress, StageLine

Last = Callable[[str], float | None]
"""What a stage took the last time that it did the work of which it speaks; "" as it begins."""


class Timeline:
    """Stages of one run: what each took and said is kept.

    `last` gives the time of a stage in a run before, by its name.
    """

    def __init__(self, progress: Progress, last: Mapping[str, Last] | None = None) -> None:
        self._progress = progress
        self._last = last or {}
        self._began = time.monotonic()
        self.stages: list[StageTime] = []

    @property
    def seconds(self) -> float:
        return round(time.monotonic() - self._began, 3)

    @contextmanager
    def stage(self, name: str) -> Iterator[StageLine]:
        began = time.monotonic()
        said = _Said()
        try:
            with self._progress.stage(name) as line:
                yield _Both(line, said, self._last.get(name, lambda _: None))
        finally:
            took = round(time.monotonic() - began, 3)
            self.stages.append(StageTime(name, took, said.text))


class Silent:
    """Progress that nobody is told of."""

    def title(self, text: str) -> None: ...
    def note(self, text: str) -> None: ...
    @contextmanager
    def stage(self, name: str) -> Iterator[StageLine]:  # noqa: ARG002
        yield self

    def expect(self, seconds: float | None) -> None: ...
    def say(self, text: str) -> None: ...
    def done(self, text: str, *, good: bool = True) -> None: ...


class _Said:
    text = ""


class _Both:
    def __init__(self, line: StageLine, said: _Said, last: Last) -> None:
        self._line, self._said, self._last = line, said, last
        self._expected: float | None = None
        self.expect(last(""))

    def expect(self, seconds: float | None) -> None:
        if seconds != self._expected:
            self._expected = seconds
            self._line.expect(seconds)

    def say(self, text: str) -> None:
        self.expect(self._last(text))
        self._line.say(text)

    def done(self, text: str, *, good: bool = True) -> None:
        self._said.text = text
        self._line.done(text, good=good)
