"""The world as steps see it: small Protocols that tools implement."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

from builder.errors import SourceError

if TYPE_CHECKING:  # names only: whoever draws a line needs no model
    from builder.model.merges import CommitRange, FileChange, Merged
    from builder.model.values import (
        CommitInfo,
        FetchedPin,
        GitPin,
        Record,
        TreeEntry,
    )

Say = Callable[[str], None]
"""Tells the person at the terminal, in one short line, what is going on right now."""


class RefGone(SourceError):
    """The server answers, and has no such ref."""

    code = "source-unavailable"


class GitStore(Protocol):
    """One bare repository for the objects of all sources."""

    def has(self, commit: str) -> bool:
        """Whether the commit is in the store whole (it was published by `fetch`)."""

    def fetch(self, pins: Sequence[GitPin], *, say: Say) -> tuple[FetchedPin, ...]:
        """Bring the pins that are missing, several at once, each at depth 1.

        A pin is published whole or not at all. Raises: SourceUnavailable, with every
        attempt and its reason, after all pins were tried."""

    def resolve(self, urls: Sequence[str], ref: str) -> str:
        """The commit that a remote ref names now (an annotated tag is peeled).

        Raises: SourceUnavailable; RefGone, when every place answers that it has no such ref.
        """

    def commit(self, commit: str) -> CommitInfo: ...

    def blob(self, tree: str, path: str) -> bytes | None:
        """The content of a file in a tree; None when there is none."""

    def entries(self, tree: str) -> tuple[TreeEntry, ...]:
        """All entries of a tree, recursively, without the trees themselves, in git's order."""

    def stream(self, objects: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """The blobs in the order asked, each re-hashed. Raises: ObjectDamaged."""

    def settings(self, blob: str) -> tuple[tuple[str, str], ...]:
        """Keys and values of a blob in git's config syntax, its includes not followed."""

    def patching(self, tree: str) -> AbstractContextManager[PatchIndex]:
        """A temporary index that starts at a tree; nothing is ever checked out."""

    def holds(self, tree: str) -> bool:
        """Whether the object is in the store."""

    def merge(self, base: str, ours: str, theirs: str) -> Merged:
        """Merge three trees, all in the store. The same trees give the same result for every
        user: no attribute, merge driver or setting is read."""

    def diff(self, old: str, new: str) -> bytes:
        """The patch between two trees, with full ids and binary content; may be empty."""

    def stat(self, old: str, new: str) -> tuple[FileChange, ...]:
        """How many lines each file gained and lost; a renamed file is two changes."""

    def history(self, urls: Sequence[str]) -> History:
        """The commit graph of a repository, kept beside the store."""


class History(Protocol):
    """Commits and their parents around some tips: deepened step by step, as far as a question
    needs it, and kept. Tips are fetched from `urls`, by their own id or ref.
    """

    @property
    def urls(self) -> tuple[str, ...]:
        """Where commits of this history may be had: what is here first."""

    def merge_bases(self, ours: Sequence[GitPin], theirs: GitPin, *, say: Say) -> tuple[str, ...]:
        """All merge bases of `theirs` and a merge of `ours`, proven: none lies behind the
        boundary of what was fetched. Empty when they have nothing in common.

        Raises: SourceUnavailable.
        """

    def merge(self, tree: str, ours: Sequence[GitPin], theirs: GitPin, *, say: Say) -> Merged:
        """Merge `theirs` into a tree that is the merge of `ours`, with the real graph; the
        result lies in the store, whole. Raises: SourceUnavailable."""

    def reaches(self, tip: GitPin, commit: str, *, say: Say) -> bool | None:
        """Whether the commit is in the history of the tip; None when that was not found out
        within the number of commits that are fetched for it. Raises: SourceUnavailable."""

    def last_change(self, commit: str, path: str, text: str) -> CommitInfo | None:
        """The newest commit here that added or removed a text in a file; nothing is fetched."""

    def commits(self, old: GitPin, new: GitPin, *, limit: int, say: Say) -> CommitRange:
        """What `new` has and `old` has not. Raises: SourceUnavailable."""

    def breaking(
        self, old: GitPin, new: GitPin, applies: Callable[[PatchIndex], bool],
        *, paths: Sequence[str], say: Say,
    ) -> CommitInfo | None:  # fmt: skip
        """The commit between the two, of those that touch `paths`, at which a patch applies no
        longer; the newest of them where it never did. Raises: SourceUnavailable."""


class PatchIndex(Protocol):
    """An index to which patches are applied one after another, with zero fuzz."""

    def check(self, patch: bytes, *, strip: int, reverse: bool = False) -> str:
        """Empty when the patch applies cleanly, else git's own words."""

    def apply(self, patch: bytes, *, strip: int) -> tuple[str | None, str]:
        """Apply a patch that was checked; the id of the tree that results. None, and git's words,
        where it would make a file of what is a folder, or the other way; the index stays."""

    def merge(self, patch: bytes, *, strip: int) -> tuple[str | None, str]:
        """Merge a patch over the blobs that it was made from, as far as they are in the store:
        the tree that results, or None and git's words, and the index is as it was."""

    def put(self, path: str, data: bytes, *, executable: bool | None = None) -> str:
        """Write a regular file (None: with the mode that it has); the tree that results."""

    def drop(self, path: str) -> str:
        """Take a file out; the tree that results."""

    def held(self, path: str) -> bytes | None:
        """The content of a file; None when there is none."""


class Files(Protocol):
    """Files by their sha256: written once, renamed into place, hashed again when read."""

    def path(self, sha256: str) -> Path | None:
        """Where the file lies, or None; its content was hashed and is what was asked for."""

    def put(self, source: Path, *, sha256: str | None = None) -> tuple[str, Path]:
        """Take a file in (copied); its sha256 and place. Raises: ContentMismatch."""

    def create(self, write: Callable[[IO[bytes]], None]) -> tuple[str, Path]:
        """Take in what `write` writes; its sha256 and place."""

    def scratch(self) -> AbstractContextManager[Path]:
        """An empty folder on the same file system, removed when the block is left."""

    def recall(self, key: str) -> str | None:
        """What `remember` kept under a key: a fact that follows from the key alone."""

    def remember(self, key: str, value: str) -> None: ...


class ContextStore(Protocol):
    """Build contexts on disk, each in a folder named by its content."""

    def publish(
        self, files: Mapping[str, Path | bytes], *, executable: Collection[str] = ()
    ) -> Path:
        """The folder with these files (path below it -> content), complete, never changed
        after. What lies in the file store is linked, not copied."""


class Project(Protocol):
    """The files that people write: lanes, patches, image folders. Paths are relative, with /."""

    @property
    def root(self) -> Path: ...

    def read(self, path: str) -> bytes | None:
        """The content of a file below the root; None when there is none."""

    def write(self, path: str, data: bytes) -> None:
        """Write a file below the root: beside it, then renamed into place."""

    def files(self, folder: str) -> tuple[tuple[str, bool], ...] | None:
        """(path below the folder, is executable), sorted; None when there is no folder.

        Left out: what desktop systems and interpreters drop there (`.DS_Store`, `._*`,
        `__pycache__`). Raises: LaneError for a symlink or what is no regular file.
        """


class WorkFolder(Project, Protocol):
    """A project whose files are changed together."""

    def change(self, files: Mapping[str, bytes | None]) -> None:
        """Write or remove (None) files below the root: all of them, or none where one fails."""


class Records(Protocol):
    """The runs of builds on this machine: a record and a log each."""

    def start(self, lane: str) -> RunFolder:
        """A new run; its folder is held by this process until it ends."""

    def runs(self, lane: str | None = None) -> tuple[Record, ...]:
        """All records, oldest first; damaged ones are left out."""

    def ended(self, lane: str, run: str) -> bool:
        """Whether no process holds this run any more; False for what is not known here."""


class RunFolder(Protocol):
    @property
    def id(self) -> str:
        """Sorts by time; unique on this machine."""

    @property
    def log(self) -> Path: ...
    def write(self, record: Record) -> Path: ...


class Progress(Protocol):
    """What a pipeline tells while it runs. `stage` shows a line; `done` completes it."""

    def title(self, text: str) -> None: ...
    def stage(self, name: str) -> AbstractContextManager[StageLine]: ...
    def note(self, text: str) -> None: ...


class StageLine(Protocol):
    def expect(self, seconds: float | None) -> None:
        """What it took the last time that it did the same work; None: that is not known."""

    def say(self, text: str) -> None:
        """What it does right now."""

    def done(self, text: str, *, good: bool = True) -> None:
        """What it did, the text of the completed line; whether what it found is good."""
