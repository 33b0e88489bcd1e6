"""`command`: a command that must end well and print what it should."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from builder.model.values import Verdict
from builder.steps.gates.gate import Answer, Evidence, Fault, Gate, Probe, last_line, one_line


@dataclass(frozen=True, slots=True)
class Command(Gate):
    """`run` is a list of words, or text for sh; it runs in the image's working directory."""

    kind: ClassVar[str] = "command"
    run: str | tuple[str, ...]
    timeout_s: int = 20
    expect_code: int = 0
    stdout_contains: str | tuple[str, ...] = ()
    stdout_matches: str = ""  # a regular expression of Python, found anywhere

    @property
    def about(self) -> str:
        text = one_line(self.script)
        return text if len(text) <= 60 else f"{text[:59]}…"

    @property
    def script(self) -> str:
        return self.run if isinstance(self.run, str) else shlex.join(self.run)

    @property
    def texts(self) -> tuple[str, ...]:
        wanted = self.stdout_contains
        return (wanted,) if isinstance(wanted, str) else wanted

    def faults(self) -> Iterator[Fault]:
        if not self.script.strip() or "\0" in self.script:
            yield Fault("run", "must name a command")
        if self.timeout_s < 1:
            yield Fault("timeout-s", "must be 1 or more")
        try:
            re.compile(self.stdout_matches)
        except re.error as error:
            yield Fault("stdout-matches", f"is no regular expression: {error}")

    def probes(self) -> tuple[Probe, ...]:
        return (Probe("run", self.script, self.timeout_s),)

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        answer = evidence.answer("run")
        printed = answer.stdout + answer.stderr
        if answer.code != self.expect_code:
            said = last_line(answer.stderr if answer.stderr.strip() else answer.stdout)
            hint = "the image has no such program in its PATH" if answer.code == 127 else ""
            seen = f"ended with code {answer.code}, not {self.expect_code}: {said}"
            return (self.failed(seen, hint, detail=printed),)
        if wrong := self._wrong(answer):
            return (self.failed(f"{wrong}: {last_line(answer.stdout)}", detail=printed),)
        return (self.passed(f"code {answer.code} in {answer.seconds:.1f} s"),)

    def _wrong(self, answer: Answer) -> str:
        missing = [text for text in self.texts if text not in answer.stdout]
        if missing:
            return f"its output does not hold {', '.join(map(repr, missing))}"
        if not re.search(self.stdout_matches, answer.stdout, re.MULTILINE):
            return f"its output does not match {self.stdout_matches!r}"
        return ""
