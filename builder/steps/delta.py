"""The delta of a composition: the patch from a commit's tree to what was composed on it.

It makes a lock hold when a pull request's head is gone: base tree + delta = result tree, which
is locked. It lies in the file store, and in the repository beside the patch sets, so that other
machines have it too (docs/decisions/0006-composed-delta.md). Its digest is no input of a build:
another version of git may write the same change in other words.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import IO

from builder.errors import PatchError
from builder.model.lock import LockedSource
from builder.ports import Files, GitStore, Project


class DeltaInvalid(PatchError):
    """A delta does not apply to the tree that it was made from."""

    code = "delta-invalid"


def path(lane: str, source: str) -> str:
    """Where the delta of a lane's source lies in the project."""
    return f"patches/{source}/{lane}.composed.patch"


def make(old: str, new: str, *, what: str, store: GitStore, files: Files) -> str:
    """Take the patch between two trees into the file store, proven to apply; its sha256."""
    data = store.diff(old, new)
    if apply(old, data, what=what, store=store) != new:
        raise DeltaInvalid(
            f"{what}: git's patch from {old:.12} to {new:.12} does not give the latter",
            hint="report it, with the names of the commits",
        )

    def write(out: IO[bytes]) -> None:
        out.write(data)

    return files.create(write)[0]


def read(sha256: str, lane: str, source: str, *, project: Project, files: Files) -> bytes | None:
    """The delta's bytes, from the file store or the project; None when neither has them."""
    place = files.path(sha256)
    if place is not None:
        return place.read_bytes()
    data = project.read(path(lane, source))
    if data is None or f"sha256:{hashlib.sha256(data).hexdigest()}" != sha256:
        return None
    return data


def apply(tree: str, data: bytes, *, what: str, store: GitStore) -> str:
    """The tree that a delta gives; an empty one gives the same tree. Raises: DeltaInvalid."""
    if not data:
        return tree
    with store.patching(tree) as index:
        words, after = index.check(data, strip=1), None
        if not words:
            after, words = index.apply(data, strip=1)
        if after is None:
            raise DeltaInvalid(
                f"{what}: the locked delta does not apply",
                hint="the commit or its tree is not the one it was made from: lock it again",
                detail=words,
            )
        return after


def publish(
    lane: str, sources: Mapping[str, LockedSource], *, project: Project, files: Files
) -> tuple[str, ...]:
    """Write the deltas of a lock into the project, where they are not there yet: which files."""
    written = []
    for name, locked in sorted(sources.items()):
        if locked.delta is None:
            continue
        data = read(locked.delta, lane, name, project=project, files=files)
        if data is not None and project.read(path(lane, name)) != data:
            project.write(path(lane, name), data)
            written.append(path(lane, name))
    return tuple(written)
