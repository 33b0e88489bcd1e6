"""What each RUN of a Dockerfile is made from, as one digest.

Two that have the same digest do the same work: whatever BuildKit looks at before it takes a
step from its cache is in it. Not the other way round: of what is taken from another stage all
that the stage is made from counts, also where its files came out the same.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

from builder.steps.dockerfile import Instruction, Stage
from builder.steps.dockerfile_words import is_remote
from builder.steps.rebuild_stages import (
    BuildInputs,
    expanded,
    held,
    may_mean,
    needed,
    taken,
    values,
)

_FORMAT = "imgbuild step 1"
_COUNTED = ("ADD", "COPY", "RUN", "WORKDIR")  # BuildKit's numbers go over these


@dataclass(frozen=True, slots=True)
class RunInputs:
    stage: str  # as BuildKit names it: in small letters, or stage-7
    number: str  # as BuildKit counts: "2/3"
    digest: str  # hex

    def __str__(self) -> str:
        return f"{self.stage} {self.number} {self.digest}"


def run_inputs(given: BuildInputs, platform: str) -> tuple[RunInputs, ...]:
    """Each RUN that the last stage is made from, in the order of the Dockerfile."""
    whole: dict[int, str] = {}  # the digest at the end of each stage
    found: dict[int, list[RunInputs]] = {}
    for stage in given.dockerfile.stages:
        found[stage.index] = []
        number, total = _count(stage, given)
        digest = _folded(_FORMAT, platform, *_beginning(stage, given, whole))
        for instruction in stage.instructions[1:]:
            digest = _folded(digest, *_of(instruction, stage, given, whole))
            number += instruction.name in _COUNTED
            if instruction.name == "RUN":
                run = RunInputs(stage.title.lower(), f"{number}/{total}", digest)
                found[stage.index].append(run)
        whole[stage.index] = digest
    return tuple(run for index in sorted(needed(given)) for run in found[index])


def _count(stage: Stage, given: BuildInputs) -> tuple[int, int]:
    """BuildKit's number of the stage's FROM, and of its last step."""
    base = expanded(stage.base, given)
    is_image = base != "scratch" and given.dockerfile.stage(base, before=stage.index) is None
    return int(is_image), is_image + len(stage.named(*_COUNTED))


def _beginning(stage: Stage, given: BuildInputs, whole: dict[int, str]) -> Iterator[object]:
    read = given.dockerfile
    base = expanded(stage.base, given)
    parent = read.stage(base, before=stage.index)
    yield sorted(read.directives.items())
    yield stage.instructions[0].flags
    yield whole[parent.index] if parent else base


def _of(
    instruction: Instruction, stage: Stage, given: BuildInputs, whole: dict[int, str]
) -> Iterator[object]:
    """All that an instruction does and takes."""
    yield instruction.same
    if instruction.name == "ARG":
        told = values(stage, given)
        yield [(name, told[name]) for name, _ in instruction.pairs]
    for _, named, path in taken(instruction, stage, given):
        files = held(given, named)
        yield [(named, name, files[name]) for name in sorted(files) if may_mean(path, name)]
    for reference in (instruction.flag("from"), *(m.get("from") for m in instruction.mounts)):
        if reference is not None:
            yield from _from(reference, stage, given, whole)
    sources = instruction.sources if instruction.name == "ADD" else ()
    if any(map(is_remote, sources)) and not instruction.flag("checksum"):
        yield secrets.token_hex(16)  # the same address may give other content


def _from(
    reference: str, stage: Stage, given: BuildInputs, whole: dict[int, str]
) -> Iterator[object]:
    other = given.dockerfile.stage(reference, before=stage.index)
    if other is not None:
        yield whole[other.index]
    elif "$" in reference:  # may be any of them
        yield sorted(whole.items())
        yield sorted((name, sorted(files.items())) for name, files in given.named.items())


def _folded(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()
