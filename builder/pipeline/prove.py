"""From a lock to proven, patched sources: what a build and `verify-lock` have in common."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from builder.errors import ImgbuildError, Place, together
from builder.model.counts import plural
from builder.model.lane import Lane
from builder.model.lock import Lock
from builder.model.merges import ComposedTree
from builder.model.values import PatchedSource, VerifiedSource
from builder.pipeline.lock import fetch_summary
from builder.pipeline.timeline import Timeline
from builder.ports import Files, GitStore, Project, Say
from builder.steps import deps_check, patches, replay, sources
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
    deep: bool = False,
) -> Mapping[str, PatchedSource]:
    """Fetch, verify, compose and patch every source of a lock, and verify its deps.

    With `offline`, only what the store already has is looked at: of a source that it lacks
    (sources.not_here) nothing is proven, and it is left out of the answer. With `deep`, no
    merge that was remembered counts. Raises: LockOutdated, SourceUnavailable, TreeMismatch and
    its like, ComposeDrift and its like, PatchFailed, PatchDrift; each with all findings of its
    kind.
    """
    fetch_all(
        lane, lock, project=project, store=store, files=files, timeline=timeline, offline=offline
    )
    with timeline.stage("verify") as line:
        absent = sources.not_here(lock, store=store) if offline else ()
        verified = _verify(lock, absent, store, files, line.say)
        left = f", {len(absent)} not here" if absent else ""
        count = _trees(lock, absent)
        match = "matches" if count == 1 else "match"
        line.done(f"{plural(count, 'tree')} {match} the lock{left}")
    composed: Mapping[str, ComposedTree] = {}
    if any(lock.sources[name].compose for name in verified):
        with timeline.stage("compose") as line:
            how = {"deep": deep, "offline": offline}
            composed = _compose(lane, lock, verified, project, store, files, how, line.say)
            line.done(_compose_summary(composed))
    with timeline.stage("patch") as line:
        patched = _patch(lane, lock, verified, composed, project, store)
        line.done(_patch_summary(patched))
    if lane.dep_sets:
        with timeline.stage("deps") as line:
            count = deps_check.check(lane, lock, patched, store=store)
            line.done(f"{plural(len(lock.deps), 'dep')}, {count} derived")
    else:
        deps_check.check(lane, lock, patched, store=store)
    return patched


def fetch_all(
    lane: Lane,
    lock: Lock,
    *,
    project: Project,
    store: GitStore,
    files: Files,
    timeline: Timeline,
    offline: bool = False,
) -> None:
    """Bring every commit of a lock that follows from its lane; what its compositions merge as
    far as servers still have it.

    Raises: LockOutdated, SourceUnavailable.
    """
    if stale := drift(lane, lock, project=project):
        raise LockOutdated.of(stale)
    wanted = pins(lane, lock, root=project.root)
    with timeline.stage("fetch") as line:
        if not offline:
            fetched = store.fetch(wanted, say=line.say)
            for name, locked in sorted(lock.sources.items()):
                replay.bring(
                    name, locked, lane.sources[name],
                    root=project.root, store=store, files=files, say=line.say,
                )  # fmt: skip
            line.done(fetch_summary(fetched))
        else:
            missing = sum(not store.has(pin.commit) for pin in wanted)
            line.done(f"offline: of {plural(len(wanted), 'commit')}, {missing} not here")


def _verify(
    lock: Lock, absent: Collection[str], store: GitStore, files: Files, say: Say
) -> Mapping[str, VerifiedSource]:
    proven: dict[str, VerifiedSource] = {}
    errors: list[ImgbuildError] = []
    for key, locked in sources.entries(lock).items():
        if key in absent:
            continue
        kind, _, name = key.partition(".")
        try:
            place = Place(lock.path, key=(kind, name))
            done = verify(name, locked, place=place, store=store, files=files, say=say)
        except ImgbuildError as error:
            errors.append(error)
        else:
            if kind == "sources":
                proven[name] = done
    together(errors)
    return proven


def _compose(
    lane: Lane,
    lock: Lock,
    verified: Mapping[str, VerifiedSource],
    project: Project,
    store: GitStore,
    files: Files,
    how: Mapping[str, bool],
    say: Say,
) -> Mapping[str, ComposedTree]:
    """Merge the pull requests of the sources that have some."""
    done: dict[str, ComposedTree] = {}
    errors: list[ImgbuildError] = []
    for name in sorted(verified):
        locked = lock.sources[name]
        if not locked.compose:
            continue
        try:
            place = Place(lock.path, key=("sources", name))
            done[name] = replay.replay(
                name, locked, lane.sources[name],
                place=place, project=project, store=store, files=files, say=say, **how,
            )  # fmt: skip
        except ImgbuildError as error:
            errors.append(error)
    together(errors)
    return done


def _patch(
    lane: Lane,
    lock: Lock,
    verified: Mapping[str, VerifiedSource],
    composed: Mapping[str, ComposedTree],
    project: Project,
    store: GitStore,
) -> Mapping[str, PatchedSource]:
    done: dict[str, PatchedSource] = {}
    errors: list[ImgbuildError] = []
    for name, source in sorted(verified.items()):
        try:
            found = patches.read_sets(lane.sources[name].patches, project=project)
            place = Place(lock.path, key=("sources", name))
            tree = source.source
            if name in composed:
                tree = sources.composed(name, lock.sources[name], place=place, store=store)
            patched = patches.apply(tree, found, store=store)
            by_delta = composed[name].by_delta if name in composed else ()
            done[name] = replace(patched, by_delta=by_delta)
            patches.check_locked(done[name], lock.sources[name], place=place)
        except ImgbuildError as error:
            errors.append(error)
    together(errors)
    return done


def _trees(lock: Lock, absent: Collection[str]) -> int:
    here = [locked for key, locked in sources.entries(lock).items() if key not in absent]
    return len(here) + sum(len(locked.submodules) for locked in here)


def _compose_summary(composed: Mapping[str, ComposedTree]) -> str:
    parts = []
    for name, done in sorted(composed.items()):
        kinds = [pull.disposition for pull in done.pulls if pull.pull not in done.by_delta]
        counts = [(kinds.count(kind), kind.replace("-", " ")) for kind in dict.fromkeys(kinds)]
        counts += [(len(done.by_delta), "by the locked delta")] if done.by_delta else []
        parts.append(f"{name}: {', '.join(f'{count} {word}' for count, word in counts)}")
    return "; ".join(parts)


def _patch_summary(patched: Mapping[str, PatchedSource]) -> str:
    parts = []
    for name, done in sorted(patched.items()):
        states = [p.state for p in done.patches]
        counts = [(s, states.count(s)) for s in ("applied", "already-there", "obsolete")]
        words = [f"{count} {state.replace('-', ' ')}" for state, count in counts if count]
        if words:
            parts.append(f"{name}: {', '.join(words)}")
    return "; ".join(parts) or "no patches"
