"""Gates that cannot hold, whatever is built: the lane itself says otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from builder.errors import Finding, Place
from builder.model.lane import Lane
from builder.model.lock import Lock
from builder.steps.gates import Gate
from builder.steps.gates.cuda_arch import CudaArch, parsed
from builder.steps.gates.env import Env
from builder.steps.gates.fatbin import Architecture
from builder.steps.gates.package import Package, fits
from builder.steps.preflight.values import Valued

_ENTRY = re.compile(r"([0-9]+)\.([0-9])([af]?)(\+PTX)?")
_LIST = re.compile(r"[A-Z0-9_]*CUDA_ARCH_LIST")

Level = Literal["error", "warning"]


def contradictions(
    gates: Sequence[tuple[Gate, Place]], lane: Lane, lock: Lock | None, last: Valued
) -> Iterator[Finding]:
    """What gates want and the architecture list, the environment or the locked debs deny."""
    env = {**(last.steps[-1].env if last.steps else {}), **lane.env}
    made = _made(lane.build.cuda_arch_list)
    versions = {deb.name: deb.version for deb in lock.debs.values()} if lock else {}
    for gate, place in gates:
        if isinstance(gate, CudaArch) and made:
            yield from _architectures(gate, made, lane, place)
        elif isinstance(gate, Env) and _LIST.fullmatch(gate.name) and gate.name in env:
            yield from _environment(gate, env, place)
        elif isinstance(gate, Package) and gate.name in versions:
            version = versions[gate.name]
            if not fits(version, gate.version):
                what = f"the gate package {gate.name} wants version {gate.version}, the lock has "
                hint = "change the gate, or what is locked"
                yield Finding("gate-contradicts", f"{what}{version}", hint, place=place)


def _made(text: str) -> frozenset[Architecture]:
    """What a list makes compilers build for; empty where it cannot be said ("Hopper")."""
    found: set[Architecture] = set()
    for word in re.split(r"[\s;,]+", text.strip()):
        match = _ENTRY.fullmatch(word)
        if match is None:
            return frozenset()
        number = int(match[1] + match[2])
        found.add(Architecture(number, match[3], False))
        if match[4]:
            found.add(Architecture(number, match[3], True))
    return frozenset(found)


def _architectures(
    gate: CudaArch, made: frozenset[Architecture], lane: Lane, place: Place
) -> Iterator[Finding]:
    text = lane.build.cuda_arch_list
    gives = ", ".join(str(arch) for arch in sorted(made))
    for name in gate.require:
        level = _contradicts(parsed(name), made, allow_ptx=gate.allow_ptx)
        if level is not None:
            yield Finding(
                "gate-contradicts",
                f"the gate cuda-arch {gate.about} requires {name}, and cuda-arch-list {text!r} "
                f"gives {gives}",
                "correct build.cuda-arch-list, or the gate: these are different targets",
                place=place, level=level,
            )  # fmt: skip
    for name in sorted({str(arch) for arch in made} & set(gate.forbid)):
        yield Finding(
            "gate-contradicts",
            f"the gate cuda-arch {gate.about} forbids {name}, which cuda-arch-list {text!r} gives",
            "correct build.cuda-arch-list or the gate", place=place,
        )  # fmt: skip


def _contradicts(
    wanted: Architecture, made: frozenset[Architecture], *, allow_ptx: bool
) -> Level | None:
    """A warning for what a library that comes built may hold: it runs on the lane's GPUs."""
    if wanted in made or (allow_ptx and any(arch.ptx for arch in made)):
        return None
    runs = any(
        wanted.number // 10 == arch.number // 10 and wanted.number <= arch.number for arch in made
    )
    return "warning" if (runs and wanted.suffix != "a") or wanted.ptx else "error"


def _environment(gate: Env, env: Mapping[str, str], place: Place) -> Iterator[Finding]:
    verdict = gate.held(env[gate.name])
    if gate.absent or not verdict.passed:
        seen = f"is set: {env[gate.name]!r}" if gate.absent else verdict.seen
        yield Finding(
            "gate-contradicts", f"the gate env {gate.name}: in the last stage it {seen}",
            "correct build.cuda-arch-list, the Dockerfile's ENV, or the gate", place=place,
        )  # fmt: skip
