"""`imgbuild check`: every finding that can be had of a lane before a container starts."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from builder.engine_ports import Engine
from builder.errors import Finding, ImgbuildError, LaneError
from builder.model.counts import plural
from builder.model.lock import Lock
from builder.model.values import CommitInfo, EngineInfo, PatchedSource
from builder.pipeline.prove import prove
from builder.pipeline.timeline import Timeline
from builder.ports import Files, GitStore, Progress, Project
from builder.steps import identity, image, preflight, unresolved
from builder.steps.bases import base_reference
from builder.steps.lanes import (
    LockMissing,
    ReadLane,
    image_folder,
    read_lane,
    read_lock,
    taken,
)
from builder.steps.preflight.base_packages import of_bases
from builder.steps.sources import not_here, pins
from builder.tools.deb_control import control

_NO_ENGINE = "the engine: its version, platform and free disk"


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found of one lane; an exit code of 0 leaves room for warnings."""

    lane: str
    build_id: str  # "" when lane or lock could not be read
    checks: int
    findings: tuple[Finding, ...]
    exit_code: int
    unchecked: tuple[str, ...]


def check(
    name: str,
    *,
    platform: str,
    offline: bool,
    project: Project,
    store: GitStore,
    files: Files,
    engine: Engine,
    cache: Path,
    progress: Progress,
) -> Checked:
    """Look at everything that needs no container; findings are values, nothing is raised.

    What cannot be looked at, because of an error before it or for want of an engine of the
    platform, is named.
    """
    report = preflight.Preflight()
    build_id = ""
    unchecked: list[str] = []
    try:
        read = read_lane(name, project=project)
    except ImgbuildError as error:
        return Checked(name, "", 1, error.findings, error.exit_code, ("all the rest",))
    lock, patched = None, None
    timeline = Timeline(progress)
    try:
        lock = read_lock(read.lane)
        build_id = identity.build_id(read.lane, lock)
        progress.title(f"{name} · {identity.counted(read.lane, lock)} · build {build_id[:12]}")
        patched = prove(
            read.lane, lock, project=project, store=store, files=files, timeline=timeline,
            offline=offline,
        )  # fmt: skip
        absent = not_here(lock, store=store) if offline else ()
        unchecked += [f"{key}: its commits are not on this machine" for key in absent]
    except ImgbuildError as error:
        found = error.findings
        if isinstance(error, LockMissing):
            found = tuple(unresolved.without_lock(error, read.lane, project=project))
        report.check(type(error), *found)
        unchecked.append("markers and native parts: the sources are not proven")
    with timeline.stage("preflight") as line:
        proven = len(report.findings)
        about, why = _engine(engine, platform)
        there = engine if about else None
        before(
            report, read, lock, patched, platform,
            project=project, store=store, files=files, engine=there,
        )  # fmt: skip
        unchecked += _bases_unknown(read, lock, platform, project, files, there)
        if about and lock:
            free = free_bytes(cache)
            preflight.machine(report, read.lane, lock, about, platform, free_bytes=free)
        unchecked += [f"{_NO_ENGINE} ({why})"] if why else []
        bad = any(found.level == "error" for found in report.findings[proven:])
        line.done(plural(report.checks, "check"), good=not bad)
    errors = [f for f in report.findings if f.level == "error"]
    findings = (*errors, *report.warnings)
    return Checked(name, build_id, report.checks, findings, report.exit_code, tuple(unchecked))


def free_bytes(folder: Path) -> int:
    """What is free where a folder lies, or will."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(there).free


def before(
    report: preflight.Preflight,
    read: ReadLane,
    lock: Lock | None,
    patched: Mapping[str, PatchedSource] | None,
    platform: str,
    *,
    project: Project,
    store: GitStore,
    files: Files,
    engine: Engine | None = None,
) -> None:
    """The preflight of sources and Dockerfile, which `check` and `build` have in common."""
    lane = read.lane
    report.check(LaneError, *taken(lane, project=project))
    if patched is not None:
        preflight.sources(
            report, lane, read.declared, patched,
            store=store, last_change=_last_change(read, lock, project, store),
        )  # fmt: skip
    folder = image_folder(lane)
    contexts = preflight.Contexts()
    try:
        image.folder_digest(folder, project=project)
        if lock is not None:
            own = [path for path, _ in project.files(folder) or ()]
            contexts = preflight.contexts(lane, lock, platform, own)
    except LaneError as error:
        report.check(LaneError, *error.findings)
    data = project.read(f"{folder}/Dockerfile")
    if data is None:
        return
    cuda, plain = _device_code(read, patched, store)
    preflight.dockerfile(
        report, lane, read.declared, data, project.root / folder / "Dockerfile",
        args=_args(report, read, lock, platform),
        cuda=cuda, plain=plain,
        bases=of_bases(lane, lock, platform, project=project, files=files, engine=engine)
        if lock else {},
        platform=platform, lock=lock, contexts=contexts,
        control=partial(_control, lock, platform, files),
    )  # fmt: skip


def _control(lock: Lock | None, platform: str, files: Files, name: str) -> Mapping[str, str] | None:
    """The control fields of a locked deb, by its file name."""
    every = (
        [d.platforms[platform] for d in lock.debs.values() if platform in d.platforms]
        if lock
        else []
    )
    found = next((deb for deb in every if deb.filename == name), None)
    return control(found.sha256, files) if found else None


def _last_change(
    read: ReadLane, lock: Lock | None, project: Project, store: GitStore
) -> Callable[[str, str, str], CommitInfo | None]:
    def of(name: str, file: str, text: str) -> CommitInfo | None:
        if lock is None:
            return None
        commit = lock.sources[name].commit
        pin = next(
            (p for p in pins(read.lane, lock, root=project.root) if p.commit == commit), None
        )
        return store.history(pin.urls).last_change(commit, file, text) if pin else None

    return of


def _args(
    report: preflight.Preflight, read: ReadLane, lock: Lock | None, platform: str
) -> Mapping[str, str]:
    """The build's arguments; a base that is not locked gets a stand-in, other checks report it."""
    lane = read.lane
    bases = {name: f"{name}@sha256:{'0' * 64}" for name in lane.base}
    for name, locked in lock.base.items() if lock else ():
        if platform in locked.platforms:
            bases[name] = base_reference(name, locked, platform)
    if lock is not None:
        try:
            return image.build_args(lane, lock, bases)
        except LaneError as error:
            report.check(LaneError, *error.findings)
    own = {f"BASE_{image.variable(name)}": reference for name, reference in bases.items()}
    return {**lane.build.args, **own, "TORCH_CUDA_ARCH_LIST": lane.build.cuda_arch_list}


def _device_code(
    read: ReadLane, patched: Mapping[str, PatchedSource] | None, store: GitStore
) -> tuple[frozenset[str], preflight.Plain]:
    trees = {
        name: ([e.path for e in store.entries(tree)], partial(store.blob, tree))
        for name, tree in ((n, p.source.tree) for n, p in (patched or {}).items())
    }
    cuda, plain = preflight.device_code(trees, read.lane)
    absent = {n for n, source in read.lane.sources.items() if source.native} - trees.keys()
    return cuda | absent, plain


def _engine(engine: Engine, platform: str) -> tuple[EngineInfo | None, str]:
    """What the engine says of itself, or why it says nothing of this platform."""
    try:
        about = engine.describe()
    except ImgbuildError as error:
        return None, error.findings[0].what
    if about.platform != platform:
        return None, f"the one here is {about.platform}, this looks at {platform}"
    return about, ""


def _bases_unknown(
    read: ReadLane,
    lock: Lock | None,
    platform: str,
    project: Project,
    files: Files,
    engine: Engine | None,
) -> list[str]:
    if lock is None:
        return []
    known = of_bases(read.lane, lock, platform, project=project, files=files, engine=engine)
    return [
        f"packages of base {name}: its image is not looked into"
        for name, locked in sorted(lock.base.items())
        if platform in locked.platforms and base_reference(name, locked, platform) not in known
    ]
