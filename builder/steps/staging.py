"""Canonical archives straight from git objects: one lock, one sequence of bytes, everywhere.

Members are sorted by the bytes of their path, below `<name>/`. Folders are members of their
own (else whoever unpacks gives them today's time and its umask): the root, and those that hold
something selected. A gitlink that is not filled gives no folder: an empty one would hide from
`if(EXISTS …)` and `isdir` checks that its content is missing, and the build would fail later
and less clearly. macOS's `._*` and `.DS_Store` are left out wherever they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, cast

from builder.model.lock import LockedDep
from builder.model.values import Archive, SourceTree, TreeEntry
from builder.ports import Files, GitStore
from builder.steps import tar, trees
from builder.steps.stored_gzip import StoredGzip

FORMAT = "imgbuild archive 1"
"""Raised whenever the same trees would give other bytes, or be judged otherwise."""

_CHUNK_BYTES = 1 << 20
Write = Callable[[bytes], object]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which paths of a source: below one of `only` (all, when empty), not below `without`."""

    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    def holds(self, path: str) -> bool:
        chosen = not self.only or _is_below(path, self.only)
        return chosen and not _is_below(path, self.without)


def archive(
    source: SourceTree,
    *,
    store: GitStore,
    files: Files,
    only: Sequence[str] = (),
    without: Sequence[str] = (),
) -> Archive:
    """The tar of a source, or of a part of it; one that is there is not written again.

    Raises: TreeUnsafe, ObjectDamaged.
    """
    selection = Selection(tuple(sorted(only)), tuple(sorted(without)))

    def write(out: IO[bytes]) -> None:
        _write_tar(out.write, [source.name], _members(source, selection, store), store)

    return _made(_key("tar", (("", source),), selection), write, files)


def content(
    source: SourceTree,
    *,
    store: GitStore,
    files: Files,
    only: Sequence[str] = (),
    without: Sequence[str] = (),
) -> str:
    """The sha256 of what `archive` would give, which need not be written for it.

    Raises: TreeUnsafe, ObjectDamaged.
    """
    selection = Selection(tuple(sorted(only)), tuple(sorted(without)))

    def write(digest: _Digest) -> None:
        _write_tar(digest.write, [source.name], _members(source, selection, store), store)

    return _hashed(_key("tar", (("", source),), selection), write, files)


def deps_content(deps: Sequence[tuple[str, SourceTree]], *, store: GitStore, files: Files) -> str:
    """The sha256 of what `deps_archive` would give. Raises: TreeUnsafe, ObjectDamaged."""
    ordered = sorted(deps, key=lambda dep: dep[0])

    def write(digest: _Digest) -> None:
        _write_deps(digest, ordered, store)

    return _hashed(_key("tar.gz", ordered, Selection()), write, files)


def deps_trees(deps: Mapping[str, LockedDep]) -> tuple[tuple[str, SourceTree], ...]:
    """What `deps_archive` takes, from the deps of a lock."""
    return tuple((dep.into, trees.source_tree(name, dep)) for name, dep in sorted(deps.items()))


def deps_archive(
    deps: Sequence[tuple[str, SourceTree]], *, store: GitStore, files: Files
) -> Archive:
    """`deps-src.tar.gz`: each dep below its `into`; see stored_gzip for why it is not compressed.

    A dep may lie where another one has an unfilled gitlink. Raises: TreeUnsafe, ObjectDamaged.
    """
    ordered = sorted(deps, key=lambda dep: dep[0])

    def write(out: IO[bytes]) -> None:
        _write_deps(out, ordered, store)

    return _made(_key("tar.gz", ordered, Selection()), write, files)


def left_out(source: SourceTree, *, store: GitStore) -> tuple[str, ...]:
    """The desktop files of a source that no archive holds."""
    found = (entry.path for entry in trees.whole(source, store=store))
    return tuple(path for path in found if trees.is_desktop_file(path))


def _made(key: str, write: Callable[[IO[bytes]], None], files: Files) -> Archive:
    known = files.recall(key)
    path = files.path(known) if known else None
    new = known is None or path is None
    if known is None or path is None:
        known, path = files.create(write)
        files.remember(key, known)
    return Archive(known, path.stat().st_size, path, new)


class _Digest:
    """What `content` writes to."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()

    def write(self, data: bytes) -> None:
        self._sha256.update(data)

    def __str__(self) -> str:
        return f"sha256:{self._sha256.hexdigest()}"


def _hashed(key: str, write: Callable[[_Digest], None], files: Files) -> str:
    known = files.recall(key)
    if known is None:
        digest = _Digest()
        write(digest)
        known = str(digest)
        files.remember(key, known)
    return known


def _write_deps(
    out: IO[bytes] | _Digest, ordered: Sequence[tuple[str, SourceTree]], store: GitStore
) -> None:
    with StoredGzip(cast("IO[bytes]", out)) as zipped:
        _write_tar(zipped.write, [i for i, _ in ordered], _all_deps(ordered, store), store)


def _key(kind: str, parts: Iterable[tuple[str, SourceTree]], selection: Selection) -> str:
    lines = [FORMAT, kind, repr(selection.only), repr(selection.without)]
    for into, source in parts:
        lines += [f"at {into!r} {source.name!r} {source.tree}"]
        lines += [f"sub {path!r} {tree}" for path, tree in sorted(source.submodules.items())]
    return "\n".join(lines)


def _members(source: SourceTree, selection: Selection, store: GitStore) -> list[TreeEntry]:
    return [
        replace(entry, path=f"{source.name}/{entry.path}")
        for entry in _checked(source, store)
        if selection.holds(entry.path)
    ]


def _all_deps(deps: Sequence[tuple[str, SourceTree]], store: GitStore) -> list[TreeEntry]:
    filled = {into for into, _ in deps}
    members = [
        replace(entry, path=f"{into}/{entry.path}")
        for into, source in deps
        for entry in _checked(source, store)
        if entry.mode != trees.GITLINK or f"{into}/{entry.path}" not in filled
    ]
    if wrong := list(trees.names(members)):
        raise trees.TreeUnsafe(
            f"deps-src.tar.gz: {wrong[0]}", hint="give one of the deps another `into`"
        )
    return sorted(members, key=lambda entry: entry.path)


def _checked(source: SourceTree, store: GitStore) -> tuple[TreeEntry, ...]:
    entries = trees.whole(source, store=store)
    if wrong := trees.check(source.name, entries, store=store):
        raise trees.TreeUnsafe.of(wrong)
    return entries


def _write_tar(
    write: Write, roots: Sequence[str], entries: Sequence[TreeEntry], store: GitStore
) -> None:
    """Write the members and the end, in pieces of about a megabyte."""
    pieces: list[bytes] = []
    size = 0
    for piece in _pieces(roots, entries, store):
        pieces.append(piece)
        size += len(piece)
        if size >= _CHUNK_BYTES:
            write(b"".join(pieces))
            pieces, size = [], 0
    write(b"".join((*pieces, tar.END)))


def _pieces(roots: Sequence[str], entries: Sequence[TreeEntry], store: GitStore) -> Iterator[bytes]:
    held = {
        entry.path: entry
        for entry in entries
        if entry.mode != trees.GITLINK and not trees.is_desktop_file(entry.path)
    }
    folders = {parent for path in (*roots, *held) for parent in trees.parents(path)}
    ordered = sorted(folders | held.keys() | set(roots))
    blobs = store.stream([held[path].object for path in ordered if path in held])
    for path in ordered:
        entry = held.get(path)
        if entry is None:
            yield tar.member(f"{path}/", tar.FOLDER, mode=0o755)
            continue
        _, data = next(blobs)
        if entry.mode == trees.SYMLINK:
            yield tar.member(path, tar.LINK, mode=0o777, target=data.decode("utf-8"))
            continue
        mode = 0o755 if entry.mode == trees.EXECUTABLE else 0o644
        yield tar.member(path, tar.FILE, size=len(data), mode=mode)
        yield data
        yield tar.padding(len(data))
    assert next(blobs, None) is None, "every blob was asked for"


def _is_below(path: str, roots: Sequence[str]) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in roots)
