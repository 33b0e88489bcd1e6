"""Which stages of a Dockerfile run again, from what each ADDs, COPYs, mounts and declares."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from builder.model.values import UNNAMED
from builder.steps.dockerfile import Dockerfile, Instruction, Stage
from builder.steps.dockerfile_words import expand, is_remote

_WILD = re.compile(r"[*?\[\\$]")


@dataclass(frozen=True, slots=True)
class BuildInputs:
    """What buildx is given. Files by path with their digest; named contexts by their name."""

    dockerfile: Dockerfile
    context: Mapping[str, str]
    named: Mapping[str, Mapping[str, str]]
    args: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Reason:
    line: int  # of the Dockerfile: the cache holds for the stage's steps before it
    why: str  # "ADD sources/kern-native.tar", "COPY --from=cudart"
    cause: str  # the changed input, or the stage that runs again


@dataclass(frozen=True, slots=True)
class StageRun:
    name: str  # "" for a stage without AS
    title: str  # what a build calls it while it runs
    line: int
    reasons: tuple[Reason, ...]  # by line; none: all of it comes from the cache
    needed: bool  # whether the last stage is made from it

    @property
    def runs(self) -> bool:
        return self.needed and bool(self.reasons)


def stage_runs(before: BuildInputs, after: BuildInputs) -> tuple[StageRun, ...]:
    """Every stage of the newer Dockerfile with the reasons for which it runs again."""
    new = after.dockerfile
    reasons: dict[int, tuple[Reason, ...]] = {}
    for stage in new.stages:
        old = _counterpart(stage, new, before.dockerfile)
        found = [*_own(stage, old, before, after), *_inherited(stage, reasons, after)]
        reasons[stage.index] = tuple(sorted(set(found), key=lambda r: (r.line, r.why, r.cause)))
    taking = needed(after)
    return tuple(
        StageRun(s.name, _title(s, new), s.line, reasons[s.index], s.index in taking)
        for s in new.stages
    )


def _title(stage: Stage, whole: Dockerfile) -> str:
    is_last = stage.index == len(whole.stages) - 1
    return UNNAMED if is_last and not stage.name else stage.title


def _counterpart(stage: Stage, new: Dockerfile, old: Dockerfile) -> Stage | None:
    """The same stage of the older file: of its name, or as far from the end."""
    if stage.name:
        return old.stage(stage.name) if not stage.name.isdecimal() else None
    index = len(old.stages) - (len(new.stages) - stage.index)
    return old.stages[index] if index >= 0 and not old.stages[index].name else None


def _own(
    stage: Stage, old: Stage | None, before: BuildInputs, after: BuildInputs
) -> Iterator[Reason]:
    """Reasons that lie in the stage itself."""
    if old is None:
        yield Reason(stage.line, "FROM", "a stage that was not there before")
        return
    yield from _rewritten(stage, old)
    now = expanded(stage.base, after)
    is_image = after.dockerfile.stage(now, before=stage.index) is None
    if is_image and now != expanded(old.base, before):
        yield Reason(stage.line, f"FROM {stage.base}", "the base")
    before_values, after_values = values(old, before), values(stage, after)
    for declared in stage.named("ARG"):
        for name, _ in declared.pairs:
            if before_values.get(name) != after_values.get(name):
                yield Reason(declared.line, f"ARG {name}", f"build argument {name}")
    for instruction in stage.instructions:
        for what, files, path in taken(instruction, stage, after):
            for changed in sorted(_changed(held(before, files), held(after, files), path)):
                yield Reason(instruction.line, what, changed if not files else f"{files}/{changed}")


def _rewritten(stage: Stage, old: Stage) -> Iterator[Reason]:
    """The first instruction that is another one; the name in FROM does not count."""
    was = [i.same for i in old.instructions[1:]]
    for i, instruction in enumerate(stage.instructions[1:]):
        if i >= len(was) or instruction.same != was[i]:
            yield Reason(instruction.line, instruction.name, "Dockerfile")
            return
    if len(was) > len(stage.instructions) - 1:
        yield Reason(stage.instructions[-1].end, "end of the stage", "Dockerfile")
    elif stage.base != old.base:
        yield Reason(stage.line, f"FROM {stage.base}", "Dockerfile")


def _inherited(
    stage: Stage, reasons: Mapping[int, tuple[Reason, ...]], after: BuildInputs
) -> Iterator[Reason]:
    """Reasons that lie in earlier stages, from which this one takes."""
    for line, what, reference in _references(stage, after):
        other = after.dockerfile.stage(reference, before=stage.index)
        if other is not None and reasons[other.index]:
            yield Reason(line, what, f"stage {other.title}")


def _references(stage: Stage, given: BuildInputs) -> Iterator[tuple[int, str, str]]:
    """(line, instruction, what is named) of all that may be another stage."""
    yield stage.line, f"FROM {stage.base}", expanded(stage.base, given)
    for instruction in stage.instructions:
        if (named := instruction.flag("from")) is not None:
            yield instruction.line, f"{instruction.name} --from={named}", expanded(named, given)
        for mount in instruction.mounts:
            if "from" in mount:
                yield instruction.line, f"RUN --mount=from={mount['from']}", mount["from"]


def taken(
    instruction: Instruction, stage: Stage, after: BuildInputs
) -> Iterator[tuple[str, str, str]]:
    """(words, named context or "", path) of what an instruction takes from outside."""
    named = instruction.flag("from")
    if instruction.name in ("ADD", "COPY") and (named is None or _is_context(named, stage, after)):
        for path in instruction.sources:
            if not is_remote(path):
                yield f"{instruction.name} {path}", named or "", path
    for mount in instruction.mounts:
        named = mount.get("from", "")
        if mount["type"] != "bind" or (named and not _is_context(named, stage, after)):
            continue
        yield f"RUN --mount={f'from={named}' if named else 'bind'}", named, mount.get("source", "")


def _is_context(named: str, stage: Stage, after: BuildInputs) -> bool:
    is_stage = after.dockerfile.stage(named, before=stage.index) is not None
    return named in after.named and not is_stage


def held(given: BuildInputs, named: str) -> Mapping[str, str]:
    return given.named.get(named, {}) if named else given.context


def _changed(before: Mapping[str, str], after: Mapping[str, str], path: str) -> Iterator[str]:
    """Files that differ and that the path may mean."""
    for name in before.keys() | after.keys():
        if before.get(name) != after.get(name) and may_mean(path, name):
            yield name


def may_mean(path: str, name: str) -> bool:
    """Whether ADD or COPY of `path` may take the file; with wildcards, by what is before them."""
    clean = re.sub(r"/(?:\./)+|//+", "/", path).lstrip("/").removeprefix("./")
    if wild := _WILD.search(clean):
        return name.startswith(clean[: wild.start()])
    if ".." in clean.split("/"):
        return True
    clean = clean.rstrip("/")
    return clean in ("", ".") or name == clean or name.startswith(f"{clean}/")


def expanded(text: str, given: BuildInputs) -> str:
    return expand(text, {**_global(given), **given.args})


def _global(given: BuildInputs) -> Mapping[str, str]:
    return {name: value for name, value in given.dockerfile.args.items() if value is not None}


def values(stage: Stage, given: BuildInputs) -> Mapping[str, str | None]:
    """What the stage's ARGs hold: the build's, else their own default, else the global one."""
    known = _global(given)
    return {
        name: given.args.get(name, default if default is not None else known.get(name))
        for name, default in stage.args.items()
    }


def needed(given: BuildInputs) -> set[int]:
    """The stages that the last one is made from, itself among them."""
    read, found = given.dockerfile, set[int]()
    waiting = [read.stages[-1]]
    while waiting:
        stage = waiting.pop()
        if stage.index in found:
            continue
        found.add(stage.index)
        for _, _, reference in _references(stage, given):
            other = read.stage(reference, before=stage.index)
            if other is not None:
                waiting.append(other)
    return found
