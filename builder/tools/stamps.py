"""Remember that a lock was proven, with all that was looked at; recognise when all is the same.

A stamp is not a promise of a name but a list: the digest of every file of the project that
was read, which commits the store had, the packs they lie in, the files of packages, and the
program itself. Only when each is as it was does the former answer hold. Imports little: it
is what makes `verify-lock` answer at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from builder.ports import Files, GitStore, Project

_FORMAT = 1
_PINS = "refs/imgbuild/pin"
ONLINE_S = 86400
"""How long an answer of registries and indexes is taken for the present one."""

Seen = dict[str, Any]


class Watch:
    """Notes what a proof looks at, through the ports that it uses."""

    def __init__(self, project: Project, store: GitStore, files: Files) -> None:
        self.seen: Seen = {"reads": {}, "folders": {}, "commits": {}, "files": {}}
        self.project: Project = _Project(project, self.seen)
        self.store: GitStore = _Noting(store, self.seen)
        self.files: Files = _Filing(files, self.seen)


class Stamps:
    """Stamps at `<cache>/proofs/<root and lane>.json`."""

    def __init__(self, cache: Path, root: Path) -> None:
        self._cache, self._root = cache, root

    def keep(self, lane: str, seen: Seen, answer: Mapping[str, Any], *, online: bool) -> None:
        """Keep a proof without findings."""
        stamp = {
            "format": _FORMAT,
            "program": program(),
            **seen,
            "packs": self._packs(),
            "answer": dict(answer),
            "online": online,
            "at": int(time.time()),
        }
        text = json.dumps(stamp, sort_keys=True)
        place = self._place(lane)
        place.parent.mkdir(parents=True, exist_ok=True)
        beside = place.with_name(f".{place.name}.{os.getpid()}")
        beside.write_text(f"{_hex(text.encode())}\n{text}", encoding="utf-8")
        beside.replace(place)

    def recall(self, lane: str, *, online: bool) -> tuple[Mapping[str, Any], int] | None:
        """The answer of a proof and its age in seconds, when all that it saw is the same.

        With `online` only a proof that asked registries and indexes within the last day.
        """
        stamp = self._read(lane)
        if stamp is None or stamp["format"] != _FORMAT or stamp["program"] != program():
            return None
        age = int(time.time()) - stamp["at"]
        if online and not (stamp["online"] and 0 <= age < ONLINE_S):
            return None
        same = self._same_project(stamp) and self._same_store(stamp)
        return (stamp["answer"], max(age, 0)) if same else None

    def _same_project(self, stamp: Seen) -> bool:
        return all(_read(self._root / path) == was for path, was in stamp["reads"].items()) and all(
            self._listed(path) == was for path, was in stamp["folders"].items()
        )

    def _listed(self, path: str) -> str | None:
        from builder.tools.project import ProjectFolder

        try:
            return _listing(ProjectFolder(self._root).files(path))
        except Exception:  # what it refuses now, it did not refuse then
            return ""

    def _same_store(self, stamp: Seen) -> bool:
        git = self._cache / "git"
        packed = ""
        with contextlib.suppress(OSError):
            packed = (git / "packed-refs").read_text()
        for commit, was in stamp["commits"].items():
            there = _read(git / _PINS / commit) == _hex(f"{commit}\n".encode())
            if (there or f"{commit} {_PINS}/{commit}\n" in packed) != was:
                return False
        packs = self._packs()
        held = all(packs.get(name) == was for name, was in stamp["packs"].items())
        return held and all(
            _stat(self._file(digest)) == was for digest, was in stamp["files"].items()
        )

    def _packs(self) -> Mapping[str, list[int]]:
        """The packs of the store: one that is gone or was written again unproves."""
        try:
            with os.scandir(self._cache / "git/objects/pack") as found:
                return {f.name: _facts(f.stat()) for f in found if f.name.endswith(".pack")}
        except OSError:
            return {}

    def _file(self, digest: str) -> Path:
        name = digest.removeprefix("sha256:")
        return self._cache / "files" / "sha256" / name[:2] / name

    def _place(self, lane: str) -> Path:
        name = _hex(f"{self._root}\n{lane}".encode())[:32]
        return self._cache / "proofs" / f"{name}.json"

    def _read(self, lane: str) -> Seen | None:
        with contextlib.suppress(OSError, UnicodeDecodeError, ValueError, RecursionError):
            held, _, text = self._place(lane).read_text(encoding="utf-8").partition("\n")
            if held == _hex(text.encode()):  # a torn write is no stamp
                found: Seen = json.loads(text)
                return found
        return None


def program() -> str:
    """The code that proves: another one may see what this one did not."""
    digest = hashlib.sha256()
    waiting = [os.fspath(Path(__file__).parents[1])]
    while waiting:
        with os.scandir(waiting.pop()) as found:
            for entry in sorted(found, key=lambda e: e.name):
                if entry.is_dir(follow_symlinks=False) and entry.name != "__pycache__":
                    waiting.append(entry.path)
                elif entry.name.endswith(".py"):
                    at = entry.stat()
                    digest.update(f"{entry.name} {at.st_size} {at.st_mtime_ns}\n".encode())
    return digest.hexdigest()


class _Project:
    """A project that notes what was read from it; nothing is written through it."""

    def __init__(self, project: Project, seen: Seen) -> None:
        self._project, self._seen = project, seen

    @property
    def root(self) -> Path:
        return self._project.root

    def read(self, path: str) -> bytes | None:
        data = self._project.read(path)
        self._seen["reads"][path] = None if data is None else _hex(data)
        return data

    def write(self, path: str, data: bytes) -> None:  # noqa: ARG002
        raise AssertionError(f"a proof writes nothing: {path}")

    def files(self, folder: str) -> tuple[tuple[str, bool], ...] | None:
        found = self._project.files(folder)
        self._seen["folders"][folder] = _listing(found)
        return found


class _Noting:
    """A store that notes which commits it was asked for; all else is the store's own."""

    def __init__(self, store: GitStore, seen: Seen) -> None:
        self._store, self._seen = store, seen

    def has(self, commit: str) -> bool:
        found = self._store.has(commit)
        self._seen["commits"][commit] = found
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class _Filing:
    """A file store that notes which packages it was asked for."""

    def __init__(self, files: Files, seen: Seen) -> None:
        self._files, self._seen = files, seen

    def path(self, sha256: str) -> Path | None:
        found = self._files.path(sha256)
        self._seen["files"][sha256] = None if found is None else _stat(found)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)


def _read(path: Path) -> str | None:
    try:
        return _hex(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _listing(files: tuple[tuple[str, bool], ...] | None) -> str | None:
    return None if files is None else _hex(json.dumps(files).encode())


def _stat(path: Path) -> list[int] | None:
    try:
        return _facts(path.stat())
    except OSError:
        return None


def _facts(found: os.stat_result) -> list[int]:
    return [found.st_size, found.st_mtime_ns, found.st_ino]


def _hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
