"""Build contexts on disk, published whole under the digest of their content.

A folder is made beside and renamed into place, so two processes never see or harm a half-made
one. What lies in the file store is hard-linked (copied where that cannot be); generated files
are 0644 or 0755, and every file and folder has the mtime STAGED_MTIME, whatever the umask.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

from builder.model.ids import is_relative_path
from builder.model.values import STAGED_MTIME
from builder.tools.files import digest

_FORMAT = "imgbuild context 1"


class Contexts:
    """Folders at `<cache>/contexts/<key>`; implements ContextStore."""

    def __init__(self, cache: Path) -> None:
        self.root = cache / "contexts"
        self._tmp = cache / "tmp"
        self._stored = cache / "files" / "sha256"

    def publish(
        self, files: Mapping[str, Path | bytes], *, executable: Collection[str] = ()
    ) -> Path:
        """The folder with these files; an existing one is used again if it is intact."""
        assert all(map(is_relative_path, files)), "paths of a context are made by us"
        place = self.root / self._key(files, executable)
        if _is_intact(place, files):
            return place
        folder = self._tmp / f"context-{secrets.token_hex(8)}"
        try:
            _fill(folder, files, executable, self._stored)
            self._swap_in(folder, place, files)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return place

    def _key(self, files: Mapping[str, Path | bytes], executable: Collection[str]) -> str:
        key = hashlib.sha256(_FORMAT.encode())
        for path in sorted(files):
            mode = "755" if path in executable else "644"
            key.update(f"\0{path}\0{mode}\0{self._digest(files[path])}".encode())
        return key.hexdigest()[:32]

    def _digest(self, content: Path | bytes) -> str:
        if isinstance(content, bytes):
            return f"sha256:{hashlib.sha256(content).hexdigest()}"
        if content.is_relative_to(self._stored):  # the store names it by its digest
            return f"sha256:{content.name}"
        return digest(content)

    def _swap_in(self, folder: Path, place: Path, files: Mapping[str, Path | bytes]) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):
            folder.rename(place)
            return
        if _is_intact(place, files):  # another process was faster
            return
        damaged = self._tmp / f"context-{secrets.token_hex(8)}"
        with contextlib.suppress(FileNotFoundError):
            place.rename(damaged)
        folder.rename(place)
        shutil.rmtree(damaged, ignore_errors=True)


def _fill(
    folder: Path, files: Mapping[str, Path | bytes], executable: Collection[str], stored: Path
) -> None:
    folder.mkdir(parents=True)
    for path in sorted(files):
        content, target = files[path], folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            target.write_bytes(content)
            target.chmod(0o755 if path in executable else 0o644)
            os.utime(target, (STAGED_MTIME, STAGED_MTIME))
        else:
            _place(content, target, stored)
    for parent, _, _ in os.walk(folder, topdown=False):
        Path(parent).chmod(0o755)
        os.utime(parent, (STAGED_MTIME, STAGED_MTIME))


def _place(source: Path, target: Path, stored: Path) -> None:
    with contextlib.suppress(OSError):  # another file system, or more links than it can hold
        if source.is_relative_to(stored):
            target.hardlink_to(source)
            return
    shutil.copyfile(source, target)
    target.chmod(0o444)
    os.utime(target, (STAGED_MTIME, STAGED_MTIME))


def _is_intact(place: Path, files: Mapping[str, Path | bytes]) -> bool:
    """Whether each file is there with its content, and no other."""
    found = {
        str(Path(parent, name).relative_to(place))
        for parent, _, names in os.walk(place)
        for name in names
    }
    there = place.is_dir() and found == set(files)
    return there and all(_is_same(place / path, files[path]) for path in files)


def _is_same(path: Path, content: Path | bytes) -> bool:
    if isinstance(content, bytes):
        return path.read_bytes() == content
    return path.samefile(content) or digest(path) == digest(content)
