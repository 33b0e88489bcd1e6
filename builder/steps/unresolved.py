"""What a lane still lacks: for `verify-lock` without a lock, and before a lock is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from builder.errors import Finding, ImgbuildError, LaneError, Place, together
from builder.model.lane import Dep, Lane, Source
from builder.ports import Project
from builder.steps.lanes import LockMissing, image_folder
from builder.steps.patches import read_sets


class ImageMissing(LaneError):
    """The lane's image folder has no Dockerfile."""

    code = "image-missing"


class Unresolved(LaneError):
    """A value that only `imgbuild lock` can fill in."""

    code = "unresolved"


def image_missing(lane: Lane, *, project: Project) -> Finding | None:
    """Nothing can be locked or built without it; reading a lane does not need it."""
    folder = image_folder(lane)
    if project.read(f"{folder}/Dockerfile") is not None:
        return None
    files = project.files("docker-images") or ()
    there = sorted({path.partition("/")[0] for path, _ in files if path.endswith("/Dockerfile")})
    named = f"; there are: {', '.join(there)}" if there else ""
    return Finding(
        ImageMissing.code,
        f"image: there is no {folder}/Dockerfile",
        f"write it, or name another folder in the lane{named}",
        place=Place(lane.path, key=("image",)),
    )


def obstacles(lane: Lane, *, project: Project) -> None:
    """Raise for what keeps a lane from being locked here at all, before anything is fetched.

    Raises: ImageMissing, PatchSetInvalid and its like, with the findings of all.
    """
    missing = image_missing(lane, project=project)
    together([*([ImageMissing.of([missing])] if missing else []), *_patch_sets(lane, project)])


def without_lock(missing: LockMissing, lane: Lane, *, project: Project) -> Iterator[Finding]:
    """A missing lock as one finding with what it would fill in; beside it only what `imgbuild
    lock` would stumble over."""
    found = [*unresolved(lane, project=project)]
    (first,) = missing.findings
    command = f"imgbuild lock {lane.name}"
    filled = [f for f in found if f.code == Unresolved.code and f.hint.startswith(command)]
    yield replace(first, detail="\n".join(f.what for f in filled))
    yield from (f for f in found if f not in filled)


def unresolved(lane: Lane, *, project: Project) -> Iterator[Finding]:
    """Each value that a lane without a lock lacks, and the command that fills it in."""
    if missing := image_missing(lane, project=project):
        yield missing
    entries: Mapping[str, Mapping[str, Source | Dep]]
    entries = {"sources": lane.sources, "deps": lane.own_deps}
    for kind, tables in entries.items():
        for name, table in sorted(tables.items()):
            values = [*_values(table)]
            yield _finding(lane, (kind, name), values, f"reads {table.url}")
    for name, derived in sorted(lane.dep_sets.items()):
        does = f"reads the CMake files of {derived.from_}"
        yield _finding(lane, ("deps", name), ["the deps that it stands for"], does)
    for wrong in _patch_sets(lane, project):
        yield from wrong.findings
    for name, base in sorted(lane.base.items()):
        if base.ref is not None and "@sha256:" not in base.ref:
            lacking = [f"digest of {base.ref} for {' and '.join(lane.platforms)}"]
            yield _finding(lane, ("base", name), lacking, "asks its registry")
        elif base.rootfs is not None:
            yield _finding(lane, ("base", name), ["sha256"], f"reads {base.rootfs}")
    for kind, packages in (("python", lane.python), ("debs", lane.debs)):
        for name in sorted(packages):
            yield _finding(lane, (kind, name), ["version", "file", "sha256"], "asks the index")


def _patch_sets(lane: Lane, project: Project) -> Iterator[ImgbuildError]:
    for _, source in sorted(lane.sources.items()):
        try:
            read_sets(source.patches, project=project)
        except ImgbuildError as wrong:
            yield wrong


def _values(table: Source | Dep) -> Iterator[str]:
    if table.commit is None:
        yield f"commit (the tip of {table.track.ref})"
    if isinstance(table, Dep):
        yield from ("tree", "content digest", "commit time")
        return
    if table.tree is None:
        yield "tree"
    yield from ("content digest", "commit time")
    for pull in table.compose:
        if pull.head is None:
            yield f"head of pull request {pull.pull}"
    if table.compose or table.patches:
        yield "result tree"


def _finding(lane: Lane, key: tuple[str, str], values: list[str], does: str) -> Finding:
    return Finding(
        Unresolved.code,
        f"{'.'.join(key)} lacks: {', '.join(values)}",
        f"imgbuild lock {lane.name} ({does})",
        place=Place(lane.path, key=key),
    )
