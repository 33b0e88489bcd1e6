"""Resolve the entries of a lane into the entries of a lock.

What an older lock pins is kept as long as the lane says the same; everything that follows
from a pin (trees, digests, patch states) is computed anew each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from builder.errors import Finding, LaneError, Place
from builder.index_ports import PackageIndex
from builder.model.lane import Dep, Source
from builder.model.lock import (
    Final,
    LockedDep,
    LockedDepsArchive,
    LockedFile,
    LockedPackage,
    LockedPatch,
    LockedSource,
    LockedSubmodule,
)
from builder.model.values import GitPin, SourceTree
from builder.ports import Files, GitStore, Project, Say
from builder.steps import identity, patches, published, replay, staging, trees
from builder.steps.hints import restoring
from builder.steps.placed import placed
from builder.steps.sources import resolve_submodules, source_urls


class LockEdited(LaneError):
    """Values of a lock that do not follow from the commit that stands beside them."""

    code = "lock-edited"


class Locked(Protocol):
    """Any entry of a lock."""

    @property
    def intent(self) -> str: ...


def keeps(table: object, old: Locked | None, *, update: bool) -> bool:
    """Whether an entry stays at what the older lock pins."""
    return old is not None and not update and old.intent == identity.intent(table)


def pin(
    name: str,
    source: Source | Dep,
    old: LockedSource | LockedDep | None,
    *,
    update: bool,
    store: GitStore,
    root: Path,
    place: Place | None = None,
) -> GitPin:
    """The commit to lock: the older lock's, the lane's, or what the tracked ref names now.

    `place` is its table in the lane. Raises: SourceUnavailable.
    """
    urls, ref = source_urls(source, root=root), source.track.ref
    if old is not None and keeps(source, old, update=update):
        commit = old.commit
    elif source.commit is not None and not (update and ref):
        commit = source.commit
    else:
        assert ref is not None
        with placed(name, place):
            commit = store.resolve(urls, ref)
    return GitPin(name, urls, commit, ref, place)


def source(
    pinned: GitPin,
    wanted: Source,
    *,
    old: LockedSource | None,
    former: LockedSource | None,
    reachable_from: str | None,
    lane: Path,
    project: Project,
    store: GitStore,
    files: Files,
    say: Say,
) -> LockedSource:
    """Lock a source whose pin is in the store: pull requests, submodules, digests, patches,
    result trees. `old` is the older lock's entry when that is kept, `former` in any case.

    Raises: ComposeConflict, PatchFailed, SubmoduleUnfilled, PublishedDiffers and what a fetch
    of a submodule or of a head raises.
    """
    info = store.commit(pinned.commit)
    if old is not None and old.tree != info.tree:
        place = Place(lane.with_suffix(".lock"), key=("sources", pinned.name))
        raise LockEdited.of([_edited("tree", place)])  # nothing can be composed onto it
    composed = replay.composed(
        pinned, wanted, old, former,
        lane=lane, project=project, store=store, files=files, say=say,
    )  # fmt: skip
    submodules = _submodules(pinned, wanted, composed.tree, project, store, say)
    own = trees.before_compose(pinned.name, info.tree, submodules, store=store)
    content = staging.archive(own, store=store, files=files).sha256
    tree = SourceTree(pinned.name, composed.tree, _trees(submodules))
    sets = patches.read_sets(wanted.patches, project=project)
    done = patches.apply(tree, sets, store=store)
    after = [*(p.result_tree for p in composed.pulls), *(p.tree for p in done.patches)]
    published.check(pinned.name, wanted, pinned.commit, [info.tree, *after], lane=lane, store=store)
    return LockedSource(
        intent=identity.intent(wanted),
        url=wanted.url,
        commit=pinned.commit,
        tree=info.tree,
        content=content,
        time=info.time,
        reachable_from=reachable_from,
        compose=composed.pulls,
        delta=composed.delta,
        submodules=submodules,
        patches=tuple(
            LockedPatch(p.patch.path, p.patch.sha256, p.state, p.tree) for p in done.patches
        ),
        final=_final(done.source, wanted.native, store, files),
    )


def dep(
    pinned: GitPin,
    wanted: Dep,
    *,
    reachable_from: str | None,
    project: Project,
    store: GitStore,
    files: Files,
    say: Say,
) -> LockedDep:
    info = store.commit(pinned.commit)
    submodules = _submodules(pinned, wanted, info.tree, project, store, say)
    tree = SourceTree(pinned.name, info.tree, _trees(submodules))
    return LockedDep(
        intent=identity.intent(wanted),
        url=wanted.url,
        into=wanted.into,
        commit=pinned.commit,
        tree=info.tree,
        content=staging.archive(tree, store=store, files=files).sha256,
        time=info.time,
        reachable_from=reachable_from,
        submodules=submodules,
    )


def deps_archive(
    deps: Mapping[str, LockedDep], *, store: GitStore, files: Files
) -> LockedDepsArchive | None:
    """The digest of deps-src.tar.gz; None for a lane without deps."""
    if not deps:
        return None
    return LockedDepsArchive(
        staging.deps_archive(staging.deps_trees(deps), store=store, files=files).sha256
    )


def package(
    table: object,
    request: str,
    old: LockedPackage | None,
    *,
    platforms: Sequence[str],
    index: Callable[[], PackageIndex],
    files: Files,
    exact: Callable[[str, str], str],
) -> LockedPackage:
    """Lock a wheel or a deb for every platform, in one version.

    `exact(name, version)` words the request that brings the first platform's version.
    """
    if old is not None and set(platforms) <= set(old.platforms):
        return old
    name = version = ""
    locked: dict[str, LockedFile] = {}
    for platform in platforms:
        with files.scratch() as into:
            wanted = exact(name, version) if version else request
            name, version, path = index().resolve(wanted, platform, into)
            digest, kept = files.put(path)
            locked[platform] = LockedFile(path.name, digest, kept.stat().st_size)
    return LockedPackage(identity.intent(table), name, version, locked)


def edited(
    old: LockedSource | LockedDep, new: LockedSource | LockedDep, place: Place
) -> Iterator[Finding]:
    """What an older lock's entry says otherwise of its own commit: a hand wrote it.

    To lock it again would make good what somebody slipped in. `place` is its table.
    """
    if old.commit != new.commit:
        return
    for key in ("tree", "time", "submodules"):
        if getattr(old, key) != getattr(new, key):
            yield _edited(key, place)


def _edited(key: str, place: Place) -> Finding:
    return Finding(
        LockEdited.code,
        f"{place.key[-1]}: the lock's {key} does not follow from its commit: it was edited",
        restoring(place.file.stem),
        place=Place(place.file, key=(*place.key, key)),
    )


def _submodules(
    pinned: GitPin, wanted: Source | Dep, tree: str, project: Project, store: GitStore, say: Say
) -> Mapping[str, LockedSubmodule]:
    with placed(pinned.name, pinned.place):
        return resolve_submodules(
            pinned.name, wanted.url, tree, wanted.submodules, wanted.unfilled,
            store=store, root=project.root, mirrors=wanted.mirrors, say=say,
        )  # fmt: skip


def _trees(submodules: Mapping[str, LockedSubmodule]) -> dict[str, str]:
    return {path: locked.tree for path, locked in submodules.items()}


def _final(tree: SourceTree, native: Sequence[str], store: GitStore, files: Files) -> Final:
    whole = staging.archive(tree, store=store, files=files).sha256
    if not native:
        return Final(tree.tree, whole)
    return Final(
        tree.tree,
        whole,
        native=staging.archive(tree, store=store, files=files, only=tuple(native)).sha256,
        rest=staging.archive(tree, store=store, files=files, without=tuple(native)).sha256,
    )
