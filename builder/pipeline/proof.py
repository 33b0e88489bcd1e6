"""What `verify-lock` says of a lock; imports nothing that an answer from a stamp does not need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from builder.errors import Finding


@dataclass(frozen=True, slots=True)
class Proof:
    """What was proven of one lane's lock."""

    lane: str
    build_id: str  # "" when lane or lock could not be read
    findings: tuple[Finding, ...]
    exit_code: int
    unchecked: tuple[str, ...]  # what this run did not look at, and why
    age_s: int | None = None  # since the proof that still holds; None: proven by this run

    @classmethod
    def stamped(cls, lane: str, answer: Mapping[str, Any], age_s: int) -> Self:
        """The answer of a former run, of which all that it saw is the same."""
        return cls(lane, answer["build-id"], (), 0, tuple(answer["unchecked"]), age_s)

    @property
    def answer(self) -> Mapping[str, Any]:
        """What a stamp keeps of a proof without findings."""
        return {"build-id": self.build_id, "unchecked": list(self.unchecked)}
