"""`log`: what the build must have printed, and what it must not.

A configure step that leaves kernels out says so in a line, and goes on. The log holds what each
step printed when it ran, also where the step came from the cache this time (see build_log).
What was not printed can be told of a log only that is whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from builder.model.values import Verdict
from builder.steps.gates import build_log
from builder.steps.gates.build_log import BuildLog
from builder.steps.gates.gate import CouldNotLook, Evidence, Fault, Gate

_BETWEEN = re.compile(r"[\s;,]+")
_CLIPPED = (
    "let it print less, or give dockerd BUILDKIT_STEP_LOG_MAX_SIZE=-1 and "
    "BUILDKIT_STEP_LOG_MAX_SPEED=-1 (systemctl edit docker: Environment=…) and restart it; then "
    "imgbuild build LANE --no-cache"
)


@dataclass(frozen=True, slots=True)
class Log(Gate):
    """Regular expressions, looked for in each line.

    `architectures` has one group: what it finds must hold all of the lane's cuda-arch-list.
    """

    kind: ClassVar[str] = "log"
    must: tuple[str, ...] = ()
    must_not: tuple[str, ...] = ()
    architectures: str = ""
    stage: str = ""  # of the Dockerfile; "": all

    @property
    def about(self) -> str:
        return f"stage {self.stage}" if self.stage else "the build"

    def faults(self) -> Iterator[Fault]:
        if not (self.must or self.must_not or self.architectures):
            yield Fault("must", "is missing", "name must, must-not or architectures")
        keys = {
            "must": self.must,
            "must-not": self.must_not,
            "architectures": (self.architectures,),
        }
        for key, texts in keys.items():
            for text in texts:
                try:
                    groups = re.compile(text).groups
                except re.error as error:
                    yield Fault(key, f"{text!r} is no regular expression: {error}")
                else:
                    if key == "architectures" and text and groups != 1:
                        yield Fault(key, "must have one group, around the list")

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        log = _read(evidence).of_stage(self.stage)
        if not (log.printed or log.unseen):
            raise CouldNotLook(f"no RUN of {self.about} is in the log")
        lines = [line for printed in log.printed.values() for line in printed]
        wrong = [*self._unwanted(lines, log), *self._missing(lines, log)]
        wrong += self._architectures(lines, log, evidence.facts.cuda_arch_list)
        return tuple(wrong) or (self.passed(_as_they_must_be(len(lines))),)

    def _unwanted(self, lines: list[str], log: BuildLog) -> Iterator[Verdict]:
        for text in self.must_not:
            found = [line for line in lines if re.search(text, line)]
            if found:
                hint = "read the lines before it in the log: a condition of configuring is not met"
                yield self.failed(
                    f"a line that must not be there: {found[0]}", hint, detail="\n".join(found[:20])
                )
            else:
                _check_whole(log)

    def _missing(self, lines: list[str], log: BuildLog) -> Iterator[Verdict]:
        for text in self.must:
            if not any(re.search(text, line) for line in lines):
                _check_whole(log)
                yield self.failed(f"no line matches {text!r}", "was that part built at all?")

    def _architectures(self, lines: list[str], log: BuildLog, asked: str) -> Iterator[Verdict]:
        if not self.architectures:
            return
        found = [m for line in lines if (m := re.search(self.architectures, line))]
        lacking = [(m, names) for m in found if (names := _listed(asked) - _listed(m[1] or ""))]
        if not lacking:
            _check_whole(log)
        if not found:
            yield self.failed(f"no line matches {self.architectures!r}")
        for match, missing in lacking:
            yield self.failed(
                f"asked for {asked}, effective is {match[1]}: without {', '.join(missing)}",
                "a list of supported architectures (of CMake, torch or this CUDA) lacks it, "
                "and the build falls back without an error",
            )


def _check_whole(log: BuildLog) -> None:
    """Raises: CouldNotLook, where more was printed than is here."""
    if log.unseen:
        names = ", ".join(dict.fromkeys(step.stage for step in log.unseen))
        raise CouldNotLook(
            f"steps of {names} came from the cache, and no log here holds what they printed",
            hint="run them again: imgbuild build LANE --no-cache",
        )
    if log.clipped:
        raise CouldNotLook(
            f"the engine cut off what {', '.join(map(str, log.clipped))} printed", hint=_CLIPPED
        )


def _as_they_must_be(count: int) -> str:
    return f"{count} lines are as they must be" if count != 1 else "1 line is as it must be"


def _read(evidence: Evidence) -> BuildLog:
    try:
        if evidence.facts.logs:
            return build_log.read(evidence.facts.logs)
    except OSError as error:
        raise CouldNotLook(f"the log of the build cannot be read: {error}") from error
    raise CouldNotLook(
        "the log of this image's build is not on this machine",
        hint="gates on the log hold for images that were built here (imgbuild history)",
    )


def _listed(text: str) -> set[str]:
    return {word for word in _BETWEEN.split(text.strip()) if word}
