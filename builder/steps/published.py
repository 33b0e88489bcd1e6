"""Prove what others published of a source: the trees that a lane states."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from builder.errors import Finding, Place, SourceError
from builder.model.lane import Source
from builder.model.values import TreeEntry
from builder.ports import GitStore

_TREE = "40000"


class PublishedDiffers(SourceError):
    """A source is not what was published of it."""

    code = "published-differs"


def check(
    name: str, wanted: Source, commit: str, trees: Sequence[str], *, lane: Path, store: GitStore
) -> None:
    """Compare a source with the `tree`, `parts` and `result-tree` of its table.

    `trees` are the commit's tree and what follows it: after compose, after each patch; the
    published result must be one of them. Raises: PublishedDiffers with every finding.
    """
    at = (lane, name)
    findings = [*_tree_findings(at, wanted, commit, trees[0], store)]
    result = wanted.result_tree
    if result is not None and result not in trees:
        what = (
            f"{name}: composed and patched it is tree {trees[-1]:.12}, published was {result:.12}"
        )
        findings.append(_finding(at, ("result-tree",), what, _STRAYED))
    if findings:
        raise PublishedDiffers.of(findings)


def part(entries: Sequence[TreeEntry], path: str) -> str | None:
    """The object id of a file or folder, computed from the entries of the whole tree."""
    below = [e for e in entries if e.path.startswith(f"{path}/")]
    if below:
        return _tree_id(below, f"{path}/")
    return next((e.object for e in entries if e.path == path), None)


def _tree_findings(
    at: tuple[Path, str], wanted: Source, commit: str, tree: str, store: GitStore
) -> Iterator[Finding]:
    name = at[1]
    if wanted.tree is not None and wanted.tree != tree:
        what = f"{name}: commit {commit:.12} holds tree {tree:.12}, published was {wanted.tree:.12}"
        yield _finding(at, ("tree",), what, _WRONG)
        return
    entries = store.entries(tree) if wanted.parts else ()
    for path, published in sorted(wanted.parts.items()):
        found = part(entries, path)
        if found != published:
            held = f"is {found:.12}" if found else "is not there"
            what = f"{name}: {path} of commit {commit:.12} {held}, published was {published:.12}"
            yield _finding(at, ("parts", path), what, _WRONG)


_WRONG = (
    "the published lock is wrong, or speaks of another commit; if you moved the commit, take "
    "this key out of the lane"
)
_STRAYED = (
    "a pull request's head moved, or one more or less was composed; if that is wanted, take "
    "result-tree out of the lane"
)


def _finding(at: tuple[Path, str], key: tuple[str, ...], what: str, hint: str) -> Finding:
    place = Place(at[0], key=("sources", at[1], *key))
    return Finding(PublishedDiffers.code, what, hint, place=place)


def _tree_id(entries: Sequence[TreeEntry], prefix: str) -> str:
    """Hash a tree object as git does, from all entries below `prefix`."""
    rows: dict[bytes, tuple[str, str]] = {}
    folders: dict[str, list[TreeEntry]] = {}
    for entry in entries:
        first, slash, _ = entry.path[len(prefix) :].partition("/")
        if slash:
            folders.setdefault(first, []).append(entry)
        else:
            rows[first.encode()] = (entry.mode, entry.object)
    for first, inside in folders.items():
        rows[first.encode() + b"/"] = (_TREE, _tree_id(inside, f"{prefix}{first}/"))
    body = b"".join(
        mode.encode() + b" " + key.rstrip(b"/") + b"\0" + bytes.fromhex(name)
        for key, (mode, name) in sorted(rows.items())
    )
    hashed = hashlib.sha1 if len(entries[0].object) == 40 else hashlib.sha256
    return hashed(b"tree %d\0" % len(body) + body, usedforsecurity=False).hexdigest()
