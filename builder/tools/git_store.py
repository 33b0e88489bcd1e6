"""The store: one bare repository for the objects of all sources; implements GitStore."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from builder.errors import Finding
from builder.model.merges import FileChange, Merged
from builder.model.values import CommitInfo, FetchedPin, GitPin, TreeEntry
from builder.ports import PatchIndex, Say
from builder.tools import git_env, git_fetch, git_merge, git_patch, git_quarantine, git_remote
from builder.tools.git_fetch import Attempt, Fetching, SourceUnavailable, Stop
from builder.tools.git_history import HistoryFolder
from builder.tools.git_read import Reader

AT_ONCE = 4
_HAVES = 16  # pins of the same repository that its server is told of


class Store:
    """Pins below `<cache>/git`; quarantines and indexes below `<cache>/tmp`."""

    def __init__(self, cache: Path) -> None:
        self.git_dir = cache / "git"
        self.tmp = cache / "tmp"
        self._reader = Reader(self.git_dir)
        self._entries = functools.lru_cache(maxsize=32)(self._reader.entries)

    def has(self, commit: str) -> bool:
        """Whether `fetch` published the commit; starts no process."""
        return git_quarantine.is_pinned(self.git_dir, commit)

    def fetch(self, pins: Sequence[GitPin], *, say: Say) -> tuple[FetchedPin, ...]:
        """Bring the missing pins. Raises: SourceUnavailable, after all were tried."""
        missing = [pin for pin in pins if not self.has(pin.commit)]
        if not missing:
            return tuple(FetchedPin(pin, None) for pin in pins)
        self._prepare()
        told = _Told(say)
        stop = Stop()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            try:
                results = list(pool.map(lambda pin: self._bring(pin, told, stop), missing))
            except BaseException:
                stop.now()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        if failed := [r for r in results if isinstance(r, Finding)]:
            raise SourceUnavailable.of(failed)
        new = {r.pin: r for r in results if isinstance(r, FetchedPin)}
        return tuple(new.get(pin) or FetchedPin(pin, None) for pin in pins)

    def resolve(self, urls: Sequence[str], ref: str) -> str:
        """The commit that a remote ref, or HEAD, names now. Raises: SourceUnavailable."""
        self._prepare()
        return git_remote.resolve(urls, ref, own=self._own, store=self.git_dir)

    def commit(self, commit: str) -> CommitInfo:
        """Raises: ObjectDamaged."""
        return self._reader.commit(commit)

    def blob(self, tree: str, path: str) -> bytes | None:
        """A regular file of a tree, hashed again; None when there is none."""
        return self._reader.blob(tree, path)

    def entries(self, tree: str) -> tuple[TreeEntry, ...]:
        """All entries below a tree. Raises: NameUnreadable, ObjectDamaged."""
        return self._entries(tree)

    def stream(self, objects: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Blobs in the order asked, each hashed again. Raises: ObjectDamaged."""
        return self._reader.stream(objects)

    def settings(self, blob: str) -> tuple[tuple[str, str], ...]:
        """Keys and values of a blob in git's config syntax, such as `.gitmodules`."""
        return self._reader.settings(blob)

    def patching(self, tree: str) -> AbstractContextManager[PatchIndex]:
        """A temporary index that starts at a tree."""
        return git_patch.patching(self.git_dir, tree, self.tmp)

    def holds(self, tree: str) -> bool:
        """Whether the object is there."""
        return self._reader.holds(tree)

    def merge(self, base: str, ours: str, theirs: str) -> Merged:
        """Merge three trees."""
        return git_merge.merge_trees(self.git_dir, self.tmp, base, ours, theirs)

    def diff(self, old: str, new: str) -> bytes:
        """The patch between two trees."""
        return git_merge.diff(self.git_dir, old, new)

    def stat(self, old: str, new: str) -> tuple[FileChange, ...]:
        """Lines gained and lost by file."""
        return git_merge.stat(self.git_dir, old, new)

    def history(self, urls: Sequence[str]) -> HistoryFolder:
        """The commit graph of a repository, shared by all that name the same first URL."""
        name = sha256(urls[0].encode()).hexdigest()[:32]
        folder = self.git_dir.parent / "history" / name
        return HistoryFolder(folder, urls, self.git_dir, lambda: self._own)

    def close(self) -> None:
        """End the git processes that reading keeps."""
        self._reader.close()

    @functools.cached_property
    def _own(self) -> tuple[git_env.Setting, ...]:
        return git_env.users_settings()

    def _prepare(self) -> None:
        if not (self.git_dir / "HEAD").exists():
            with git_quarantine.locked(self.git_dir):
                git_quarantine.make_bare(self.git_dir)
        git_quarantine.sweep(self.tmp)
        self._own  # noqa: B018  read before threads start

    def _bring(self, pin: GitPin, told: _Told, stop: Stop) -> FetchedPin | Finding:
        attempts: list[Attempt] = []
        with git_quarantine.quarantine(self.git_dir, self.tmp, self._haves(pin)) as folder:
            progress = functools.partial(told.progress, pin.name)
            url = git_fetch.fetch(pin, Fetching(folder, self._own, progress, attempts, stop))
            told.ended(pin.name)
            if url is None:
                return git_fetch.unavailable(pin, attempts, self._own)
            with git_quarantine.locked(self.git_dir):
                if self.has(pin.commit):  # another process was faster
                    return FetchedPin(pin, None)
                size = git_quarantine.publish(folder, self.git_dir, pin.commit)
                self._remember(pin, url)
        return FetchedPin(pin, url, size)

    def _haves(self, pin: GitPin) -> list[str]:
        known = [c for url in pin.urls for c in self._from(url)]
        return [c for c in dict.fromkeys(reversed(known)) if self.has(c)][:_HAVES]

    def _from(self, url: str) -> list[str]:
        file = self._from_file(url)
        return file.read_text().split() if file.exists() else []

    def _remember(self, pin: GitPin, url: str) -> None:
        known = [*self._from(url), pin.commit][-_HAVES:]
        git_quarantine.write(self._from_file(url), "".join(f"{c}\n" for c in known))

    def _from_file(self, url: str) -> Path:
        return self.git_dir / "imgbuild-from" / sha256(url.encode()).hexdigest()


@dataclass(slots=True)
class _Told:
    """Gathers the progress of several transfers into one short line."""

    say: Say
    sizes: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def progress(self, name: str, size: int) -> None:
        with self.lock:
            self.sizes[name] = size
            parts = [f"{n} {b / 1e6:.1f} MB" for n, b in sorted(self.sizes.items())]
            self.say(", ".join(parts[:3]) + ("…" if len(parts) > 3 else ""))

    def ended(self, name: str) -> None:
        with self.lock:
            self.sizes.pop(name, None)
