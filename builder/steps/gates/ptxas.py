"""`ptxas`: each ptxas that the image would use at run time takes the architecture.

Triton brings a ptxas of its own, and uses it whatever CUDA the image has: one that is older
than the GPU refuses `sm_121a` at the first kernel.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from builder.model.schema import Check
from builder.model.values import Verdict
from builder.steps.gates.gate import CouldNotLook, Evidence, Fault, Gate, Probe, one_line

_PTX = """\
.version 7.0
.target sm_75
.address_size 64
.visible .entry imgbuild_probe() { ret; }
"""
_ASK = """
cd "$1" || exit 97
printf %s {ptx} >probe.ptx
for program in {programs}; do
    case $program in */*) [ -x "$program" ] || continue ;; esac
    found=$(command -v "$program") || continue
    version=$("$found" --version 2>/dev/null | sed -n 's/.*release \\([0-9.]*\\).*/\\1/p')
    for arch in {archs}; do
        if "$found" --gpu-name "$arch" probe.ptx -o probe.cubin >said 2>&1; then word=ok
        else word="no $(head -n 1 said)"; fi
        echo "$found|$version|$arch|$word"
    done
done
"""
_PROGRAM = re.compile(r"[A-Za-z0-9._/+*?\[\]-]+")

Arch = Annotated[
    str,
    Check(lambda t: re.fullmatch(r"sm_[1-9][0-9]{1,2}[af]?", t) is not None, "such as sm_121a"),
]
Pattern = Annotated[
    str,
    Check(
        lambda t: _PROGRAM.fullmatch(t) is not None and t[0] != "-" and "**" not in t,
        "a program or its path, in which * and ? may stand within a name",
    ),
]


@dataclass(frozen=True, slots=True)
class Ptxas(Gate):
    """`programs` are names in PATH, or paths; every one that is found must take each arch."""

    kind: ClassVar[str] = "ptxas"
    arch: tuple[Arch, ...]
    programs: tuple[Pattern, ...] = (
        "ptxas",
        "/usr/local/cuda/bin/ptxas",
        "/usr/local/lib/python3*/*-packages/triton/backends/nvidia/bin/ptxas*",
        "/opt/venv/lib/python3*/site-packages/triton/backends/nvidia/bin/ptxas*",
    )
    timeout_s: int = 20

    @property
    def about(self) -> str:
        return ", ".join(self.arch)

    def faults(self) -> Iterator[Fault]:
        if not self.arch:
            yield Fault("arch", "must name at least one architecture", 'such as "sm_121a"')
        if not self.programs:
            yield Fault("programs", "must name at least one program")
        if self.timeout_s < 1:
            yield Fault("timeout-s", "must be 1 or more")

    def probes(self) -> tuple[Probe, ...]:
        script = _ASK.format(
            ptx=shlex.quote(_PTX), programs=" ".join(self.programs), archs=" ".join(self.arch)
        )
        return (Probe("ask", script, self.timeout_s),)

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        answer = evidence.answer("ask")
        rows = [line.split("|", 3) for line in answer.stdout.splitlines()]
        if answer.code or any(len(row) != 4 for row in rows):
            raise CouldNotLook(
                f"the probe ended with code {answer.code}", detail=answer.stdout + answer.stderr
            )
        if not rows:
            hint = "name where it lies by `programs`: /…/triton/backends/nvidia/bin/ptxas"
            return (self.failed("no ptxas in the image", hint),)
        refused = [
            self.failed(f"{_named(row)} refuses {row[2]}: {one_line(row[3][3:])}", _HINT)
            for row in rows
            if row[3] != "ok"
        ]
        names = sorted({_named(row) for row in rows})
        return tuple(dict.fromkeys(refused)) or (self.passed(f"taken by {', '.join(names)}"),)


_HINT = (
    "it is older than the GPU: a newer Triton, or TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas in "
    "the last stage with that CUDA's own"
)


def _named(row: list[str]) -> str:
    return f"{row[0]} {row[1]}".strip()
