"""What the steps of a build printed, from the logs that tools/buildx writes.

A step that came from the cache printed nothing this time. What it printed when it ran is in the
log of an earlier build: of the newest one in which a step ran to its end that was made from the
same (see step_inputs; each log begins with that of its steps).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_LINE = re.compile(r"\s*[0-9]+\.[0-9]{3} (?:\[(?P<place>[^\]]+)\] )?(?P<text>.*)", re.DOTALL)
_CLIPPED = re.compile(r"\[output clipped, log limit .* reached\]")  # BuildKit's own line
_CACHED = "cached: "


@dataclass(frozen=True, slots=True)
class LogStep:
    """One RUN."""

    stage: str  # as BuildKit names it, in small letters: "kern-cuda", "stage-7"
    number: str  # in its stage: "2/3"

    def __str__(self) -> str:
        return f"{self.stage} {self.number}"


@dataclass(frozen=True, slots=True)
class BuildLog:
    printed: Mapping[LogStep, tuple[str, ...]]
    unseen: tuple[LogStep, ...] = ()  # from the cache, and in no log that is here
    clipped: tuple[LogStep, ...] = ()  # the engine kept the beginning of what they printed

    def of_stage(self, name: str) -> BuildLog:
        """That of one stage; "" is the whole."""
        if not name:
            return self
        return BuildLog(
            {step: lines for step, lines in self.printed.items() if step.stage == name.lower()},
            tuple(step for step in self.unseen if step.stage == name.lower()),
            tuple(step for step in self.clipped if step.stage == name.lower()),
        )


@dataclass(slots=True)
class _Try:
    """One of the tries of a build."""

    lines: dict[LogStep, list[str]] = field(default_factory=dict)
    done: set[LogStep] = field(default_factory=set)
    cached: set[LogStep] = field(default_factory=set)


@dataclass(slots=True)
class _One:
    """One log, taken apart."""

    made_from: dict[LogStep, str]
    ran: dict[LogStep, tuple[str, ...]]
    cached: list[LogStep]  # or not in the log at all


def read(logs: Sequence[Path]) -> BuildLog:
    """The first log, completed from those behind it. Raises: OSError for the first."""
    now = _parse(logs[0])
    found = dict(now.ran)
    missing = now.cached
    for log in logs[1:]:
        if not missing:
            break
        try:
            older = _parse(log)
        except OSError:
            continue
        by_digest = {older.made_from.get(step): lines for step, lines in older.ran.items()}
        known = {step: now.made_from[step] for step in missing if step in now.made_from}
        found |= {step: by_digest[key] for step, key in known.items() if key in by_digest}
        missing = [step for step in missing if step not in found]
    clipped = (step for step, lines in found.items() if any(map(_CLIPPED.fullmatch, lines)))
    return BuildLog(found, tuple(missing), tuple(clipped))


def _parse(log: Path) -> _One:
    lines = log.read_text("utf-8", "replace").split("\n")
    matches = [match for match in map(_LINE.fullmatch, lines) if match]
    told = [m["text"].split() for m in matches if m["place"] == "imgbuild"]
    made_from = {LogStep(words[0], words[1]): words[2] for words in told if len(words) == 3}
    # BuildKit does not name the stage of a Dockerfile that has one.
    alone = next(iter(made_from)).stage if len({s.stage for s in made_from}) == 1 else ""
    ran: dict[LogStep, tuple[str, ...]] = {}
    cached: dict[LogStep, None] = {}
    for each in _tries(matches, alone):
        for step in each.done:
            if each.lines[step] or step not in each.cached:
                ran[step] = tuple(each.lines[step])
        cached |= dict.fromkeys(sorted(each.cached, key=str))
    return _One(made_from, ran, [step for step in {**made_from, **cached} if step not in ran])


def _tries(matches: Iterable[re.Match[str]], alone: str) -> list[_Try]:
    tries = [_Try()]
    for match in matches:
        place, text = match["place"], match["text"]
        if place is None and ": trying again in " in text:
            tries.append(_Try())
        if place is None or place in ("buildkit", "imgbuild"):
            continue
        now, step = tries[-1], _step(place, alone)
        if text.startswith("  ") and step in now.lines:
            now.lines[step].append(text[2:])
        elif text.startswith("done in ") and step in now.lines:
            now.done.add(step)
        elif text.startswith(f"{_CACHED}RUN "):
            now.cached.add(step)
        elif text.startswith("RUN "):
            now.lines.setdefault(step, [])
    return tries


def _step(place: str, alone: str) -> LogStep:
    words = place.split()
    stage = words[-2] if len(words) > 1 and "/" not in words[-2] else alone
    return LogStep(stage.lower(), words[-1])
