"""`ptxas`: each ptxas that the image would use at run time takes the architecture.

Triton brings a ptxas of its own, and uses it whatever CUDA the image has: one that is older
than the GPU refuses `sm_121a` at the first kernel. What TRITON_PTXAS_PATH names takes its place.
A newer Triton has a second one for sm_100 and later, ptxas-blackwell, with a variable of its own.
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
_ASK = r"""
cd "$1" || exit 97
printf %s {ptx} >probe.ptx
ask() { # a program, architectures
    asked=$1
    shift
    version=$("$asked" --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p')
    for arch; do
        if "$asked" --gpu-name "$arch" probe.ptx -o probe.cubin >said 2>&1; then word=ok
        else word="no $(head -n 1 said)"; fi
        echo "$asked|$version|$arch|$word"
    done
}
runs() { # a variable of Triton's, and what it names
    [ -z "$2" ] || "$2" --version >/dev/null 2>&1 || { echo "$2||$1|no"; return 1; }
}
plain=${TRITON_PTXAS_PATH:-} blackwell=${TRITON_PTXAS_BLACKWELL_PATH:-}
runs TRITON_PTXAS_PATH "$plain" || plain=
runs TRITON_PTXAS_BLACKWELL_PATH "$blackwell" || blackwell=
for program in {programs}; do
    case $program in */*) [ -x "$program" ] || continue ;; esac
    found=$(command -v "$program") || continue
    ask "$found" {old} {new}
done
sites=
IFS=:
for each in $PATH; do sites="$sites ${each%/*}/lib/python3*/*-packages"; done
for each in ${PYTHONPATH:-}; do sites="$sites $each"; done
unset IFS
triton=
for site in $sites {sites}; do
    folder=$site/triton/backends/nvidia/bin
    case "$site $triton" in /proc/*|/sys/*|*" $folder "*) continue ;; esac
    [ -d "$folder" ] || continue
    triton="$triton $folder "
    if [ -e "$folder/ptxas-blackwell" ]; then
        ask "${plain:-$folder/ptxas}" {old}
        ask "${blackwell:-$folder/ptxas-blackwell}" {new}
    else
        ask "${plain:-$folder/ptxas}" {old} {new}
    fi
done
if [ -z "$triton" ]; then
    [ -z "$plain" ] || ask "$plain" {old} {new}
    [ -z "$blackwell" ] || ask "$blackwell" {new}
fi
"""
_BLACKWELL = 100
_SITES = tuple(
    f"{folder}/lib/python3*/*-packages"
    for folder in ("", "/*", "/*/*", "/*/*/*", "/.venv", "/*/.venv", "/*/*/.venv")
)
"""Where a Triton may lie beside the folders of PATH and PYTHONPATH: in a venv that is started by
its path."""
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
    """`programs` are names in PATH, or paths; every one that is found must take each arch, and
    so must what Triton takes, its own or what its variables name."""

    kind: ClassVar[str] = "ptxas"
    arch: tuple[Arch, ...]
    programs: tuple[Pattern, ...] = ("ptxas", "/usr/local/cuda/bin/ptxas")
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
        new = [arch for arch in self.arch if int(arch.strip("sm_af")) >= _BLACKWELL]
        script = _ASK
        for name, words in (
            ("ptx", [shlex.quote(_PTX)]),
            ("programs", self.programs),
            ("sites", _SITES),
            ("old", [arch for arch in self.arch if arch not in new]),
            ("new", new),
        ):
            script = script.replace(f"{{{name}}}", " ".join(words))
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
        refused = [self._refusal(row) for row in rows if row[3] != "ok"]
        names = sorted({_named(row) for row in rows})
        return tuple(dict.fromkeys(refused)) or (self.passed(f"taken by {', '.join(names)}"),)

    def _refusal(self, row: list[str]) -> Verdict:
        if row[2].startswith("TRITON_"):
            hint = "which stage makes it? Triton takes its own without a word then"
            return self.failed(f"{row[2]} names {row[0]}, which does not run", hint)
        return self.failed(f"{_named(row)} refuses {row[2]}: {one_line(row[3][3:])}", _HINT)


_HINT = (
    "it is older than the GPU: a newer Triton, or TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas in "
    "the last stage with that CUDA's own (of a Triton that has it, TRITON_PTXAS_BLACKWELL_PATH)"
)


def _named(row: list[str]) -> str:
    return f"{row[0]} {row[1]}".strip()
