"""Carry a patch set over to another commit: a merge in the object database, no work tree.

A patch that applies stays as it is, byte for byte. One that does not is merged: what it made of
the tree that it was locked on, onto the tree that it meets now.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from builder.errors import Finding, Place
from builder.model.lock import PatchState
from builder.model.merges import Merged
from builder.model.values import PatchFile, SourceTree
from builder.ports import GitStore, Project
from builder.steps import patches
from builder.steps.hints import settling

Outcome = Literal["rewritten", "empty", "conflict"] | PatchState


@dataclass(frozen=True, slots=True)
class RefreshedPatch:
    patch: PatchFile
    outcome: Outcome
    data: bytes | None = None  # the new text, -p1; None: the file stays
    finding: Finding | None = None  # of a conflict
    before: str = ""  # of a conflict: the tree that the patch is for
    marked: str | None = None  # that tree with what could be merged, and markers


def refresh(
    now: SourceTree,
    former: SourceTree | None,
    found: Sequence[PatchFile],
    *,
    unknown: str = "",
    store: GitStore,
) -> Iterator[RefreshedPatch]:
    """Each patch on the tree `now`; `former` is the one that they were locked on, `unknown` says
    why there is none."""
    before = former
    for patch in found:
        after = _after(before, patch, store)
        done, failed = patches.examine(now, [patch], store=store)
        if not failed:
            now = done.source
            yield RefreshedPatch(patch, done.patches[0].state)
        elif before is None or after is None or patch.edits:
            why = "it does not apply where it was locked either" if before else unknown
            finding = _by_hand(failed[0].finding, patch, why, now.name)
            yield RefreshedPatch(patch, "conflict", finding=finding, before=now.tree)
        else:
            merged = store.merge(before.tree, now.tree, after.tree)
            one = _merged(patch, now, merged, failed[0].finding, store)
            if one.data is not None:
                now = SourceTree(now.name, merged.tree, now.submodules)
            yield one
        before = after if after is not None else before


def rewritten(old: bytes, diff: bytes) -> bytes:
    """The new text of a patch: the mail's head of the old one, then the diff."""
    lines = old.splitlines(keepends=True)
    starts = (b"diff --git ", b"--- ", b"Index: ", b"GIT binary patch")
    end = next((i for i, line in enumerate(lines) if line.startswith(starts)), len(lines))
    head = lines[:end]
    if b"---\n" in head:  # the diffstat behind it counts other lines now
        head = [*head[: head.index(b"---\n")], b"---\n", b"\n"]
    return b"".join(head) + diff


def without_strip(path: str, project: Project) -> None:
    """What is written has the names of -p1."""
    folder, _, name = path.rpartition("/")
    series = f"{folder}/series"
    text = (project.read(series) or b"").decode()
    line = rf"(?m)^({re.escape(name)})[ \t]+-p\d+"
    project.write(series, re.sub(line, r"\1", text).encode())


def _after(before: SourceTree | None, patch: PatchFile, store: GitStore) -> SourceTree | None:
    """What the patch made of the former tree; None when it does not apply there either."""
    if before is None:
        return None
    done, failed = patches.examine(before, [patch], store=store)
    return None if failed else done.source


def _merged(
    patch: PatchFile, now: SourceTree, merged: Merged, failure: Finding, store: GitStore
) -> RefreshedPatch:
    if merged.conflicts:
        finding = _conflict(patch, merged, failure, now.name)
        return RefreshedPatch(
            patch, "conflict", finding=finding, before=now.tree, marked=merged.tree
        )
    if merged.tree == now.tree:
        return RefreshedPatch(patch, "empty")
    data = rewritten(patch.data, store.diff(now.tree, merged.tree))
    return RefreshedPatch(patch, "rewritten", data)


def _by_hand(failure: Finding, patch: PatchFile, why: str, source: str) -> Finding:
    """Of a patch that no merge can carry over: what it was made on is not known here."""
    if patch.edits:  # they say themselves what to correct
        return failure
    return replace(failure, hint=f"{why}: {settling(source)}")


def _conflict(patch: PatchFile, merged: Merged, failure: Finding, source: str) -> Finding:
    shown: list[str] = []
    for conflict in merged.conflicts[:4]:
        shown += [conflict.words, *_markers(conflict.held)]
    files = ", ".join(dict.fromkeys(conflict.path for conflict in merged.conflicts))
    place = failure.place or Place(Path(patch.path))
    return Finding(
        "patch-conflict",
        f"{patch.path} conflicts with upstream in {files}",
        f"the patch is as it was; {settling(source)}",
        "\n".join(shown),
        place,
    )


def _markers(held: bytes, most: int = 24) -> list[str]:
    """The first place with conflict markers."""
    lines = held.decode("utf-8", "replace").splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith("<<<<<<<")), None)
    if start is None:
        return []
    end = next((i for i, line in enumerate(lines) if line.startswith(">>>>>>>")), len(lines))
    names = {"<<<<<<<": "<<<<<<< upstream now", ">>>>>>>": ">>>>>>> the patch"}
    return [names.get(line[:7], line[:120]) for line in lines[start : end + 1][:most]]
