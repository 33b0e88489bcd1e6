"""Fetch into a bare repository of its own, then publish it whole into the store.

Nothing half-fetched is ever in the store, git's own `shallow.lock` never collides, and a
process killed at any moment leaves only a folder below `tmp`, which a later run removes.
Order of publishing, under one file lock: packs (the .idx last), `shallow`, then the ref. A
reader that sees the ref finds all that it needs.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

PINS = "refs/imgbuild/pin"

_OLD_S = 86400
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
_ORDER = {".pack": 0, ".rev": 1, ".idx": 2}  # git sees a pack by its .idx


def make_bare(git_dir: Path) -> None:
    """An empty bare repository, without starting git; no templates, so no hooks."""
    for folder in ("objects/pack", "objects/info", "refs"):
        (git_dir / folder).mkdir(parents=True, exist_ok=True)
    write(git_dir / "config", _CONFIG)
    write(git_dir / "HEAD", "ref: refs/heads/none\n")


def write(path: Path, text: str) -> None:
    """Write beside the target and rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


@contextlib.contextmanager
def locked(git_dir: Path) -> Iterator[None]:
    """Hold the store's lock; every change of refs, packs and `shallow` happens under it."""
    from filelock import FileLock

    git_dir.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(git_dir.with_name(git_dir.name + ".lock")):
        yield


@contextlib.contextmanager
def quarantine(store: Path, tmp: Path, haves: Sequence[str]) -> Iterator[Path]:
    """A bare repository that borrows the store's objects; it is gone after the block.

    `haves` are pins of the store that the server is told of, so that it sends what is new
    only. Each is a boundary of history here as it is in the store.
    """
    tmp.mkdir(parents=True, exist_ok=True)
    with _owned_folder(tmp) as folder:
        make_bare(folder)
        write(folder / "objects/info/alternates", f"{store / 'objects'}\n")
        if haves:
            refs = "".join(f"{c} refs/imgbuild/have/{c}\n" for c in sorted(haves))
            write(folder / "packed-refs", f"# pack-refs with: sorted\n{refs}")
            bound(folder, haves)
        yield folder


def sweep(tmp: Path) -> None:
    """Remove what dead processes left: folders whose lock nobody holds, other things of old."""
    for lock in sorted(tmp.glob("git-*.lock")):
        with contextlib.suppress(OSError), lock.open("rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
            if not lock.with_suffix("").exists():
                lock.unlink()
    for pattern in ("git-*.new", "file-*", "index-*", "scratch-*", "context-*"):
        for left in sorted(tmp.glob(pattern)):  # they live for seconds
            with contextlib.suppress(OSError):
                if time.time() - left.stat().st_mtime > _OLD_S:
                    shutil.rmtree(left) if left.is_dir() else left.unlink()


def publish(folder: Path, store: Path, commit: str) -> int:
    """Move the packs into the store and create the pin's ref; the bytes that were added.

    The caller holds the store's lock and has proved that the commit is whole.
    """
    size = 0
    pack = store / "objects/pack"
    found = [p for p in (folder / "objects/pack").glob("pack-*") if p.suffix in _ORDER]
    for file in sorted(found, key=lambda p: (_ORDER[p.suffix], p.name)):
        size += file.stat().st_size
        file.replace(pack / file.name)
    _sync(pack)
    bound(store, [commit])
    write(store / PINS / commit, f"{commit}\n")
    return size


def bound(git_dir: Path, commits: Iterable[str]) -> None:
    """Make the commits boundaries of history: git does not ask for their parents."""
    shallow = git_dir / "shallow"
    known = set(shallow.read_text().split()) if shallow.exists() else set()
    wanted = known | set(commits)
    if wanted != known:
        write(shallow, "".join(f"{c}\n" for c in sorted(wanted)))


def is_pinned(git_dir: Path, commit: str) -> bool:
    """Whether the pin's ref is there; no process is started."""
    with contextlib.suppress(OSError):
        return (git_dir / PINS / commit).read_text().strip() == commit
    with contextlib.suppress(OSError):
        return f"{commit} {PINS}/{commit}\n" in (git_dir / "packed-refs").read_text()
    return False


@contextlib.contextmanager
def _owned_folder(tmp: Path) -> Iterator[Path]:
    folder = tmp / f"git-{secrets.token_hex(8)}"
    lock = folder.with_suffix(".lock")
    # Locked under another name first: a sweep never sees this lock file unowned.
    unseen = folder.with_suffix(".new")
    with unseen.open("wb") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        unseen.rename(lock)
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            lock.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
