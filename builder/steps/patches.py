"""Apply patch sets to a verified source, in the object database, and compare with the lock."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path

from builder.errors import Finding, PatchError, Place
from builder.model.lock import LockedSource
from builder.model.values import (
    PatchedSource,
    PatchFile,
    PatchResult,
    SourceTree,
    TreeEntry,
)
from builder.ports import GitStore, PatchIndex
from builder.steps import diffs
from builder.steps.series import PatchSetInvalid, parse_series, read_sets

__all__ = [
    "PatchDrift", "PatchFailed", "PatchSetInvalid", "apply", "check_locked", "parse_series",
    "read_sets",
]  # fmt: skip

_FAILED = re.compile(r"patch failed: (.+):(\d+)$", re.MULTILINE)
_ABSENT = re.compile(r"error: (.+): (?:does not exist in index|No such file)", re.MULTILINE)
_SHORT = 12  # lines of a hunk that are shown
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class PatchFailed(PatchError):
    """A patch applies neither forwards nor backwards."""

    code = "patch-failed"


class PatchDrift(PatchError):
    """A patch, its state or its result is not the locked one."""

    code = "patch-drift"


def apply(source: SourceTree, patches: Sequence[PatchFile], *, store: GitStore) -> PatchedSource:
    """Apply the patches in order; each is applied, or already there (its reverse applies).

    `source` is a verified one, or one that is being locked. A patch behind a failed one is
    examined too, unless both touch the same file. Raises: PatchFailed.
    """
    tree = source.tree
    results: list[PatchResult] = []
    wrong: list[Finding] = []
    touched: set[str] = set()  # by patches that failed
    with store.patching(tree) as index:
        for patch in patches:
            files = diffs.read(patch.data, strip=patch.strip).files
            if touched & files:
                continue
            words = index.check(patch.data, strip=patch.strip)
            if not words:
                tree = index.apply(patch.data, strip=patch.strip)
                results.append(PatchResult(patch, "applied", tree))
            elif _is_there(index, patch):
                results.append(PatchResult(patch, "already-there", tree))
            else:
                touched |= files
                wrong.append(_failure(source, tree, patch, words, store))
    if wrong:
        raise PatchFailed.of(wrong)
    return PatchedSource(SourceTree(source.name, tree, source.submodules), tuple(results))


def check_locked(patched: PatchedSource, locked: LockedSource, place: Place) -> None:
    """Compare each patch and the result with the lock; `place` is the source's table there.

    Raises: PatchDrift, which names the first patch that differs.
    """
    name = patched.source.name
    hint = f"if the change is wanted: imgbuild lock {place.file.stem} --update {name}"
    for i, (result, lock) in enumerate(zip(patched.patches, locked.patches, strict=False)):
        where = Place(place.file, key=(*place.key, "patches", i))
        path = result.patch.path
        for what, found, wanted in (
            ("the set names", path, lock.path),
            (f"{path} is", result.patch.sha256, lock.sha256),
            (f"{path} is", result.state, lock.state),
            (f"{path} gives tree", result.tree, lock.result_tree),
        ):
            if found != wanted:
                said = f"{name}: {what} {_short(found)}, the lock says {_short(wanted)}"
                raise PatchDrift(said, hint=hint, place=where)
    found_count, locked_count = len(patched.patches), len(locked.patches)
    if found_count != locked_count:
        said = f"{name}: {found_count} patches, the lock has {locked_count}"
        raise PatchDrift(said, hint=hint, place=place)
    if patched.source.tree != locked.final.tree:
        said = f"{name}: the result is tree {patched.source.tree:.12}, the lock says "
        where = Place(place.file, key=(*place.key, "final", "tree"))
        raise PatchDrift(said + f"{locked.final.tree:.12}", hint=hint, place=where)


def _is_there(index: PatchIndex, patch: PatchFile) -> bool:
    return not index.check(patch.data, strip=patch.strip, reverse=True)


def _failure(
    source: SourceTree, tree: str, patch: PatchFile, words: str, store: GitStore
) -> Finding:
    failed = _FAILED.search(words)
    hunk = _hunk(patch, failed[1], int(failed[2])) if failed else None
    where = f" at {failed[1]}:{failed[2]}" if failed else ""
    detail = [words]
    if hunk is not None:
        data = store.blob(tree, hunk.file) or b""
        detail += _around(hunk, data)
    return Finding(
        PatchFailed.code,
        f"{patch.path} does not apply to {source.name}{where}",
        _hint(source, tree, patch, words, store),
        "\n".join(detail),
        Place(Path(patch.path), hunk.line if hunk else None),
    )


def _hunk(patch: PatchFile, file: str, start: int) -> diffs.Hunk | None:
    hunks = diffs.read(patch.data, strip=patch.strip).hunks
    return next((h for h in hunks if h.start == start and file.endswith(h.file)), None)


def _around(hunk: diffs.Hunk, data: bytes) -> list[str]:
    """What the target holds where the hunk should have gone."""
    lines = data.decode("utf-8", "replace").splitlines()
    held = lines[max(hunk.start - 1, 0) : hunk.start - 1 + min(hunk.length, _SHORT)]
    if not held:
        return [f"{hunk.file} has {len(lines)} lines"]
    shown = [_CONTROL.sub("�", line)[:120] for line in held]
    return [f"{hunk.file} holds there:"] + [
        f"{number:>6}  {line}" for number, line in enumerate(shown, hunk.start)
    ]


def _hint(source: SourceTree, tree: str, patch: PatchFile, words: str, store: GitStore) -> str:
    files = diffs.read(patch.data, strip=patch.strip).files
    inside = [path for path in source.submodules if any(f.startswith(f"{path}/") for f in files)]
    if inside:
        return f"it changes files of the submodule {inside[0]}: patches reach the source only"
    if absent := _ABSENT.search(words):
        near = _near(absent[1], store.entries(tree))
        moved = f"; is it {' or '.join(near)} now?" if near else ""
        return f"{absent[1]} is gone upstream{moved}"
    failed = _FAILED.search(words)
    data = store.blob(tree, failed[1]) if failed else None
    if failed and data and b"\r\n" in data and b"\r\n" not in patch.data:
        return f"{failed[1]} has CRLF line ends and the patch has not: make it anew with git diff"
    return (
        "its lines changed upstream: make the patch again on the new commit "
        "(imgbuild patch refresh), or drop it from the series"
    )


def _near(path: str, entries: Sequence[TreeEntry]) -> list[str]:
    """Where the file may be now: the same name elsewhere, else a like one."""
    known = [entry.path for entry in entries]
    base = path.rpartition("/")[2]
    same = [other for other in known if other.rpartition("/")[2] == base]
    return (same or difflib.get_close_matches(path, known, n=2, cutoff=0.8))[:2]


def _short(text: str) -> str:
    return text[:19] if text.startswith("sha256:") else text[:12] if len(text) == 40 else text
