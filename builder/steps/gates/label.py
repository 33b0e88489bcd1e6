"""`label`: a label that the Dockerfile or its base gives the image.

Gates run before imgbuild labels an image, so this sees what the candidate has of its own:
LABEL instructions, and what its base brings. imgbuild's own labels come after, and only then.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from builder.model.schema import Check
from builder.model.values import Verdict
from builder.steps.gates.gate import Evidence, Fault, Gate

_OWN = ("io.imgbuild.",)
_OVERWRITTEN = ("title", "version", "revision", "created", "ref.name")  # org.opencontainers.image.

LabelName = Annotated[
    str, Check(lambda t: re.fullmatch(r"[A-Za-z0-9][\w./-]*", t) is not None, "a label's name")
]


@dataclass(frozen=True, slots=True)
class Label(Gate):
    """`value` is the whole value, `matches` a regular expression for it."""

    kind: ClassVar[str] = "label"
    wants: ClassVar[frozenset[Literal["config", "history"]]] = frozenset({"config"})
    name: LabelName
    value: str | None = None
    matches: str = ""
    absent: bool = False

    @property
    def about(self) -> str:
        return self.name

    def faults(self) -> Iterator[Fault]:
        short = self.name.removeprefix("org.opencontainers.image.")
        if self.name.startswith(_OWN) or (short != self.name and short in _OVERWRITTEN):
            yield Fault(
                "name", f"{self.name} is set by imgbuild itself, after the gates",
                "imgbuild inspect IMAGE shows it; a gate sees the Dockerfile's own labels",
            )  # fmt: skip
        if self.absent and (self.value is not None or self.matches):
            yield Fault("absent", "leaves nothing for value or matches to hold")
        try:
            re.compile(self.matches)
        except re.error as error:
            yield Fault("matches", f"is no regular expression: {error}")

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        labels = evidence.config.labels
        value = labels.get(self.name)
        if value is None:
            if self.absent:
                return (self.passed("is not there"),)
            near = difflib.get_close_matches(self.name, labels, n=3, cutoff=0.7)
            there = f" (the image has {', '.join(near)})" if near else ""
            hint = "LABEL in the Dockerfile's last stage, or a base that brings it"
            return (self.failed(f"is not there{there}", hint),)
        if self.absent:
            hint = "it comes from a LABEL of the last stage or from its base"
            return (self.failed(f"is there: {value!r}", hint),)
        if self.value is not None and value != self.value:
            return (self.failed(f"is {value!r}, not {self.value!r}", "correct LABEL, or the gate"),)
        if self.matches and not re.fullmatch(self.matches, value):
            return (self.failed(f"is {value!r}, which does not match {self.matches!r}"),)
        return (self.passed(repr(value)),)
