"""What a Dockerfile takes from outside: images by digest, and the frontend."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from builder.errors import Finding, Place
from builder.steps.dockerfile import Dockerfile, Instruction
from builder.steps.dockerfile_words import variables
from builder.steps.preflight.values import Valued

_DIGEST = re.compile(r".+@sha256:[0-9a-f]{64}")
_BARE = re.compile(r"sha256:[0-9a-f]{12,64}|[0-9a-f]{64}")


def references(
    read: Dockerfile, stages: Collection[Valued], bases: Mapping[str, str], named: Collection[str],
    needed: Collection[int], file: Path,
) -> Iterator[Finding]:  # fmt: skip
    """Images that are not pinned. `bases`: argument -> reference, as the build gets them;
    `named`: further contexts; `needed`: the stages that the image is made of, by index."""
    for stage in stages:
        index = stage.stage.index
        if stage.parent is None:
            near = _near(stage.base, read, index, ())
            yield from _from(stage, bases, named, file, needed=index in needed, near=near)
        for at in stage.steps:
            for reference in _taken(at.instruction):
                is_stage = read.stage(reference, before=index) is not None
                if not is_stage and not variables(reference):
                    line = at.instruction.line
                    near = _near(reference, read, index, named)
                    found = _image(reference, named, file, line, needed=index in needed, near=near)
                    yield from found
    syntax = read.directives.get("syntax")
    if syntax is not None and not _DIGEST.fullmatch(syntax):
        yield Finding(
            "syntax-unpinned", f"the frontend {syntax} is fetched at each build, without a digest",
            "leave the line out: BuildKit's own frontend knows heredocs and mounts; or add "
            "@sha256:… to it", place=Place(file, 1), level="warning",
        )  # fmt: skip


def needed(stages: Collection[Valued], read: Dockerfile) -> frozenset[int]:
    """The stages that the last one is made of, itself included."""
    by_index = {stage.stage.index: stage for stage in stages}
    found: set[int] = set()
    todo = [max(by_index)]
    while todo:
        index = todo.pop()
        if index in found:
            continue
        found.add(index)
        stage = by_index[index]
        if stage.parent is not None:
            todo.append(stage.parent.stage.index)
        for at in stage.steps:
            for reference in _taken(at.instruction):
                other = read.stage(reference, before=index)
                todo += [other.index] if other else []
    return frozenset(found)


def _taken(read: Instruction) -> Iterator[str]:
    if read.name in ("COPY", "ADD") and (source := read.flag("from")):
        yield source
    if read.name == "RUN":
        yield from (mount["from"] for mount in read.mounts if mount.get("from"))


def _near(reference: str, read: Dockerfile, index: int, named: Collection[str]) -> str:
    """What a name that is no stage before this one was most likely meant to be."""
    later = [stage for stage in read.stages[index + 1 :] if stage.name == reference]
    if later:
        return f"stage {reference} stands below, in line {later[0].line}: move it above this one"
    names = [stage.name for stage in read.stages[:index] if stage.name]
    found = difflib.get_close_matches(reference, [*names, *named], n=1, cutoff=0.7)
    return f"did you mean {found[0]}?" if found else ""


def _from(
    stage: Valued, bases: Mapping[str, str], named: Collection[str], file: Path, *, needed: bool,
    near: str,
) -> Iterator[Finding]:  # fmt: skip
    if not stage.base:
        wanted = sorted(variables(stage.stage.base))
        known = ", ".join(sorted(bases)) or "none"
        yield Finding(
            "from-empty", f"FROM {stage.stage.base}: {', '.join(wanted)} has no value",
            f"the lane's bases give: {known}; declare it by ARG before the first FROM",
            place=Place(file, stage.stage.line), level="error" if needed else "warning",
        )  # fmt: skip
    else:
        yield from _image(
            stage.base, [*named, *bases.values()], file, stage.stage.line, needed=needed, near=near
        )


def _image(
    reference: str, known: Collection[str], file: Path, line: int, *, needed: bool, near: str
) -> Iterator[Finding]:
    if reference == "scratch" or reference in known or _DIGEST.fullmatch(reference):
        return
    place = Place(file, line)
    if _BARE.fullmatch(reference):
        yield Finding(
            "from-bare-digest", f"{reference[:19]}… is taken for the name of an image",
            "a digest stands behind a name: name@sha256:…", place=place,
        )  # fmt: skip
        return
    yield Finding(
        "from-unpinned",
        f"{reference} is no stage above, and as an image it has no digest" if near
        else f"{reference} has no digest: another image tomorrow, by the same name",
        near or "declare it as [base.NAME] of the lane and take ARG BASE_NAME, "
        "or write name@sha256:…",
        place=place, level="error" if needed else "warning",
    )  # fmt: skip
