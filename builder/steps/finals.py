"""Compare the digests that a lock names of its archives with what its trees give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from builder.errors import Finding, Place, SourceError
from builder.model.lane import Lane
from builder.model.lock import Lock
from builder.model.values import PatchedSource
from builder.ports import Files, GitStore
from builder.steps import staging
from builder.steps.sources import not_here


class ArchiveMismatch(SourceError):
    """A digest of the lock is not the one of what would be staged."""

    code = "content-mismatch"


def findings(
    lane: Lane, lock: Lock, patched: Mapping[str, PatchedSource], *, store: GitStore, files: Files
) -> Iterator[Finding]:
    """Every archive whose digest differs; nothing is written. Raises: TreeUnsafe."""
    for name, done in sorted(patched.items()):
        final, native = lock.sources[name].final, lane.sources[name].native
        found = {"content": staging.content(done.source, store=store, files=files)}
        if native:
            found["native"] = staging.content(done.source, store=store, files=files, only=native)
            found["rest"] = staging.content(done.source, store=store, files=files, without=native)
        for part, digest in found.items():
            if digest != getattr(final, part):
                key: tuple[str, ...] = ("sources", name, "final", part)
                yield _differs(f"{name}: final.{part}", digest, getattr(final, part), lock, key)
    absent = {key.partition(".")[0] for key in not_here(lock, store=store)}
    if lock.deps_archive is not None and "deps" not in absent:
        trees = staging.deps_trees(lock.deps)
        digest = staging.deps_content(trees, store=store, files=files)
        if digest != lock.deps_archive.content:
            key = ("deps-archive", "content")
            yield _differs("deps-archive", digest, lock.deps_archive.content, lock, key)


def _differs(
    what: str, found: str, locked: str | None, lock: Lock, key: tuple[str, ...]
) -> Finding:
    return Finding(
        ArchiveMismatch.code,
        f"{what} is {found:.19}, the lock says {(locked or 'nothing'):.19}",
        "the lock was edited, or merged by hand: compute it anew, then read the diff: "
        f"imgbuild lock {lock.path.stem}",
        place=Place(lock.path, key=key if locked else key[:-1]),
    )
