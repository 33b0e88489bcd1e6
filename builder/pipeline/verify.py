"""`imgbuild verify-lock`: everything that can be proven of a lock without Docker."""

from __future__ import annotations

from dataclasses import dataclass

from builder.errors import Finding, ImgbuildError
from builder.pipeline.prove import prove
from builder.pipeline.timeline import Timeline
from builder.ports import Files, GitStore, Progress, Project
from builder.steps import identity, packages, preflight
from builder.steps.lanes import read_lane, read_lock


@dataclass(frozen=True, slots=True)
class Proof:
    """What was proven of one lane's lock."""

    lane: str
    build_id: str  # "" when lane or lock could not be read
    findings: tuple[Finding, ...]
    exit_code: int
    unchecked: tuple[str, ...]  # what this run did not look at, and why


def verify_lock(
    name: str,
    *,
    offline: bool,
    project: Project,
    store: GitStore,
    files: Files,
    progress: Progress,
) -> Proof:
    """Prove one lane's lock; findings are values here, nothing is raised for them."""
    build_id = ""
    unchecked: tuple[str, ...] = ()
    try:
        read = read_lane(name, project=project)
        lane, lock = read.lane, read_lock(read.lane)
        build_id = identity.build_id(lane, lock)
        progress.title(f"{lane.name} · build {build_id[:12]}")
        timeline = Timeline(progress)
        patched = prove(
            lane, lock, project=project, store=store, files=files, timeline=timeline,
            offline=offline,
        )  # fmt: skip
        with timeline.stage("preflight") as line:
            report = preflight.Preflight()
            preflight.sources(report, lane, read.declared, patched, store=store)
            line.done(f"{report.settle()} checks")
        unchecked = tuple(
            f"{name}: its file is not on this machine, so its hash was not compared"
            for name in packages.unchecked(lock, files=files)
        )
    except ImgbuildError as error:
        return Proof(name, build_id, error.findings, error.exit_code, unchecked)
    return Proof(name, build_id, (), 0, unchecked)
