"""`headers`: the image's own compiler finds each header, with the image's own settings."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from builder.model.schema import Check
from builder.model.values import Verdict
from builder.steps.gates.compiler import (
    FIND_COMPILER,
    NO_COMPILER_HINT,
    Header,
    first_error,
    told,
)
from builder.steps.gates.gate import CouldNotLook, Evidence, Fault, Gate, Probe, last_line

_STEP = """
if printf %s {source} | $compiler {flags} -x {language} -fsyntax-only - 2>err; then echo "{i}: ok"
else echo "{i}: failed"; sed "s/^/{i}: /" err >&2; fi
"""

Flag = Annotated[
    str,
    Check(
        lambda t: t.startswith(("-I", "-D", "-std=", "-isystem")) and t.isprintable(),
        "-I, -isystem, -D or -std=",
    ),
]


@dataclass(frozen=True, slots=True)
class Headers(Gate):
    """Each header alone is compiled; `flags` as the run time's compiler will get them."""

    kind: ClassVar[str] = "headers"
    headers: tuple[Header, ...]
    language: Literal["c", "c++"] = "c"
    flags: tuple[Flag, ...] = ()
    timeout_s: int = 60

    @property
    def about(self) -> str:
        return ", ".join(self.headers)

    def faults(self) -> Iterator[Fault]:
        if not self.headers:
            yield Fault("headers", "must name at least one header")
        if self.timeout_s < 1:
            yield Fault("timeout-s", "must be 1 or more")

    def probes(self) -> tuple[Probe, ...]:
        steps = [
            _STEP.format(
                source=shlex.quote(f"#include <{header}>\n"),
                flags=shlex.join(self.flags),
                language=self.language,
                i=i,
            )
            for i, header in enumerate(self.headers)
        ]
        return (Probe("compile", FIND_COMPILER + "".join(steps), self.timeout_s),)

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        answer = evidence.answer("compile")
        if answer.stdout.strip() == "no compiler":
            return (self.failed("the image has no C compiler", NO_COMPILER_HINT),)
        said = told(answer.stdout)
        if len(said) < len(self.headers):
            why = f"the probe ended with code {answer.code}: {last_line(answer.stderr)}"
            raise CouldNotLook(why, detail=answer.stderr)
        wrong = []
        for i, header in enumerate(self.headers):
            if said[str(i)] != "ok":
                lines = answer.stderr.splitlines()
                own = "\n".join(s.partition(": ")[2] for s in lines if s.startswith(f"{i}: "))
                wrong.append(self.failed(first_error(own), _hint(own), about=header, detail=own))
        return tuple(wrong) or (self.passed("found and compiled"),)


def _hint(said: str) -> str:
    if "No such file" in said:
        return (
            "install its -dev package in the last stage (CUDA's: the -dev package of that "
            "library), or set CPATH to its folder"
        )
    return "the header is there and does not compile alone: does it need a flag, or C++?"
