"""`entrypoint`: what the image starts, and that the program is there."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from builder.model.values import Verdict
from builder.steps.gates.gate import Evidence, Fault, Gate, Probe, one_line

_FIND = """
case {program} in
*/*) [ -e {program} ] || {{ echo "no such file"; exit 0; }}
     [ -x {program} ] || {{ echo "not executable"; exit 0; }} ;;
*) command -v {program} >/dev/null 2>&1 || {{ echo "not in PATH"; exit 0; }} ;;
esac
echo found
"""


@dataclass(frozen=True, slots=True)
class Entrypoint(Gate):
    """`entrypoint` and `cmd` as in the JSON forms of ENTRYPOINT and CMD; `[]` is none.

    `program` is one that must be startable in the image: by a path, or found by its PATH.
    """

    kind: ClassVar[str] = "entrypoint"
    wants: ClassVar[frozenset[Literal["config", "history"]]] = frozenset({"config"})
    entrypoint: tuple[str, ...] | None = None
    cmd: tuple[str, ...] | None = None
    program: str | None = None

    @property
    def about(self) -> str:
        words = self.entrypoint or self.cmd or ((self.program,) if self.program else ())
        return one_line(shlex.join(words))[:60] or "none"

    def faults(self) -> Iterator[Fault]:
        if self.entrypoint is None and self.cmd is None and self.program is None:
            yield Fault("entrypoint", "is missing", "name entrypoint, cmd or program")
        if self._started() is not None and not self._started():
            yield Fault("program", "must name a program")

    def probes(self) -> tuple[Probe, ...]:
        program = self._started()
        if not program:
            return ()
        return (Probe("find", _FIND.format(program=shlex.quote(program)), 5),)

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        has = evidence.config
        wrong = [
            self.failed(f"{word} is {_shown(found)}, not {_shown(wanted)}", hint)
            for word, wanted, found, hint in (
                ("ENTRYPOINT", self.entrypoint, has.entrypoint,
                 "the last stage's ENTRYPOINT, in its JSON form, or its base's"),
                ("CMD", self.cmd, has.command,
                 "an ENTRYPOINT in the last stage takes away the CMD of its base"),
            )
            if wanted is not None and wanted != found
        ]  # fmt: skip
        if self._started():
            answer = evidence.answer("find")
            said = answer.stdout.strip() or f"the probe ended with code {answer.code}"
            if said != "found":
                hint = "which stage makes it, and is it copied, and executable, in the last one?"
                wrong.append(self.failed(f"{self._started()}: {said}", hint))
        return tuple(wrong) or (self.passed("is what the image starts"),)

    def _started(self) -> str | None:
        if self.program is not None:
            return self.program
        words = self.entrypoint if self.entrypoint is not None else self.cmd
        return words[0] if words else None


def _shown(words: tuple[str, ...]) -> str:
    return "none" if not words else f"[{', '.join(map(repr, words))}]"
