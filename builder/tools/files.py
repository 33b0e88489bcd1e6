"""Files by their sha256 and facts by their key, below the cache; implements Files.

A file is written below `tmp` and renamed into place, mode 0444, its mtime the one of all that
is staged (a hard link in a build context has it too). No fsync: after a power loss a file may
be short, and that is found, since every `path` hashes what it gives.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from builder.errors import SourceError
from builder.model.values import STAGED_MTIME

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_PREFIX = "sha256:"


class ContentMismatch(SourceError):
    """A file is not the one that its sha256 names."""

    code = "content-mismatch"


class FileStore:
    """Files at `<cache>/files/sha256/ab/<hex>`, facts at `<cache>/facts/ab/<hex of the key>`."""

    def __init__(self, cache: Path, *, note: Callable[[str], None] = lambda _: None) -> None:
        self.root = cache / "files" / "sha256"
        self._facts = cache / "facts"
        self._tmp = cache / "tmp"
        self._note = note

    def path(self, sha256: str) -> Path | None:
        """Where the file lies, hashed right now; a damaged one is removed and noted."""
        place = self._place(sha256)
        try:
            found = digest(place)
        except FileNotFoundError:
            return None
        if found == sha256:
            return place
        place.unlink(missing_ok=True)
        self._note(f"{place} was damaged and is removed; it is made again")
        return None

    def put(self, source: Path, *, sha256: str | None = None) -> tuple[str, Path]:
        """Take a file in by a copy, unless it is here whole. Raises: ContentMismatch."""
        known = digest(source)
        if sha256 in (None, known) and (place := self.path(known)) is not None:
            return known, place
        with self._new() as (temporary, target), source.open("rb") as data:
            shutil.copyfileobj(data, target, 1 << 20)
            found = target.digest()
            if sha256 is not None and found != sha256:
                raise ContentMismatch(
                    f"{source.name} has {found:.19}, not {sha256:.19}",
                    hint="the file was changed after it was locked, or did not arrive whole: "
                    "fetch it again; if the change is wanted, lock it again",
                )
            return found, self._keep(temporary, found)

    def create(self, write: Callable[[IO[bytes]], None]) -> tuple[str, Path]:
        """Take in what `write` writes; its sha256 and place."""
        with self._new() as (temporary, target):
            write(target)  # type: ignore[arg-type]
            target.flush()
            found = target.digest()
            return found, self._keep(temporary, found)

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """An empty folder beside the files, removed when the block is left."""
        self._tmp.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="scratch-", dir=self._tmp) as folder:
            yield Path(folder)

    def recall(self, key: str) -> str | None:
        """What was remembered under the key."""
        with contextlib.suppress(OSError, UnicodeDecodeError):
            held, _, value = self._fact(key).read_text(encoding="utf-8").partition("\n")
            if held == _hex(value):  # a torn write is no fact
                return value
        return None

    def remember(self, key: str, value: str) -> None:
        """Keep a fact that follows from the key alone."""
        place = self._fact(key)
        place.parent.mkdir(parents=True, exist_ok=True)
        beside = self._beside()
        beside.write_text(f"{_hex(value)}\n{value}", encoding="utf-8")
        beside.replace(place)

    @contextlib.contextmanager
    def _new(self) -> Iterator[tuple[Path, _Hashed]]:
        temporary = self._beside()
        try:
            with temporary.open("xb", buffering=0) as raw:
                yield temporary, _Hashed(raw)
        finally:
            temporary.unlink(missing_ok=True)

    def _keep(self, temporary: Path, sha256: str) -> Path:
        place = self._place(sha256)
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary.chmod(0o444)
        os.utime(temporary, (STAGED_MTIME, STAGED_MTIME))
        return temporary.replace(place)

    def _beside(self) -> Path:
        self._tmp.mkdir(parents=True, exist_ok=True)
        return self._tmp / f"file-{secrets.token_hex(8)}"

    def _place(self, sha256: str) -> Path:
        name = sha256.removeprefix(_PREFIX)
        return self.root / name[:2] / name

    def _fact(self, key: str) -> Path:
        name = _hex(key)
        return self._facts / name[:2] / name


class _Hashed:
    """A file that hashes what is written to it."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._sha256 = hashlib.sha256()

    def write(self, data: ReadableBuffer) -> int:
        view = memoryview(data).cast("B")
        self._sha256.update(view)
        done = 0
        while done < len(view):
            done += self._raw.write(view[done:])
        return done

    def flush(self) -> None:
        self._raw.flush()

    def digest(self) -> str:
        return _PREFIX + self._sha256.hexdigest()


def digest(path: Path) -> str:
    """The sha256 of a file's content, with "sha256:" before it."""
    with path.open("rb") as data:
        return _PREFIX + hashlib.file_digest(data, "sha256").hexdigest()


def _hex(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
