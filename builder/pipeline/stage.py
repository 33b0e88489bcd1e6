"""`imgbuild fetch` and `imgbuild stage`: the first half of a build, which needs no engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from builder.index_ports import PackageIndex
from builder.model.lane import Lane
from builder.model.lock import Lock
from builder.model.values import Archive, PatchedSource, StagedContext
from builder.pipeline.prove import fetch_all, prove
from builder.pipeline.timeline import Timeline
from builder.ports import ContextStore, Files, GitStore, Progress, Project
from builder.steps import assemble, identity, kept
from builder.steps.lanes import image_folder, read_lane, read_lock
from builder.steps.packages import Supplies, supply
from builder.tools.toml import inputs_text


@dataclass(frozen=True, slots=True)
class Staged:
    """A context on disk and what it was made of."""

    lane: Lane
    build_id: str
    context: StagedContext
    archives: Mapping[str, Archive]
    supplies: Supplies
    lock_text: bytes  # as the image keeps it


def fetch(
    name: str,
    *,
    platform: str,
    project: Project,
    store: GitStore,
    files: Files,
    wheels: Callable[[str], PackageIndex],
    debs: Callable[[], PackageIndex],
    progress: Progress,
) -> None:
    """Bring everything that a build of the lane needs; a later build touches no network.

    Raises: SourceUnavailable, PackageUnavailable; what arrived before stays.
    """
    lane = read_lane(name, project=project).lane
    lock = read_lock(lane)
    progress.title(f"{lane.name} · {identity.counted(lane, lock)}")
    timeline = Timeline(progress)
    fetch_all(lane, lock, project=project, store=store, files=files, timeline=timeline)
    with timeline.stage("packages") as line:
        supplies = supply(
            lane, lock, platform, project=project, files=files,
            wheels=lambda: wheels(lane.build.python), debs=debs, say=line.say,
        )  # fmt: skip
        line.done(supplies.said)


def stage(
    name: str,
    *,
    platform: str,
    project: Project,
    store: GitStore,
    files: Files,
    contexts: ContextStore,
    wheels: Callable[[str], PackageIndex],
    debs: Callable[[], PackageIndex],
    progress: Progress,
) -> Staged:
    """Lay out the context of a lane, all of it proven, as a build would hand it to buildx."""
    lane = read_lane(name, project=project).lane
    lock = read_lock(lane)
    timeline = Timeline(progress)
    progress.title(f"{lane.name} · {identity.counted(lane, lock)}")
    patched = prove(lane, lock, project=project, store=store, files=files, timeline=timeline)
    return stage_patched(
        lane, lock, patched, platform, timeline=timeline,
        project=project, store=store, files=files, contexts=contexts, wheels=wheels, debs=debs,
    )  # fmt: skip


def stage_patched(
    lane: Lane,
    lock: Lock,
    patched: Mapping[str, PatchedSource],
    platform: str,
    *,
    timeline: Timeline,
    project: Project,
    store: GitStore,
    files: Files,
    contexts: ContextStore,
    wheels: Callable[[str], PackageIndex],
    debs: Callable[[], PackageIndex],
) -> Staged:
    """The stage `stage` of a build. Raises: PackageUnavailable, StagedMismatch."""
    inputs = identity.inputs(lane, lock)
    own = {"inputs.json": inputs, f"{lane.name}.lock": inputs_text(inputs).encode()}
    with timeline.stage("stage") as line:
        kept.keep(inputs, image_folder(lane), project=project, files=files)  # for `plan`
        supplies = supply(
            lane, lock, platform, project=project, files=files,
            wheels=lambda: wheels(lane.build.python), debs=debs, say=line.say,
        )  # fmt: skip
        archives = assemble.archives(lane, lock, patched, store=store, files=files)
        context = assemble.assemble(
            lane, lock, archives, supplies, own, project=project, contexts=contexts
        )
        line.done(f"{assemble.summary(archives)}; {supplies.said}")
    return Staged(
        lane, identity.build_id(lane, lock), context, archives, supplies, own[f"{lane.name}.lock"]
    )
