"""`size`: what the image may weigh, and how much more than the lane's image before it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from builder.model.schema import Check
from builder.model.values import Verdict
from builder.steps.gates.gate import Evidence, Fault, Gate

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(B|kB|MB|GB|TB)")
_SHARE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?%")
_UNITS = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}

SizeText = Annotated[
    str, Check(lambda t: _SIZE.fullmatch(t) is not None, 'a size such as "24 GB" or "300 MB"')
]
GrowthText = Annotated[
    str,
    Check(
        lambda t: bool(_SIZE.fullmatch(t) or _SHARE.fullmatch(t)),
        'a size or a share of the former image, such as "500 MB" or "5 %"',
    ),
]


@dataclass(frozen=True, slots=True)
class Size(Gate):
    """Of all layers together, unpacked, as the engine counts them; 1 GB is 10^9 bytes."""

    kind: ClassVar[str] = "size"
    wants: ClassVar[frozenset[Literal["config", "history"]]] = frozenset({"config"})
    max: SizeText | None = None
    growth: GrowthText | None = None

    @property
    def about(self) -> str:
        grown = f"growth {self.growth}" if self.growth else ""
        return ", ".join(part for part in (self.max or "", grown) if part)

    def faults(self) -> Iterator[Fault]:
        if self.max is None and self.growth is None:
            yield Fault("max", "is missing", "name max, growth or both")

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        size, former = evidence.config.size, evidence.facts.former
        verdicts = []
        if self.max is not None:
            limit = _bytes(self.max, 0)
            if size > limit:
                hint = "docker history IMAGE shows which layer it is; raise `max` if it is wanted"
                verdicts.append(
                    self.failed(f"{_shown(size)}, {_shown(size - limit)} over {self.max}", hint)
                )
        if self.growth is not None and former is not None:
            grown = size - former.size
            if grown > _bytes(self.growth, former.size):
                hint = "compare with docker history; with the change wanted: raise `growth`"
                seen = f"{_shown(size)}, {_shown(grown)} more than the lane's image before it"
                verdicts.append(self.failed(f"{seen}; {self.growth} is allowed", hint))
        if verdicts:
            return tuple(verdicts)
        return (self.passed(_shown(size) + self._compared(size, evidence)),)

    def _compared(self, size: int, evidence: Evidence) -> str:
        if self.growth is None:
            return ""
        former = evidence.facts.former
        if former is None:
            return ", and there is no image before it to compare with"
        return f", {'+' if size >= former.size else '-'}{_shown(abs(size - former.size))}"


def _bytes(text: str, whole: int) -> int:
    if share := _SHARE.fullmatch(text):
        return int(whole * float(share[1]) / 100)
    match = _SIZE.fullmatch(text)
    assert match is not None  # SizeText
    return int(float(match[1]) * _UNITS[match[2]])


def _shown(size: int) -> str:
    for unit, factor in reversed(_UNITS.items()):
        if size >= factor:
            return f"{size / factor:.{0 if unit == 'B' else 2}f} {unit}"
    return f"{size} B"
