"""Why a patch does not apply: what stands at its place now, and what to do about it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from builder.errors import Finding, Place
from builder.model.counts import plural
from builder.model.locate import line_of
from builder.model.values import PatchFile, SourceTree, TreeEntry
from builder.ports import GitStore
from builder.steps import diffs
from builder.steps.edits import WrongEdit
from builder.steps.trees import parents

CODE = "patch-failed"

_FAILED = re.compile(r"patch failed: (.+):(\d+)$", re.MULTILINE)
_ABSENT = re.compile(r"error: (.+): (?:does not exist in index|No such file)", re.MULTILINE)
_NO_BLOB = "lacks the necessary blob"
_BEFORE = 2  # lines that are shown on each side of an edit's place
_SHORT = 12  # lines of a hunk that are shown
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def explained(
    source: SourceTree, tree: str, patch: PatchFile, words: str, store: GitStore
) -> Finding:
    """The finding for a patch that applies neither forwards nor backwards; `words` are git's."""
    failed = _FAILED.search(words)
    hunk = _hunk(patch, failed[1], int(failed[2])) if failed else None
    where = f" at {failed[1]}:{failed[2]}" if failed else ""
    detail = [words]
    if hunk is not None:
        data = store.blob(tree, hunk.file) or b""
        detail += _around(hunk, data)
    return Finding(
        CODE,
        f"{patch.path} does not apply to {source.name}{where}",
        _hint(source, tree, patch, words, store),
        "\n".join(detail),
        Place(Path(patch.path), hunk.line if hunk else None),
    )


def edits_failed(
    source: SourceTree, tree: str, patch: PatchFile, wrong: Sequence[WrongEdit], store: GitStore
) -> Finding:
    """The finding for text edits that do not hold: the first one's line, and what stands in the
    files there."""
    detail = []
    for one in wrong:
        detail.append(one.said)
        data = store.blob(tree, one.file)
        if data is None and (near := _near(one.file, store.entries(tree))):
            detail.append(f"is it {' or '.join(near)} now?")
        elif data is not None and one.line is not None:
            start = max(one.line - _BEFORE, 1)
            detail += _around(diffs.Hunk(one.file, start, 2 * _BEFORE + 1, 0), data)
    where = f" at {wrong[0].file}:{wrong[0].line}" if wrong[0].line else ""
    line = line_of(patch.data.decode("utf-8", "replace"), ("edit", wrong[0].number, "find"))
    return Finding(
        CODE,
        f"{patch.path} does not apply to {source.name}{where}",
        "the text changed upstream: correct file, find and count there, or say when it is not "
        "needed (obsolete-if in patches.toml), then: imgbuild patch check LANE " + source.name,
        "\n".join(detail),
        Place(Path(patch.path), line),
    )


def _hunk(patch: PatchFile, file: str, start: int) -> diffs.Hunk | None:
    hunks = diffs.read(patch.data, strip=patch.strip).hunks
    return next((h for h in hunks if h.start == start and file.endswith(h.file)), None)


def _around(hunk: diffs.Hunk, data: bytes) -> list[str]:
    """What the target holds where the hunk should have gone."""
    lines = data.decode("utf-8", "replace").splitlines()
    held = lines[max(hunk.start - 1, 0) : hunk.start - 1 + min(hunk.length, _SHORT)]
    if not held:
        return [f"{hunk.file} has {plural(len(lines), 'line')}"]
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
    if clash := next(_clashes(files, tree, store), None):
        return f"upstream has {clash}: name it otherwise"
    failed = _FAILED.search(words)
    data = store.blob(tree, failed[1]) if failed else None
    if failed and data and (b"\r\n" in data) != (b"\r\n" in patch.data):
        has, has_not = (failed[1], "the patch") if b"\r\n" in data else ("the patch", failed[1])
        return f"{has} has CRLF line ends and {has_not} has not: make it anew with git diff"
    if _NO_BLOB in words:
        return (
            "three-way needs the file that the patch was made from, and the store lacks it: "
            f"make the patch again on the new commit: imgbuild patch refresh LANE {source.name}"
        )
    return (
        "its lines changed upstream: drop it from the series, or make it again on the new commit: "
        f"imgbuild patch refresh LANE {source.name}"
    )


def _clashes(files: Collection[str], tree: str, store: GitStore) -> Iterator[str]:
    """Files of a patch that are folders in the tree, or lie below what is a file there."""
    held = {entry.path for entry in store.entries(tree)}
    for file in sorted(files):
        yield from (f"{above} as a file" for above in parents(file) if above in held)
        if any(path.startswith(f"{file}/") for path in held):
            yield f"{file} as a folder"


def _near(path: str, entries: Sequence[TreeEntry]) -> list[str]:
    """Where the file may be now: the same name elsewhere, else a like one."""
    known = [entry.path for entry in entries if entry.path != path]
    base = path.rpartition("/")[2]
    same = [other for other in known if other.rpartition("/")[2] == base]
    return (same or difflib.get_close_matches(path, known, n=2, cutoff=0.8))[:2]
