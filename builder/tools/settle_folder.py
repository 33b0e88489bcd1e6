"""A folder in which a person settles a patch: a source's files, and what was not merged there."""

from __future__ import annotations

import json
import os
import stat
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from builder.errors import UsageError
from builder.model.blobs import blob_id
from builder.model.values import TreeEntry
from builder.tools import process

_NOTE = ".imgbuild-settle.json"
_MARKERS = (b"<<<<<<< ", b">>>>>>> ")
_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Settling:
    """What a folder was made for."""

    lane: str
    source: str
    patch: str  # its path in the project
    sha256: str  # of the patch as it was
    tree: str  # the source as it is before the patch
    update: bool


@dataclass(frozen=True, slots=True)
class Changes:
    """In what a folder differs from the tree before the patch."""

    files: dict[str, tuple[bytes, bool]]  # content, and whether it may be run
    gone: tuple[str, ...]


def check_new(folder: Path) -> None:
    """Raises: UsageError, when something lies there."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is there and not empty", hint="give --into a new folder")


def write(folder: Path, archive: Path, about: Settling) -> None:
    """Unpack an archive of ours, whose members lie below the source's name."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as tar:
        members = []
        for member in tar:
            member.name = member.name.partition("/")[2]
            if member.name:
                member.mode |= 0o200
                members.append(member)
        tar.extractall(folder, members, filter="data")
    (folder / _NOTE).write_text(json.dumps(asdict(about), indent=1) + "\n")


def reject(folder: Path, patch: bytes, *, strip: int, name: str) -> tuple[str, ...]:
    """Apply the hunks that apply; what does not lies beside its file as .rej."""
    env = process.environment(
        GIT_CEILING_DIRECTORIES=str(folder.resolve().parent), GIT_CONFIG_NOSYSTEM="1",
        GIT_CONFIG_GLOBAL=os.devnull, GIT_ATTR_NOSYSTEM="1",
    )  # fmt: skip
    argv = ("git", "apply", "--reject", "--whitespace=nowarn", f"-p{strip}", "-")
    process.run(argv, env=env, cwd=folder, stdin=patch, timeout_s=_LIMIT_S, check=False)
    if not (left := tuple(_rejected(folder))):
        (folder / f"{name}.rej").write_bytes(patch)  # git took none of it
        left = tuple(_rejected(folder))
    return left


def read_note(folder: Path, *, hint: str) -> Settling:
    """Raises: UsageError, with the hint."""
    try:
        return Settling(**json.loads((folder / _NOTE).read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(
            f"{folder} was not made by imgbuild patch refresh --into", hint=hint
        ) from error


def changes(folder: Path, entries: Sequence[TreeEntry]) -> Changes:
    """Raises: UsageError, where something is not settled yet."""
    if left := [*_rejected(folder)]:
        raise UsageError(
            f"{folder / left[0]} holds what was not applied",
            hint="apply it by hand, and remove the .rej file",
        )
    known = {e.path: e for e in entries if e.mode in ("100644", "100755")}
    others = tuple(f"{e.path}/" for e in entries if e.mode == "160000")
    found = {}
    there = {path for path in _files(folder) if not path.startswith(others)}
    for path in sorted(there):
        data, executable = (folder / path).read_bytes(), os.access(folder / path, os.X_OK)
        entry = known.get(path)
        mode = "100755" if executable else "100644"
        if entry is None or (entry.mode, entry.object) != (mode, blob_id(data, len(entry.object))):
            found[path] = (data, executable)
    for path, (data, _) in found.items():
        for number, line in enumerate(data.splitlines(), 1):
            if line.startswith(_MARKERS):
                raise UsageError(
                    f"{folder / path}:{number} holds a conflict marker",
                    hint="settle it: keep what is right, remove the lines of markers",
                )
    return Changes(found, tuple(sorted(known.keys() - there)))


def _files(folder: Path) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in sorted(names):
            path = Path(place, name)
            if name != _NOTE and stat.S_ISREG(path.lstat().st_mode):
                yield path.relative_to(folder).as_posix()


def _rejected(folder: Path) -> Iterator[str]:
    yield from (path for path in _files(folder) if path.endswith(".rej"))
