"""From a lock to proven, patched sources: what a build and `verify-lock` have in common."""

from __future__ import annotations

from collections.abc import Mapping

from builder.errors import Finding, ImgbuildError, Place
from builder.model.lane import Lane
from builder.model.lock import Lock, LockedDep, LockedSource
from builder.model.values import PatchedSource, VerifiedSource
from builder.pipeline.lock import fetch_summary
from builder.pipeline.timeline import Timeline
from builder.ports import Files, GitStore, Project, Say
from builder.steps import patches
from builder.steps.drift import LockOutdated, drift
from builder.steps.sources import pins, verify


def prove(
    lane: Lane,
    lock: Lock,
    *,
    project: Project,
    store: GitStore,
    files: Files,
    timeline: Timeline,
    offline: bool = False,
) -> Mapping[str, PatchedSource]:
    """Fetch, verify and patch every source of a lock, and verify its deps.

    With `offline`, only what the store already has is looked at. Raises: LockOutdated,
    SourceUnavailable, TreeMismatch and its like, PatchFailed, PatchDrift; each with all
    findings of its kind.
    """
    fetch_all(lane, lock, project=project, store=store, timeline=timeline, offline=offline)
    with timeline.stage("verify") as line:
        verified = _verify(lock, store, files, line.say)
        line.done(f"{_trees(lock)} trees match the lock")
    with timeline.stage("patch") as line:
        patched = _patch(lane, lock, verified, project, store)
        line.done(_patch_summary(patched))
    return patched


def fetch_all(
    lane: Lane,
    lock: Lock,
    *,
    project: Project,
    store: GitStore,
    timeline: Timeline,
    offline: bool = False,
) -> None:
    """Bring every commit of a lock that follows from its lane.

    Raises: LockOutdated, SourceUnavailable.
    """
    if stale := drift(lane, lock, project=project):
        raise LockOutdated.of(stale)
    wanted = pins(lane, lock, root=project.root)
    with timeline.stage("fetch") as line:
        if not offline:
            line.done(fetch_summary(store.fetch(wanted, say=line.say)))
        else:
            missing = sum(not store.has(pin.commit) for pin in wanted)
            line.done(f"offline: {missing} of {len(wanted)} commits are not here")


def _verify(lock: Lock, store: GitStore, files: Files, say: Say) -> Mapping[str, VerifiedSource]:
    proven: dict[str, VerifiedSource] = {}
    errors: list[ImgbuildError] = []
    kinds: Mapping[str, Mapping[str, LockedSource | LockedDep]]
    kinds = {"sources": lock.sources, "deps": lock.deps}
    for kind, entries in kinds.items():
        for name, locked in sorted(entries.items()):
            try:
                place = Place(lock.path, key=(kind, name))
                done = verify(name, locked, place=place, store=store, files=files, say=say)
            except ImgbuildError as error:
                errors.append(error)
            else:
                if kind == "sources":
                    proven[name] = done
    _raise(errors)
    return proven


def _patch(
    lane: Lane,
    lock: Lock,
    verified: Mapping[str, VerifiedSource],
    project: Project,
    store: GitStore,
) -> Mapping[str, PatchedSource]:
    done: dict[str, PatchedSource] = {}
    errors: list[ImgbuildError] = []
    for name, source in sorted(verified.items()):
        try:
            found = patches.read_sets(lane.sources[name].patches, project=project)
            done[name] = patches.apply(source.source, found, store=store)
            place = Place(lock.path, key=("sources", name))
            patches.check_locked(done[name], lock.sources[name], place=place)
        except ImgbuildError as error:
            errors.append(error)
    _raise(errors)
    return done


def _raise(errors: list[ImgbuildError]) -> None:
    """Raise many errors as one, of the first's family, with every finding."""
    if errors:
        findings: list[Finding] = [f for error in errors for f in error.findings]
        raise type(errors[0]).of(findings)


def _trees(lock: Lock) -> int:
    every: list[LockedSource | LockedDep] = [*lock.sources.values(), *lock.deps.values()]
    return len(every) + sum(len(s.submodules) for s in every)


def _patch_summary(patched: Mapping[str, PatchedSource]) -> str:
    parts = []
    for name, done in sorted(patched.items()):
        states = [p.state for p in done.patches]
        if states:
            applied = states.count("applied")
            there = states.count("already-there")
            words = [f"{applied} applied"] if applied else []
            parts.append(
                f"{name}: {', '.join([*words, *([f'{there} already there'] if there else [])])}"
            )
    return "; ".join(parts) or "no patches"
