"""The files that people write, below the project's root."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from builder.errors import LaneError, Place, UsageError

_MOST = 256_000_000  # bytes of one file that people write
_DROPPINGS = (".DS_Store", "__pycache__", ".git", "Thumbs.db")


class ProjectFolder:
    """Implements ports.Project over a folder that holds `locks/`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def find(cls, start: Path) -> ProjectFolder:
        """The project that `start` lies in: the nearest folder upwards with `locks/`."""
        start = start.resolve()
        for folder in (start, *start.parents):
            if (folder / "locks").is_dir():
                return cls(folder)
        raise UsageError(
            f"{start} lies in no imgbuild project: no folder upwards holds locks/",
            hint="change into the project, or name it: imgbuild -C FOLDER …",
        )

    def lanes(self) -> tuple[str, ...]:
        """All lanes of the project, sorted."""
        found = self.files("locks") or ()
        return tuple(p[:-5] for p, _ in found if p.endswith(".toml") and "/" not in p)

    def orphans(self) -> tuple[str, ...]:
        """Names of locks without a lane, sorted."""
        found = {path for path, _ in self.files("locks") or () if "/" not in path}
        locks = sorted(path[:-5] for path in found if path.endswith(".lock"))
        return tuple(name for name in locks if f"{name}.toml" not in found)

    def read(self, path: str) -> bytes | None:
        place = self.root / path
        try:
            about = place.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:  # a loop of links, a name that is too long
            raise LaneError(
                f"{path} cannot be read: {error.strerror}", place=Place(place)
            ) from error
        if stat.S_ISDIR(about.st_mode):
            return None
        if not stat.S_ISREG(about.st_mode) or about.st_size > _MOST:
            raise LaneError(
                f"{path} is no regular file of at most {_MOST // 1_000_000} MB",
                hint="put the file itself there", place=Place(place),
            )  # fmt: skip
        return place.read_bytes()

    def write(self, path: str, data: bytes) -> None:
        self.change({path: data})

    def change(self, files: Mapping[str, bytes | None]) -> None:
        """Write or remove (None) files below the root: all of them, or none where one fails."""
        with contextlib.ExitStack() as stack:
            written = {
                self.root / path: stack.enter_context(_beside(self.root / path, data))
                for path, data in files.items()
                if data is not None
            }
            for target, beside in written.items():
                beside.replace(target)
            for path in (path for path, data in files.items() if data is None):
                (self.root / path).unlink(missing_ok=True)

    def files(self, folder: str) -> tuple[tuple[str, bool], ...] | None:
        top = self.root / folder
        if not top.is_dir():
            return None
        found: list[tuple[str, bool]] = []
        for parent, folders, names in os.walk(top):
            folders[:] = sorted(f for f in folders if not dropping(f))
            found += [_entry(Path(parent) / n, top) for n in sorted(names) if not dropping(n)]
        return tuple(sorted(found))


def replace_file(target: Path, data: bytes) -> None:
    """Write beside the target, then rename; what is no regular file is left alone."""
    with _beside(target, data) as beside:
        beside.replace(target)


@contextlib.contextmanager
def _beside(target: Path, data: bytes) -> Iterator[Path]:
    """The data in a file beside the target, to be renamed; else it and new folders are gone."""
    if os.path.lexists(target) and not stat.S_ISREG(target.lstat().st_mode):
        raise LaneError(
            f"{target} is no regular file, and is not replaced", place=Place(target),
            hint="name a file, or remove what is there",
        )  # fmt: skip
    new = [folder for folder in target.parents if not folder.exists()]
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(data)
        yield beside
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from error
    finally:
        beside.unlink(missing_ok=True)
        for folder in new:
            with contextlib.suppress(OSError):  # it holds what was written
                folder.rmdir()


def dropping(name: str) -> bool:
    return name in _DROPPINGS or name.startswith("._") or name.endswith((".pyc", ".swp", "~"))


def _entry(path: Path, top: Path) -> tuple[str, bool]:
    if path.is_symlink() or not path.is_file():
        raise LaneError(
            f"{path.name} is no regular file", place=Place(path),
            hint="no link is followed: put the file itself here, or move away what is there",
        )  # fmt: skip
    return path.relative_to(top).as_posix(), bool(path.stat().st_mode & 0o100)
