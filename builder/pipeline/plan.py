"""`imgbuild plan`: what a build would do now, and why, from the state of the caches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from builder.engine_ports import Engine
from builder.errors import ImgbuildError
from builder.model.lane import Lane
from builder.model.lock import Lock
from builder.model.values import Record
from builder.pipeline.compare import inputs
from builder.pipeline.prove import prove
from builder.pipeline.timeline import Silent, Timeline
from builder.ports import Files, GitStore, Project, Records
from builder.steps import finals, identity, kept, labels, rebuild
from builder.steps.drift import LockOutdated, drift
from builder.steps.lanes import read_lane, read_lock
from builder.steps.rebuild import Rebuild
from builder.steps.sources import pins


@dataclass(frozen=True, slots=True)
class Plan:
    """What a build of this lane would do on this machine."""

    lane: str
    build_id: str
    commits: tuple[int, tuple[str, ...]]  # how many it needs, and the names of those to fetch
    archives: tuple[int, tuple[str, ...]]  # likewise: paths of those to write
    packages: tuple[int, Mapping[str, int]]  # likewise: file name and bytes of those to download
    engine: str  # "" when it answers, else why not
    image: str  # the id of this build's image, "" when there is none
    since: Record | None  # the last build of the lane, with which the stages are compared
    again: Rebuild | None  # None: there is nothing to compare with, and every stage runs
    seconds: Mapping[str, float] = field(default_factory=dict)  # last time, by Dockerfile stage

    @property
    def nothing_to_do(self) -> bool:
        return bool(self.image)


def plan(
    name: str,
    *,
    project: Project,
    store: GitStore,
    files: Files,
    engine: Engine,
    records: Records,
) -> Plan:
    """Look, and change nothing. What is here of the sources is proven as a build would.

    Raises: LaneInvalid, LockMissing, LockInvalid, LockOutdated; what `prove` raises.
    """
    lane = read_lane(name, project=project).lane
    lock = read_lock(lane)
    if stale := drift(lane, lock, project=project):
        raise LockOutdated.of(stale)
    build_id = identity.build_id(lane, lock)
    _prove(lane, lock, project, store, files)
    wanted, now = pins(lane, lock, root=project.root), inputs(lane, lock, project)
    why, image = _image(lane, build_id, engine)
    runs = records.runs(name)
    since, again = _again(now, runs, files)
    return Plan(
        lane=name,
        build_id=build_id,
        commits=(len(wanted), tuple(p.name for p in wanted if not store.has(p.commit))),
        archives=_archives(now, files),
        packages=_packages(lock, files),
        engine=why,
        image=image,
        since=since,
        again=again,
        seconds=stage_seconds(runs),
    )


def _prove(lane: Lane, lock: Lock, project: Project, store: GitStore, files: Files) -> None:
    """A build would refuse a lock that was edited by hand: so does its plan, if all is here."""
    if not all(store.has(pin.commit) for pin in pins(lane, lock, root=project.root)):
        return
    patched = prove(
        lane, lock, project=project, store=store, files=files, timeline=Timeline(Silent()),
        offline=True,
    )  # fmt: skip
    if wrong := [*finals.findings(lane, lock, patched, store=store, files=files)]:
        raise finals.ArchiveMismatch.of(wrong)


def stage_seconds(runs: tuple[Record, ...]) -> Mapping[str, float]:
    """What each stage of the Dockerfile took when it last did something, seconds."""
    found: dict[str, float] = {}
    for record in runs:
        took: dict[str, float] = {}
        for step in record.steps:
            if not step.cached and not step.name.startswith("FROM "):
                took[step.stage] = took.get(step.stage, 0.0) + step.seconds
        found.update(took)
    return found


def _image(lane: Lane, build_id: str, engine: Engine) -> tuple[str, str]:
    """Why the engine does not answer, or the image that it has of this build."""
    try:
        engine.describe()
        there = labels.built(lane, build_id, engine=engine)
    except ImgbuildError as error:
        return error.findings[0].what, ""
    return "", there.id if there else ""


def _archives(now: rebuild.Inputs, files: Files) -> tuple[int, tuple[str, ...]]:
    found = now.archives
    return len(found), tuple(path for path, sha in found.items() if files.path(sha) is None)


def _packages(lock: Lock, files: Files) -> tuple[int, Mapping[str, int]]:
    every = [
        file
        for packages in (lock.python, lock.debs)
        for package in packages.values()
        for file in package.platforms.values()
    ]
    missing = {f.filename: f.size for f in every if files.path(f.sha256) is None}
    return len(every), dict(sorted(missing.items()))


def _again(
    now: rebuild.Inputs, runs: tuple[Record, ...], files: Files
) -> tuple[Record | None, Rebuild | None]:
    """The lane's last build whose inputs are kept, and what differs from it."""
    built = [record for record in runs if record.outcome == "built"]
    for record in reversed(built):
        former = kept.recall(record.build_id, files=files)
        if former is not None:
            return record, rebuild.rebuild(rebuild.inputs(*former), now)
    return (built[-1] if built else None), None
