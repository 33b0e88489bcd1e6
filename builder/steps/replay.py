"""Follow a locked composition: the same merges again, from three trees each, no history.

A merge follows from its commits alone, so its result is remembered on this machine. Where a head
cannot be had any more, the locked delta gives the same tree.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.errors import PatchError, Place, SourceError
from builder.model.lane import Source
from builder.model.lock import LockedCompose, LockedSource
from builder.model.merges import ComposedTree
from builder.model.values import GitPin
from builder.ports import Files, GitStore, Project, Say
from builder.steps import compose, delta, pulls
from builder.steps.hints import restoring
from builder.steps.sources import source_urls

FORMAT = "imgbuild merge 1"
"""Raised whenever the same commits would be merged otherwise."""


class ComposeDrift(PatchError):
    """A composition does not give the locked tree."""

    code = "compose-drift"


class ComposeUnavailable(SourceError):
    """Neither the heads of a composition nor its delta can be had."""

    code = "compose-unavailable"


def composed(
    pinned: GitPin,
    wanted: Source,
    old: LockedSource | None,
    former: LockedSource | None,
    *,
    lane: Path,
    project: Project,
    store: GitStore,
    files: Files,
    say: Say,
) -> ComposedTree:
    """For a lock: replay what the older one composed when it is kept (`old`), else compose.

    Raises: what `replay` and `compose.compose` raise.
    """
    name, tree = pinned.name, store.commit(pinned.commit).tree
    if not wanted.compose:
        return ComposedTree(tree, ())
    if old is not None and old.compose and old.commit == pinned.commit:
        bring(name, old, wanted, root=project.root, store=store, files=files, say=say)
        place = Place(lane.with_suffix(".lock"), key=("sources", name))
        return replay(
            name, old, wanted, place=place, project=project, store=store, files=files, say=say
        )
    heads = pulls.heads(pinned, wanted, old, store=store, former=former)
    done = compose.compose(pinned, wanted, heads, lane=lane, store=store, files=files, say=say)
    remember(done.pulls, tree, files=files)
    return done


def bring(
    name: str,
    locked: LockedSource,
    wanted: Source,
    *,
    root: Path,
    store: GitStore,
    files: Files,
    say: Say,
) -> None:
    """Fetch what the merges take, unless they were done here before; what is gone is gone."""
    if locked.compose and not remembered(locked, store=store, files=files):
        with contextlib.suppress(SourceError):
            store.fetch(pulls.pins(name, locked, wanted, root=root), say=say)


def remembered(locked: LockedSource, *, store: GitStore, files: Files) -> bool:
    """Whether every step was merged on this machine, and the result is there."""
    tree = locked.tree
    for pull in locked.compose:
        if pull.disposition != "already-in-base" and files.recall(_key(tree, pull)) is None:
            return False
        tree = pull.result_tree
    return store.holds(tree)


def remember(locked: Sequence[LockedCompose], tree: str, *, files: Files) -> None:
    """Keep what a composition gave; `tree` is the one that it began with."""
    for pull in locked:
        if pull.disposition != "already-in-base":
            files.remember(_key(tree, pull), pull.result_tree)
        tree = pull.result_tree


def replay(
    name: str,
    locked: LockedSource,
    wanted: Source,
    *,
    place: Place,
    project: Project,
    store: GitStore,
    files: Files,
    deep: bool = False,
    offline: bool = False,
    say: Say,
) -> ComposedTree:
    """The locked result, proven step by step; `place` is the source's table in the lock.

    With `deep` nothing that was remembered counts, several merge bases are merged with their
    history (not when `offline`), and the delta must give the result too.

    Raises: ComposeDrift, ComposeUnavailable, DeltaInvalid.
    """
    data = None
    if locked.delta is not None:
        lane = place.file.stem
        data = delta.read(locked.delta, lane, name, project=project, files=files)
    work = _Replay(
        name, locked, wanted, data, place, project.root, store, files, deep, offline, say
    )
    tree = locked.tree
    for i, pull in enumerate(locked.compose):
        found = work.step(i, tree)
        if found is None:
            left = tuple(pull.pull for pull in locked.compose[i:])
            return ComposedTree(work.by_delta(), locked.compose, locked.delta, left)
        if found != pull.result_tree:
            raise work.drift(f"pull request {pull.pull}", found, i)
        tree = found
    if deep and data is not None:
        work.by_delta()
    remember(locked.compose, locked.tree, files=files)
    return ComposedTree(tree, locked.compose, locked.delta)


@dataclass(frozen=True, slots=True)
class _Replay:
    """What the steps of one replay share."""

    name: str
    locked: LockedSource
    wanted: Source
    delta: bytes | None
    place: Place
    root: Path
    store: GitStore
    files: Files
    deep: bool
    offline: bool
    say: Say

    def step(self, i: int, tree: str) -> str | None:
        """The tree after one pull request; None when what it takes is not in the store."""
        pull = self.locked.compose[i]
        if pull.disposition == "already-in-base":
            return tree
        known = None if self.deep else self.files.recall(_key(tree, pull))
        if known is not None and self.store.holds(known):
            return known
        if pull.with_history:
            wanted = (self.deep or self.delta is None) and not self.offline
            return self._with_history(i, tree) if wanted else None
        return self._three_trees(pull, tree) if self._has(pull) else None

    def by_delta(self) -> str:
        """The result by the delta. Raises: ComposeUnavailable, ComposeDrift, DeltaInvalid."""
        if self.delta is None:
            raise self._unavailable()
        tree = delta.apply(self.locked.tree, self.delta, what=self.name, store=self.store)
        if tree != self.locked.composed_tree:
            raise self.drift("the delta", tree, len(self.locked.compose) - 1)
        return tree

    def drift(self, what: str, found: str, i: int) -> ComposeDrift:
        locked = self.locked.compose[i].result_tree
        return ComposeDrift(
            f"{self.name}: {what} gives tree {found:.12}, the lock says {locked:.12}",
            hint="the lock was edited, or made with a git that merges otherwise (git --version): "
            + restoring(self.place.file.stem),
            place=Place(self.place.file, key=(*self.place.key, "compose", i, "result-tree")),
        )

    def _no_parent(self, commit: str, base: str) -> ComposeDrift:
        return ComposeDrift(
            f"{self.name}: {base:.12} is not the parent of the picked commit {commit:.12}",
            hint=restoring(self.place.file.stem),
            place=Place(self.place.file, key=(*self.place.key, "compose")),
        )

    def _three_trees(self, pull: LockedCompose, tree: str) -> str:
        for commit, base in zip(pulls.merged(pull), pull.merge_base, strict=True):
            if pull.commits and base not in self.store.commit(commit).parents:
                raise self._no_parent(commit, base)
            before, after = (self.store.commit(name).tree for name in (base, commit))
            merged = self.store.merge(before, tree, after)
            tree = merged.tree
            if merged.conflicts:
                break  # the tree holds markers: it is not the locked one
        return tree

    def _with_history(self, i: int, tree: str) -> str | None:
        urls, track = source_urls(self.wanted, root=self.root), self.wanted.track.ref
        ours = [GitPin(self.name, urls, self.locked.commit, track)]
        ours += [
            GitPin(f"{self.name}/pull/{p.pull}", urls, p.head, pulls.ref(p.pull))
            for p in self.locked.compose[: i + 1]
            if p.disposition == "merged"
        ]
        try:
            merged = self.store.history(urls).merge(tree, ours[:-1], ours[-1], say=self.say)
        except SourceError:
            return None
        return merged.tree

    def _has(self, pull: LockedCompose) -> bool:
        commits = (*pulls.merged(pull), *pull.merge_base)
        return not pull.with_history and all(self.store.has(commit) for commit in commits)

    def _unavailable(self) -> ComposeUnavailable:
        gone = [str(pull.pull) for pull in self.locked.compose if not self._has(pull)]
        lane = self.place.file.stem
        file = delta.path(lane, self.name)
        return ComposeUnavailable(
            f"{self.name}: pull request {', '.join(gone)} cannot be had, and {file} is not the "
            "locked delta",
            hint=f"imgbuild fetch {lane} brings what servers still have; else take {file} from "
            "where the lock was made, or lock without that pull request",
            place=Place(self.place.file, key=(*self.place.key, "delta")),
        )


def _key(tree: str, pull: LockedCompose) -> str:
    return "\n".join(
        (FORMAT, pull.disposition, tree, *pulls.merged(pull), "onto", *pull.merge_base)
    )
