"""`imgbuild diff` and `imgbuild explain`: the two sides, read from the project or its history."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from builder.errors import LaneError, UsageError
from builder.model.lane import Lane
from builder.model.lock import Lock
from builder.ports import Project
from builder.steps import identity, kept, lockdiff, rebuild
from builder.steps.image import folder_digest
from builder.steps.lanes import LockMissing, image_folder, read_lane, read_lock
from builder.steps.lockdiff import LaneDiff
from builder.steps.lockdiff_facts import Side
from builder.steps.patches import PatchSetInvalid, read_sets
from builder.steps.rebuild import Rebuild

At = Callable[[str], Project]
"""The project at a git revision."""


def compare(before: str, after: str, *, project: Project, at: At) -> LaneDiff:
    """The difference of two lanes, each `LANE` or `LANE@REVISION`.

    Raises: LaneInvalid, LockInvalid, RevisionUnknown. A lane without a lock is compared by
    what it says itself.
    """
    return lockdiff.diff(_side(before, project, at)[0], _side(after, project, at)[0])


def explain(before: str, after: str, *, project: Project, at: At) -> tuple[LaneDiff, Rebuild]:
    """Which input differs first, and what a build does again. Raises: LockMissing too."""
    old, there = _side(before, project, at)
    new, here = _side(after, project, at)
    for side in (old, new):
        if side.lock is None:
            raise LockMissing(
                f"{side.title} has no lock, so what a build would do again is not known",
                hint=f"resolve it: imgbuild lock {side.lane.name}",
            )
    return lockdiff.diff(old, new), rebuild.rebuild(_inputs(old, there), _inputs(new, here))


def inputs(lane: Lane, lock: Lock, project: Project) -> rebuild.Inputs:
    """What a build of this lane takes, for the comparison of two builds."""
    rows = kept.image_rows(image_folder(lane), project=project)
    text = project.read(f"{image_folder(lane)}/Dockerfile") or b""
    return rebuild.inputs(json.loads(identity.inputs(lane, lock)), rows, text)


def _inputs(side: Side, project: Project) -> rebuild.Inputs:
    assert side.lock is not None
    return inputs(side.lane, side.lock, project)


def _side(spec: str, project: Project, at: At) -> tuple[Side, Project]:
    name, marked, revision = spec.partition("@")
    if marked and not revision:
        raise UsageError(f"{spec!r}: a revision is missing behind @", hint=f"{name}@HEAD~1")
    there = at(revision) if revision else project
    read = read_lane(name, project=there)
    lock = _lock(read.lane, there)
    side = Side(
        title=spec,
        lane=read.lane,
        gates=read.gates,
        lock=lock,
        build_id=identity.build_id(read.lane, lock) if lock else "",
        image=_image(read.lane, there),
        patches=_patches(read.lane, there),
    )
    return side, there


def _lock(lane: Lane, project: Project) -> Lock | None:
    try:
        return read_lock(lane, project=project)
    except LockMissing:
        return None


def _image(lane: Lane, project: Project) -> str:
    try:
        return folder_digest(image_folder(lane), project=project)
    except LaneError:
        return _absent(project)


def _absent(project: Project) -> str:
    """In place of a digest: equal for two lanes that name the same thing at the same state."""
    return f"not in {project.root}"


def _patches(lane: Lane, project: Project) -> Mapping[str, Mapping[str, str]]:
    """The digests of the patches that lie there; of sets that do not, their names."""
    found: dict[str, Mapping[str, str]] = {}
    for name, source in lane.sources.items():
        try:
            sets = read_sets(source.patches, project=project)
        except PatchSetInvalid:
            found[name] = {f"patches/{s}": _absent(project) for s in source.patches}
            continue
        found[name] = {Path(patch.path).as_posix(): patch.sha256 for patch in sets}
    return found
