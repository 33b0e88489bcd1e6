"""What the steps of a build printed, from the logs that tools/buildx writes.

A step that came from the cache printed nothing this time. What it printed when it ran is in the
log of an earlier build, the newest one in which the same instruction of the same stage ran.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_LINE = re.compile(r"\s*[0-9]+\.[0-9]{3} \[(?P<place>[^\]]+)\] (?P<text>.*)")
_CACHED = "cached: "


@dataclass(frozen=True, slots=True)
class LogStep:
    stage: str  # as BuildKit names it: "kern-cuda", "stage-7"
    instruction: str


@dataclass(frozen=True, slots=True)
class BuildLog:
    printed: tuple[tuple[LogStep, str], ...]  # each line, with its step
    unseen: tuple[LogStep, ...]  # from the cache, and in no log that is here


@dataclass(slots=True)
class _One:
    """One log, taken apart."""

    ran: dict[LogStep, list[str]] = field(default_factory=dict)
    cached: list[LogStep] = field(default_factory=list)


def read(logs: Sequence[Path]) -> BuildLog:
    """The first log, completed from those behind it. Raises: OSError for the first."""
    now = _parse(logs[0].read_text("utf-8", "replace").splitlines())
    found = {**now.ran}
    missing = [step for step in now.cached if _runs(step)]
    for log in logs[1:]:
        if not missing:
            break
        try:
            older = _parse(log.read_text("utf-8", "replace").splitlines())
        except OSError:
            continue
        found.update({step: older.ran[step] for step in missing if step in older.ran})
        missing = [step for step in missing if step not in older.ran]
    printed = tuple((step, line) for step, lines in found.items() for line in lines)
    return BuildLog(printed, tuple(missing))


def _parse(lines: Iterable[str]) -> _One:
    one = _One()
    running: dict[str, LogStep] = {}
    for line in lines:
        match = _LINE.match(line)
        if match is None or match["place"] == "buildkit":
            continue
        place, text = match["place"], match["text"]
        if text.startswith(_CACHED):
            one.cached.append(LogStep(_stage(place), _same(text.removeprefix(_CACHED))))
        elif text.startswith("  ") and place in running:
            one.ran[running[place]].append(text[2:])
        elif place not in running and not text.startswith(("  ", "done in ", "canceled ")):
            step = LogStep(_stage(place), _same(text))
            running[place] = step
            one.ran[step] = []
    return one


def _runs(step: LogStep) -> bool:
    """Only RUN prints what programs say."""
    return step.instruction[:4].upper().startswith("RUN")


def _same(text: str) -> str:
    return " ".join(text.split())


def _stage(place: str) -> str:
    words = place.split()
    return words[-2] if len(words) > 1 else place
