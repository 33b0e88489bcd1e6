"""The values of composing: merges, what they give, and what lies between two commits."""

from __future__ import annotations

from dataclasses import dataclass

from builder.model.lock import LockedCompose
from builder.model.values import CommitInfo


@dataclass(frozen=True, slots=True)
class CommitRange:
    """The commits that are in the history of one commit and not in that of another."""

    commits: tuple[CommitInfo, ...]  # the newest first, at most as many as were asked for
    count: int  # all that are known
    complete: bool  # False: the history was not followed to its end
    rewritten: bool  # the older commit is not in the history of the newer one


@dataclass(frozen=True, slots=True)
class FileChange:
    """One line of a diffstat; no counts for a binary file."""

    path: str
    added: int | None
    deleted: int | None


@dataclass(frozen=True, slots=True)
class MergeConflict:
    path: str
    kind: str  # git's word: "CONFLICT (contents)"
    words: str  # git's sentence
    held: bytes = b""  # the file with conflict markers


@dataclass(frozen=True, slots=True)
class Merged:
    """The tree of a merge; with conflicts it is not whole."""

    tree: str
    conflicts: tuple[MergeConflict, ...] = ()


@dataclass(frozen=True, slots=True)
class ComposedTree:
    """A source's tree after its pull requests."""

    tree: str
    pulls: tuple[LockedCompose, ...]
    delta: str | None = None  # sha256 of the patch from the commit's tree, in the file store
    by_delta: tuple[int, ...] = ()  # pull requests that were not merged anew, for want of objects
