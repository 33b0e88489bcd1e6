"""Whether each stage that compiles device code is told for which GPU.

A list that is inherited works until somebody changes what the stage is built FROM; one that is
not inherited gives kernels for other GPUs, and an error at the first request that needs them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from builder.errors import Finding, Place
from builder.steps.preflight.compiles import Compile
from builder.steps.preflight.shell import known
from builder.steps.preflight.values import Valued

VARIABLE = "TORCH_CUDA_ARCH_LIST"
_BETWEEN = re.compile(r"[\s;,]+")
_OTHER = re.compile(
    r"[A-Z_]*(?:ARCH_LIST|CUDA_ARCH[A-Z_]*|CUDAARCHS|GPU_ARCHS|SM_ARCH[A-Z_]*|NVCC_[A-Z]*PEND_FLAGS)"
)
"""Variables that tell compilers for which GPU, each in its own way."""
_OWN = "give the stage its own: ARG TORCH_CUDA_ARCH_LIST, then ENV TORCH_CUDA_ARCH_LIST=${…}"


def architectures(
    stage: Valued, found: Sequence[Compile], wanted: str, file: Path, *, aware: bool
) -> Iterator[Finding]:
    """The findings of one stage. `aware`: something in the Dockerfile speaks of the list."""
    told = set()
    for each in found:
        finding = _one(stage, each, wanted, file, aware=aware)
        if finding is not None and finding.code not in told:
            told.add(finding.code)
            yield finding


def _one(stage: Valued, each: Compile, wanted: str, file: Path, *, aware: bool) -> Finding | None:
    values = {} if each.command.clean else dict(each.at.values)
    place = Place(file, each.run.line)
    source = f" {each.source}" if each.source else ""
    who = f"stage {stage.stage.title} compiles{source} with {each.tool}"
    has = values.get(VARIABLE)
    if VARIABLE in each.command.env:
        has = known(each.command.env[VARIABLE], {**values, **each.command.env, VARIABLE: has or ""})
        if has is None:
            return None
    if has and not _same(has, wanted):
        level = "error" if each.sure and not each.command.conditional else "warning"
        return Finding(
            "arch-differs", f"{who} for {has!r}, the lane is for {wanted!r}",
            f"take the lane's: {_OWN[:1].lower()}{_OWN[1:]}", place=place, level=level,  # type: ignore[arg-type]
        )  # fmt: skip
    if has:
        own = VARIABLE in each.command.env or not (each.sure or each.likely)
        return None if own else _inherited(stage, who, place)
    taken = [name for name, value in each.command.env.items() if not value]
    left = {**values, **dict.fromkeys((*taken, VARIABLE), "")}
    if each.states_arch or any(_OTHER.fullmatch(name) and left[name] for name in left):
        return None
    if not each.sure and not (aware and each.likely):
        return None
    return Finding(
        "arch-missing", f"{who}, and {VARIABLE} is not set there", _OWN,
        place=place, level="error" if each.sure else "warning",
    )  # fmt: skip


def _inherited(stage: Valued, who: str, place: Place) -> Finding | None:
    own = stage.stage
    if VARIABLE in own.env or VARIABLE in own.args:
        return None
    giver = next((s for s in stage.chain[1:] if VARIABLE in s.stage.env), None)
    if giver is None:
        return None
    return Finding(
        "arch-inherited",
        f"{who}, and has {VARIABLE} only from stage {giver.stage.title}",
        f"it is lost as soon as the stage is built FROM another one: {_OWN}",
        place=place,
        level="warning",
    )


def _same(has: str, wanted: str) -> bool:
    return _listed(has) == _listed(wanted)


def _listed(text: str) -> set[str]:
    return {word for word in _BETWEEN.split(text.strip()) if word}
