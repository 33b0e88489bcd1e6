"""What an update of a lock brings: per source the commits, files, pull requests, native part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from builder.errors import SourceError
from builder.model.lane import Dep, Lane, Source
from builder.model.lock import Lock, LockedDep, LockedSource
from builder.model.merges import CommitRange, FileChange
from builder.model.schema import dotted
from builder.model.values import CommitInfo, GitPin
from builder.ports import GitStore, Say
from builder.steps.sources import source_urls
from builder.steps.submodules import absolute

COMMITS = 20  # that are told of; all are counted
FILES = 10  # of the diffstat, those that changed most

Native = Literal["same", "changed", "not declared"]


@dataclass(frozen=True, slots=True)
class Commit:
    id: str
    author: str
    time: int  # of the committer, seconds since the epoch
    subject: str


@dataclass(frozen=True, slots=True)
class PullChange:
    pull: int
    before: str | None  # its head; None: it is new
    after: str | None  # None: it is gone


@dataclass(frozen=True, slots=True)
class SourceChange:
    """One source or dep whose commit or tree moved."""

    kind: str  # "sources" or "deps"
    name: str
    before: str  # commit
    after: str
    commits: tuple[Commit, ...] = ()  # the newest first, COMMITS at most
    count: int | None = None  # of all commits; None: the history cannot be had
    complete: bool = True  # False: there are more, which were not fetched
    rewritten: bool = False  # `before` is not in the history of `after`
    files: int = 0
    added: int = 0  # lines
    deleted: int = 0
    most: tuple[FileChange, ...] = ()
    native: Native = "not declared"
    native_files: tuple[str, ...] = ()
    pulls: tuple[PullChange, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """All that moved between two locks, sorted by kind and name."""

    sources: tuple[SourceChange, ...]
    deps_same: bool  # the same deps at the same commits in the same places
    deps_added: tuple[str, ...] = ()
    deps_removed: tuple[str, ...] = ()
    deps_moved: tuple[str, ...] = ()

    @property
    def native(self) -> bool:
        """Whether anything that is known to be compiled changed."""
        return not self.deps_same or any(s.native == "changed" for s in self.sources)

    def plain(self) -> dict[str, Any]:
        """For JSON; the keys are those of the classes."""
        return {**asdict(self), "native": self.native}


def collect(old: Lock, new: Lock, lane: Lane, *, root: Path, store: GitStore, say: Say) -> Changes:
    """Compare two locks of a lane; the history between their commits is fetched, bounded.

    What a server does not give is a note, not an error.
    """
    found = []
    for kind in ("deps", "sources"):
        before, after = getattr(old, kind), getattr(new, kind)
        wanted: Mapping[str, Source | Dep] = lane.sources if kind == "sources" else lane.own_deps
        for name in sorted(before.keys() & after.keys()):
            table = wanted.get(name)  # a dep that was derived has none
            native = table.native if isinstance(table, Source) else ()
            change = between(kind, name, before[name], after[name], native, store=store)
            if change is not None and change.before != change.after:
                pin = _pin(name, after[name], table, root)
                change = _with_commits(change, pin, store, say)
            found += [change] if change is not None else []
    return deps(old, new, tuple(found))


def between(
    kind: str,
    name: str,
    before: LockedSource | LockedDep,
    after: LockedSource | LockedDep,
    native: Sequence[str],
    *,
    store: GitStore,
) -> SourceChange | None:
    """The change of one entry as far as trees tell it; None when nothing moved."""
    trees = [_tree(entry) for entry in (before, after)]
    pulls = tuple(_pulls(before, after))
    if before.commit == after.commit and trees[0] == trees[1] and not pulls:
        return None
    stat = _stat(trees[0], trees[1], store)
    inside = tuple(f.path for f in stat or () if _is_below(f.path, native))
    notes = [] if stat is not None else ["the older tree is not in the store: no diffstat"]
    return SourceChange(
        kind, name, before.commit, after.commit,
        files=len(stat or ()),
        added=sum(f.added or 0 for f in stat or ()),
        deleted=sum(f.deleted or 0 for f in stat or ()),
        most=tuple(sorted(stat or (), key=_weight)[:FILES]),
        native=_native(before, after, native), native_files=inside[:FILES],
        pulls=pulls, notes=(*notes, *_moved_tag(before, after)),
    )  # fmt: skip


def deps(old: Lock, new: Lock, sources: tuple[SourceChange, ...]) -> Changes:
    """The changes with those of the dep set."""
    before, after = ({n: _dep(d) for n, d in lock.deps.items()} for lock in (old, new))
    shared = before.keys() & after.keys()
    return Changes(
        sources,
        before == after,
        tuple(sorted(after.keys() - before.keys())),
        tuple(sorted(before.keys() - after.keys())),
        tuple(sorted(name for name in shared if before[name] != after[name])),
    )


def with_range(change: SourceChange, found: CommitRange) -> SourceChange:
    """The change with the commits that lie between."""
    return replace(
        change,
        commits=tuple(map(_commit, found.commits)),
        count=found.count,
        complete=found.complete,
        rewritten=found.rewritten and found.complete,
    )


def _pin(
    name: str, locked: LockedSource | LockedDep, wanted: Source | Dep | None, root: Path
) -> GitPin:
    if wanted is None:
        return GitPin(name, (absolute(locked.url, root),), locked.commit, locked.reachable_from)
    return GitPin(name, source_urls(wanted, root=root), locked.commit, wanted.track.ref)


def _with_commits(change: SourceChange, new: GitPin, store: GitStore, say: Say) -> SourceChange:
    try:
        history, old = store.history(new.urls), replace(new, commit=change.before)
        return with_range(change, history.commits(old, new, limit=COMMITS, say=say))
    except SourceError as error:
        return replace(change, notes=(*change.notes, f"no list of commits: {error}"))


def _commit(info: CommitInfo) -> Commit:
    return Commit(info.commit, info.author, info.time, info.subject)


def _stat(before: str, after: str, store: GitStore) -> tuple[FileChange, ...] | None:
    if not (store.holds(before) and store.holds(after)):
        return None
    return store.stat(before, after)


def _native(
    before: LockedSource | LockedDep, after: LockedSource | LockedDep, native: Sequence[str]
) -> Native:
    """By the digests of the native archives, which hold submodules too."""
    if not native or isinstance(before, LockedDep) or isinstance(after, LockedDep):
        return "not declared"
    return "same" if before.final.native == after.final.native else "changed"


def _pulls(
    before: LockedSource | LockedDep, after: LockedSource | LockedDep
) -> Iterator[PullChange]:
    if isinstance(before, LockedDep) or isinstance(after, LockedDep):
        return
    old, new = ({pull.pull: pull.head for pull in entry.compose} for entry in (before, after))
    for number in sorted(old.keys() | new.keys()):
        if old.get(number) != new.get(number):
            yield PullChange(number, old.get(number), new.get(number))


def _moved_tag(before: LockedSource | LockedDep, after: LockedSource | LockedDep) -> Iterator[str]:
    ref = after.reachable_from or ""
    moved = before.reachable_from == ref and before.commit != after.commit
    if ref.startswith("refs/tags/") and moved:
        yield f"the tag {ref.removeprefix('refs/tags/')} was moved: tags should not"


def _tree(entry: LockedSource | LockedDep) -> str:
    return entry.composed_tree if isinstance(entry, LockedSource) else entry.tree


def _dep(locked: LockedDep) -> tuple[str, str, Mapping[str, Any]]:
    return locked.into, locked.tree, {p: s.tree for p, s in locked.submodules.items()}


def _is_below(path: str, roots: Sequence[str]) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in roots)


def _weight(change: FileChange) -> tuple[int, str]:
    return -((change.added or 0) + (change.deleted or 0)), change.path


def differing(old: Any, new: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str, Any, Any]]:
    """Differing values; a table that is new or gone is one change, from the second level on."""
    if len(at) < 2 and not isinstance(new, int):
        old, new = ({} if value is None else value for value in (old, new))
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            change
            for key in sorted(old.keys() | new.keys())
            for change in differing(old.get(key), new.get(key), (*at, key))
        ]
    return [] if old == new else [(dotted(at), old, new)]
