"""`env`: a variable of the image's environment, as its config has it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from builder.model.ids import EnvName
from builder.model.values import Verdict
from builder.steps.gates.gate import Evidence, Fault, Gate


@dataclass(frozen=True, slots=True)
class Env(Gate):
    """`contains` is one of the parts between colons: a folder of PATH or LIBRARY_PATH."""

    kind: ClassVar[str] = "env"
    wants: ClassVar[frozenset[Literal["config", "history"]]] = frozenset({"config"})
    name: EnvName
    value: str | None = None
    contains: str | tuple[str, ...] = ()
    matches: str = ""  # a regular expression of Python, for the whole value
    absent: bool = False

    @property
    def about(self) -> str:
        return self.name

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.contains,) if isinstance(self.contains, str) else self.contains

    def faults(self) -> Iterator[Fault]:
        if self.absent and (self.value is not None or self.parts or self.matches):
            yield Fault("absent", "leaves nothing for value, contains or matches to hold")
        try:
            re.compile(self.matches)
        except re.error as error:
            yield Fault("matches", f"is no regular expression: {error}")

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        env = evidence.config.env
        value = env.get(self.name)
        if self.absent:
            if value is None:
                return (self.passed("is not set"),)
            hint = "no ENV unsets it: leave it out where it is set, or in the base"
            return (self.failed(f"is set: {value!r}", hint),)
        if value is None:
            near = difflib.get_close_matches(self.name, env, n=3, cutoff=0.7)
            there = f" (the image has {', '.join(near)})" if near else ""
            hint = "ENV in the Dockerfile's last stage: what an earlier stage sets is not inherited"
            return (self.failed(f"is not set{there}", hint),)
        return (self.held(value),)

    def held(self, value: str) -> Verdict:
        """Whether a value is as it must be."""
        if self.value is not None and value != self.value:
            hint = "ENV in the last stage has the last word; a base may set it too"
            return self.failed(f"is {value!r}, not {self.value!r}", hint)
        missing = [part for part in self.parts if part not in value.split(":")]
        if missing:
            hint = f"ENV {self.name}={':'.join(missing)}:${self.name} in the last stage"
            return self.failed(f"is {value!r}, without {', '.join(missing)}", hint)
        if self.matches and not re.fullmatch(self.matches, value):
            return self.failed(f"is {value!r}, which does not match {self.matches!r}")
        return self.passed(repr(value))
