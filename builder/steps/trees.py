"""What may stand in a tree: checked over the whole tree before anything is staged.

The rules for `.git` are git's own (`is_ntfs_dotgit`, `is_hfs_dotgit` in path.c and utf8.c).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from builder.errors import Finding, Place, SourceError
from builder.model.lock import LockedDep, LockedSource, LockedSubmodule
from builder.model.values import SourceTree, TreeEntry
from builder.ports import GitStore
from builder.steps.tree_links import links_wrong

GITLINK, SYMLINK, EXECUTABLE = "160000", "120000", "100755"
_MODES = frozenset({"100644", "100664", EXECUTABLE, SYMLINK, GITLINK})
MAX_FOLDERS = 250_000  # of one source; the largest projects have a third of that
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_MAX_PART, _MAX_TARGET = 255, 4095  # bytes, of Linux
_IGNORED_BY_HFS = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
_HINT = "leave it out upstream, or take the source from a fork that does"


class TreeUnsafe(SourceError):
    """A tree holds what could harm or confuse the place where it is unpacked."""

    code = "tree-unsafe"


def source_tree(name: str, locked: LockedSource | LockedDep) -> SourceTree:
    """The tree of a source before patches, with what fills its gitlinks."""
    filled = {path: sub.tree for path, sub in sorted(locked.submodules.items())}
    return SourceTree(name, locked.tree, filled)


def before_compose(
    name: str, tree: str, submodules: Mapping[str, LockedSubmodule], *, store: GitStore
) -> SourceTree:
    """A commit's own tree; a submodule that a pull request moved fills no gitlink of it."""
    links = {entry.path: entry.object for entry in store.entries(tree) if entry.mode == GITLINK}
    filled: dict[str, str] = {}
    for path, sub in sorted(submodules.items()):
        above = next((p for p in parents(path) if p in submodules), None)
        if links.get(path) == sub.commit if above is None else above in filled:
            filled[path] = sub.tree
    return SourceTree(name, tree, filled)


def whole(source: SourceTree, *, store: GitStore) -> tuple[TreeEntry, ...]:
    """All entries of a source, sorted by path, with submodules in place of their gitlinks.

    A gitlink that is not filled stays an entry of its own. Raises: TreeUnsafe when a submodule
    has no gitlink.
    """
    entries = _once(source.name, store.entries(source.tree))
    for path in sorted(source.submodules):
        gitlink = entries.pop(path, None)
        if gitlink is None or gitlink.mode != GITLINK:
            raise TreeUnsafe(f"{source.name}: there is no gitlink at {path}", hint=_HINT)
        for entry in _once(source.name, store.entries(source.submodules[path])).values():
            inside = f"{path}/{entry.path}"
            entries[inside] = TreeEntry(entry.mode, entry.object, inside, entry.size)
    return tuple(entries[path] for path in sorted(entries))


def _once(name: str, entries: Sequence[TreeEntry]) -> dict[str, TreeEntry]:
    """Entries by path. Raises: TreeUnsafe when a path is there twice: one would be lost."""
    found = {entry.path: entry for entry in entries}
    if len(found) != len(entries):
        twice = sorted(p for p, n in Counter(e.path for e in entries).items() if n > 1)
        what = [Finding(TreeUnsafe.code, f"{name}: {_shown(p)}: there twice", _HINT) for p in twice]
        raise TreeUnsafe.of(what)
    return found


def check(
    name: str, entries: Sequence[TreeEntry], *, store: GitStore, place: Place | None = None
) -> tuple[Finding, ...]:
    """All that is wrong with a tree; empty when it is safe."""
    links = [entry for entry in entries if entry.mode == SYMLINK]
    targets = dict(zip((e.path for e in links), _targets(links, store), strict=True))
    found = (*names(entries), *leaving(targets))
    return tuple(
        Finding(TreeUnsafe.code, f"{name}: {_shown(what)}", _HINT, place=place) for what in found
    )


def names(entries: Iterable[TreeEntry]) -> Iterator[str]:
    """What is wrong with the paths and modes of a tree."""
    paths = []
    folders: dict[str, str] = {}  # what is wrong with each, looked at once
    for entry in entries:
        paths.append(entry.path)
        if entry.mode not in _MODES:
            yield f"{entry.path}: unknown mode {entry.mode}"
        folder, slash, name = entry.path.rpartition("/")
        if slash and folder not in folders:
            folders[folder] = _wrong(folder)
        if wrong := _wrong(name) or (slash and folders[folder]):
            yield f"{entry.path}: {wrong}"
    yield from _collisions(paths)


def leaving(links: Mapping[str, bytes]) -> Iterator[str]:
    """Which symlinks (path -> target) are absolute, leave the tree or run in a circle."""
    targets = {}
    for path, raw in links.items():
        try:
            target = raw.decode("utf-8")
        except UnicodeDecodeError:
            yield f"{path}: a symlink whose target is not UTF-8"
            continue
        # tar ends a target at a NUL, so that what was checked would not be what is unpacked
        if not target or _CONTROL.search(target) or len(raw) > _MAX_TARGET:
            yield f"{path}: a symlink whose target is empty, too long or holds a control character"
        else:
            targets[path] = target
    for path, wrong in links_wrong(targets):
        yield f"{path}: a symlink to {targets[path]} {wrong}"


def is_desktop_file(path: str) -> bool:
    """macOS's AppleDouble and .DS_Store files: committed by mistake, never staged."""
    if "._" not in path and ".DS_Store" not in path:
        return False
    return any(part.startswith("._") or part == ".DS_Store" for part in path.split("/"))


def is_dot_git(part: str) -> bool:
    """Whether a file system could take the name for `.git`."""
    if part.isascii() and "git" not in part.lower():
        return False
    plain = _IGNORED_BY_HFS.sub("", part).lower().partition(":")[0].rstrip(". ")
    return plain in (".git", "git~1")


def _wrong(path: str) -> str:
    if _CONTROL.search(path):
        return "a control character in the name"
    if "\\" in path:
        return "a backslash in the name"
    parts = path.split("/")
    if "" in parts:
        return "an absolute path, or an empty part in it"
    if "." in parts or ".." in parts:
        return "a path that is not below its tree"
    if any(len(part.encode("utf-8", "replace")) > _MAX_PART for part in parts):
        return f"a name of more than {_MAX_PART} bytes"
    if any(map(is_dot_git, parts)):
        return "a name that is, or is taken for, .git"
    return ""


def _collisions(paths: Sequence[str]) -> Iterator[str]:
    """Paths that are there twice, as file and folder, or differ in case only."""
    for path, times in Counter(paths).items():
        if times > 1:
            yield f"{path}: there {times} times"
    folders = _Folders()
    files: dict[tuple[int, str], str] = {}  # folder and name -> path
    for path in paths:
        folder, _, name = path.rpartition("/")
        files[folders.number(folder), name] = path
        if len(folders.inside) > MAX_FOLDERS:
            yield f"{path}: below more than {MAX_FOLDERS:,} folders"
            return
    for key in sorted(files.keys() & folders.inside.keys(), key=lambda key: files[key]):
        yield f"{files[key]}: a file and a folder at once"
    spelled: dict[tuple[int, str], str] = {}
    for folder_at, name in sorted({*files, *folders.inside}):
        other = spelled.setdefault((folder_at, _folded(name)), name)
        if other != name:
            path, former = (folders.path(folder_at, each) for each in (name, other))
            yield f"{path}: differs from {former} in case or Unicode form only"


class _Folders:
    """Folders by number, 0 the root: a tree can be thousands of them deep, and each is kept by
    its own name only."""

    def __init__(self) -> None:
        self.inside: dict[tuple[int, str], int] = {}  # (folder it is in, name) -> number
        self._numbers = {"": 0}  # of those that hold files
        self._places: list[tuple[int, str]] = [(0, "")]

    def number(self, path: str) -> int:
        """Of a folder; it and those above it are known then."""
        if path in self._numbers:
            return self._numbers[path]
        at = 0
        for name in path.split("/"):
            if (at, name) not in self.inside:
                self.inside[at, name] = len(self._places)
                self._places.append((at, name))
            at = self.inside[at, name]
        self._numbers[path] = at
        return at

    def path(self, folder: int, name: str) -> str:
        """Of what has this name in a folder."""
        parts = [name]
        while folder:
            folder, above = self._places[folder]
            parts.append(above)
        return "/".join(reversed(parts))


def parents(path: str) -> Iterator[str]:
    """The folders above a path, the nearest first."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _targets(links: Sequence[TreeEntry], store: GitStore) -> Iterator[bytes]:
    if links:
        yield from (data for _, data in store.stream([entry.object for entry in links]))


def _folded(path: str) -> str:
    return path.lower() if path.isascii() else unicodedata.normalize("NFC", path).casefold()


def _shown(text: str) -> str:
    return _CONTROL.sub(lambda m: f"\\x{ord(m[0]):02x}", text)
