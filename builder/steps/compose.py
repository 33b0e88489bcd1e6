"""Compose pull requests onto a commit when locking: in order, in the object database.

What is found out once (heads, merge bases, which of them the commit already has) is locked;
steps/replay follows the lock and needs no history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from builder.errors import PatchError, Place
from builder.model.lane import Pull, Source
from builder.model.lock import LockedCompose
from builder.model.merges import ComposedTree, Merged
from builder.model.values import GitPin
from builder.ports import Files, GitStore, History, Say
from builder.steps import conflicts, delta
from builder.steps.conflicts import ComposeConflict


class ComposeImpossible(PatchError):
    """A pull request cannot be composed, whatever its content is."""

    code = "compose-impossible"


def compose(
    pinned: GitPin,
    wanted: Source,
    heads: Sequence[GitPin],
    *,
    lane: Path,
    store: GitStore,
    files: Files,
    say: Say,
) -> ComposedTree:
    """Compose the heads onto the pinned commit, which is in the store; what else is needed is
    fetched here.

    Raises: ComposeConflict, ComposeImpossible, SourceUnavailable.
    """
    base = store.commit(pinned.commit).tree
    work = _Work(pinned, lane, store, files, say, store.history(pinned.urls), [pinned])
    tree, done = base, list[LockedCompose]()
    for i, (pull, head) in enumerate(zip(wanted.compose, heads, strict=True)):
        say(f"{pinned.name}: pull request {pull.pull}")
        place = Place(lane, key=("sources", pinned.name, "compose", i))
        step = work.pick if wanted.compose_strategy == "cherry-pick" else work.merge
        found = step(tree, pull, head, done, place)
        tree = found.result_tree
        done.append(found)
    return ComposedTree(
        tree, tuple(done), delta.make(base, tree, what=pinned.name, store=store, files=files)
    )


@dataclass(slots=True)
class _Work:
    """What the steps of one composition share."""

    pinned: GitPin
    lane: Path
    store: GitStore
    files: Files
    say: Say
    history: History
    ours: list[GitPin] = field(default_factory=list)  # the commit, and the heads merged so far

    def merge(
        self, tree: str, pull: Pull, head: GitPin, done: Sequence[LockedCompose], place: Place
    ) -> LockedCompose:
        bases = self.history.merge_bases(self.ours, head, say=self.say)
        if not bases:
            raise ComposeImpossible(
                f"{self.pinned.name}: pull request {pull.pull} has no history in common with "
                f"commit {self.pinned.commit:.12}",
                hint="is it a pull request of this repository?", place=place,
            )  # fmt: skip
        if bases == (head.commit,) and self._has(head):
            return LockedCompose(pull.pull, head.commit, "already-in-base", tree)
        if len(bases) > 1:
            merged = self.history.merge(tree, self.ours, head, say=self.say)
        else:
            base = self._tree(replace(self.pinned, commit=bases[0]))
            merged = self.store.merge(base, tree, self._tree(head))
        self._judge(merged, pull, head, done, place)
        self.ours.append(head)
        return LockedCompose(
            pull.pull, head.commit, "merged", merged.tree, bases, with_history=len(bases) > 1
        )

    def pick(
        self, tree: str, pull: Pull, head: GitPin, done: Sequence[LockedCompose], place: Place
    ) -> LockedCompose:
        commits = pull.commits or (head.commit,)
        pins = [replace(head, commit=commit) for commit in commits]
        if all(self._has(pin) for pin in pins):
            return LockedCompose(
                pull.pull, head.commit, "already-in-base", tree, commits=pull.commits
            )
        parents = []
        for pin in pins:
            after = self._tree(pin)
            parents.append(self._parent(pin, pull, place))
            before = self._tree(replace(pin, commit=parents[-1]))
            merged = self.store.merge(before, tree, after)
            self._judge(merged, pull, pin, done, place)
            tree = merged.tree
        return LockedCompose(pull.pull, head.commit, "cherry-picked", tree, tuple(parents), commits)

    def _has(self, head: GitPin) -> bool:
        """Whether the commit that all is composed onto has the head already."""
        return self.history.merge_bases([self.pinned], head, say=self.say) == (head.commit,)

    def _parent(self, pin: GitPin, pull: Pull, place: Place) -> str:
        parents = self.store.commit(pin.commit).parents
        if len(parents) != 1:
            kind = "is a merge" if parents else "has no parent"
            raise ComposeImpossible(
                f"{self.pinned.name}: {pin.commit:.12} of pull request {pull.pull} {kind}, "
                "and cannot be picked",
                hint='name its commits: commits = ["…"], or compose-strategy = "merge"',
                place=place,
            )
        return parents[0]

    def _tree(self, pin: GitPin) -> str:
        """The tree of a commit; it is brought into the store, from this machine first."""
        self.store.fetch([replace(pin, urls=self.history.urls)], say=self.say)
        return self.store.commit(pin.commit).tree

    def _judge(
        self, merged: Merged, pull: Pull, head: GitPin, done: Sequence[LockedCompose], place: Place
    ) -> None:
        if merged.conflicts:
            before = [locked.pull for locked in done if locked.disposition != "already-in-base"]
            raise ComposeConflict.of(
                [
                    conflicts.finding(
                        self.pinned.name, pull.pull, head.commit, before, merged.conflicts,
                        place=place,
                    )
                ]
            )  # fmt: skip
