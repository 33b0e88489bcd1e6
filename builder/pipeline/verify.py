"""`imgbuild verify-lock`: everything that can be proven of a lock without Docker."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from builder.errors import ImgbuildError, SourceError
from builder.index_ports import Registry, WheelIndex
from builder.model.counts import plural
from builder.model.lane import Lane
from builder.model.lock import Lock, LockedDep, LockedSource
from builder.model.values import PatchedSource, SourceTree
from builder.pipeline.proof import Proof
from builder.pipeline.prove import prove
from builder.pipeline.timeline import Timeline
from builder.ports import Files, GitStore, Progress, Project
from builder.steps import (
    ancestry,
    finals,
    identity,
    online,
    packages,
    preflight,
    sources,
    staging,
    unresolved,
)
from builder.steps.lanes import LockMissing, ReadLane, read_lane, read_lock
from builder.steps.online import Asked
from builder.steps.trees import source_tree

_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Tools:
    """What a proof looks at the world with."""

    project: Project
    store: GitStore
    files: Files
    registry: Registry
    wheels: WheelIndex
    progress: Progress


def verify_lock(name: str, tools: Tools, *, offline: bool, deep: bool = False) -> Proof:
    """Prove one lane's lock; findings are values here, nothing is raised for them.

    With `deep`, every object is hashed again and every composition merged again, whatever
    was remembered.
    """
    build_id = ""
    read: ReadLane | None = None
    try:
        read = read_lane(name, project=tools.project)
        lane, lock = read.lane, read_lock(read.lane, project=tools.project)
        build_id = identity.build_id(lane, lock)
        tools.progress.title(f"{lane.name} · build {build_id[:12]}")
        timeline = Timeline(tools.progress)
        unchecked = [*_prove(read, lock, tools, timeline, offline=offline, deep=deep)]
        asked = _ask(read.lane, lock, tools, timeline, offline=offline)
    except LockMissing as error:
        assert read is not None
        found = tuple(unresolved.without_lock(error, read.lane, project=tools.project))
        return Proof(name, build_id, found, error.exit_code, ())
    except ImgbuildError as error:
        return Proof(name, build_id, error.findings, error.exit_code, ())
    exit_code = finals.ArchiveMismatch.exit_code if asked.findings else 0
    return Proof(name, build_id, asked.findings, exit_code, (*unchecked, *asked.unchecked))


def _prove(
    read: ReadLane, lock: Lock, tools: Tools, timeline: Timeline, *, offline: bool, deep: bool
) -> Iterator[str]:
    """What could not be proven from the store, after all that could. Raises: of each family."""
    lane, store = read.lane, tools.store
    files = _Forgetful(tools.files) if deep else tools.files
    if deep:
        _hash_at_once(lock, store, files)
    patched = prove(
        lane, lock, project=tools.project, store=store, files=files, timeline=timeline,
        offline=offline, deep=deep,
    )  # fmt: skip
    if deep and not offline:
        with timeline.stage("history") as line:
            wrong, unknown = ancestry.prove(
                lane, lock, root=tools.project.root, store=store, say=line.say
            )
            if wrong:
                raise SourceError.of(wrong)
            line.done("refs reach the commits, merge bases are the real ones")
        yield from unknown
    with timeline.stage("archives") as line:
        if other := [*finals.findings(lane, lock, patched, store=store, files=tools.files)]:
            raise finals.ArchiveMismatch.of(other)
        line.done("their digests follow from the trees")
    with timeline.stage("preflight") as line:
        report = preflight.Preflight()
        preflight.sources(report, lane, read.declared, patched, store=store)
        line.done(plural(report.settle(), "check"))
    yield from _by_delta(patched)
    for key in sources.not_here(lock, store=store) if offline else ():
        yield f"{key}: its commits are not on this machine: imgbuild fetch {lane.name}"
    yield from _absent(lock, tools.files, offline=offline)


def _ask(lane: Lane, lock: Lock, tools: Tools, timeline: Timeline, *, offline: bool) -> Asked:
    """What registries, indexes and git servers say of the lock."""
    root = tools.project.root
    count = online.count(lane, lock, root=root)
    what = f"bases, wheels and tags: {count}"
    if offline:
        return Asked((), (f"{what} not looked up (--offline)",) if count else ())
    with timeline.stage("online") as line:
        found = online.ask(
            lane, lock, root=root, store=tools.store, registry=tools.registry, wheels=tools.wheels,
            say=line.say,
        )  # fmt: skip
        unasked = f", {len(found.unchecked)} not checked" if found.unchecked else ""
        line.done(f"{what} looked up{unasked}", good=not found.findings)
    return found


def _by_delta(patched: Mapping[str, PatchedSource]) -> Iterator[str]:
    for name, done in sorted(patched.items()):
        if done.by_delta:
            numbers = ", ".join(map(str, done.by_delta))
            yield (
                f"{name}: pull request {numbers} was not merged again: the locked delta gave the "
                "tree (over several merge bases --deep merges again; a head that is gone cannot be)"
            )


def _absent(lock: Lock, files: Files, *, offline: bool) -> Iterator[str]:
    for name in packages.unchecked(lock, files=files):
        if offline or name in lock.debs:  # an index was asked for the wheels
            yield f"{name}: its file is not on this machine, so its hash was not compared"


def _hash_at_once(lock: Lock, store: GitStore, files: Files) -> None:
    """Hash the sources side by side, the largest first; what is wrong is told one by one after."""
    every: list[tuple[str, LockedSource | LockedDep]]
    every = [*lock.sources.items(), *lock.deps.items()]
    trees = [source_tree(name, locked) for name, locked in every if store.has(locked.commit)]

    def size(source: SourceTree) -> int:
        with contextlib.suppress(ImgbuildError):
            return sum(entry.size for entry in store.entries(source.tree))
        return 0

    def hashed(source: SourceTree) -> None:
        with contextlib.suppress(ImgbuildError):
            staging.content(source, store=store, files=files)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        sizes = dict(zip((t.name for t in trees), pool.map(size, trees), strict=True))
        list(pool.map(hashed, sorted(trees, key=lambda source: -sizes[source.name])))


@dataclass(slots=True)
class _Forgetful:
    """A file store whose facts count only when they were found in this run."""

    files: Files
    known: dict[str, str] = field(default_factory=dict)

    def recall(self, key: str) -> str | None:
        return self.known.get(key)

    def remember(self, key: str, value: str) -> None:
        self.known[key] = value
        self.files.remember(key, value)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.files, name)
