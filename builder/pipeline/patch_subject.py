"""The source that `imgbuild patch` works on: its pin now, its pin in the older lock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from builder.errors import ImgbuildError, Place, UsageError
from builder.model.lane import Lane, Source
from builder.model.lock import LockedSource
from builder.model.values import GitPin, PatchFile, SourceTree
from builder.ports import Files, GitStore, Project, Say
from builder.steps import patches, replay, resolve
from builder.steps.lanes import LockMissing, read_lane, read_lock


@dataclass(frozen=True, slots=True)
class Subject:
    """A source before its patches, and what was locked of it."""

    lane: Lane
    name: str
    wanted: Source
    patches: tuple[PatchFile, ...]
    pinned: GitPin
    tree: SourceTree  # after compose
    old: LockedSource | None

    @property
    def old_pin(self) -> GitPin | None:
        """Where the source stood when it was locked; None when that is where it is now."""
        if self.old is None or self.old.commit == self.pinned.commit:
            return None
        return GitPin(self.name, self.pinned.urls, self.old.commit, self.old.reachable_from)


def subjects(
    lane_name: str,
    only: str | None,
    *,
    update: bool = False,
    project: Project,
    store: GitStore,
    files: Files,
    say: Say,
) -> Iterator[Subject]:
    """The sources of a lane that have patches, or the one that is asked for.

    With `update`, at what their tracked refs name now. Raises: UsageError, SourceUnavailable,
    PatchSetInvalid and what composing raises.
    """
    lane = read_lane(lane_name, project=project).lane
    if only is not None and only not in lane.sources:
        known = ", ".join(sorted(lane.sources))
        raise UsageError(f"{lane_name} has no source {only!r}", hint=f"its sources: {known}")
    locked = None
    with suppress(LockMissing):
        locked = read_lock(lane, whole=False)
    for name, wanted in sorted(lane.sources.items()):
        if name != only and (only is not None or not wanted.patches):
            continue
        old = locked.sources.get(name) if locked else None
        place = Place(lane.path, key=("sources", name))
        pinned = resolve.pin(
            name, wanted, old, update=update, store=store, root=project.root, place=place
        )
        store.fetch([pinned], say=say)
        kept = old if resolve.keeps(wanted, old, update=update) else None
        composed = replay.composed(
            pinned, wanted, kept, old,
            lane=lane.path, project=project, store=store, files=files, say=say,
        )  # fmt: skip
        subs = {path: sub.tree for path, sub in old.submodules.items()} if old else {}
        found = patches.read_sets(wanted.patches, project=project)
        tree = SourceTree(name, composed.tree, subs)
        yield Subject(lane, name, wanted, found, pinned, tree, old)


def former_tree(subject: Subject, *, store: GitStore, say: Say) -> tuple[SourceTree | None, str]:
    """The tree that the patches were locked on, fetched again; or why there is none."""
    old, pin = subject.old, subject.old_pin
    if old is None:
        return None, f"{subject.name} was never locked, so what the patch was made on is not known"
    if pin is None:
        return None, f"{subject.name} stands where it was locked: no commit in between to merge"
    if not store.holds(old.composed_tree):
        with suppress(ImgbuildError):
            store.fetch([pin], say=say)
    is_here = store.holds(old.composed_tree)
    if not is_here:
        return None, f"the commit {old.commit:.12} that it was locked on cannot be had any more"
    return SourceTree(subject.name, old.composed_tree), ""
