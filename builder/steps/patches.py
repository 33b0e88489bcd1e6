"""Apply patch sets to a verified source, in the object database, and compare with the lock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from builder.errors import Finding, PatchError, Place
from builder.model.counts import plural
from builder.model.lock import LockedSource
from builder.model.patch_sets import Condition
from builder.model.values import PatchedSource, PatchFile, PatchResult, SourceTree
from builder.ports import GitStore, PatchIndex
from builder.steps import diffs, edits, hunk_places, patch_failure
from builder.steps.hunk_places import Astray
from builder.steps.patch_failure import edits_failed, explained
from builder.steps.series import PatchSetInvalid, parse_series, read_sets
from builder.steps.trees import SYMLINK

__all__ = [
    "PatchDrift", "PatchFailed", "PatchSetInvalid", "apply", "check_locked", "parse_series",
    "read_sets",
]  # fmt: skip


class PatchFailed(PatchError):
    """A patch applies neither forwards nor backwards."""

    code = patch_failure.CODE


class PatchDrift(PatchError):
    """A patch, its state or its result is not the locked one."""

    code = "patch-drift"


@dataclass(frozen=True, slots=True)
class FailedPatch:
    patch: PatchFile
    tree: str  # that it was tried on
    finding: Finding


def apply(source: SourceTree, patches: Sequence[PatchFile], *, store: GitStore) -> PatchedSource:
    """Apply the patches in order; each is applied, already there (its reverse applies), or
    obsolete by the condition that its set declares.

    `source` is a verified one, or one that is being locked. Raises: PatchFailed.
    """
    done, failed = examine(source, patches, store=store)
    if failed:
        raise PatchFailed.of([one.finding for one in failed])
    return done


def examine(
    source: SourceTree, patches: Sequence[PatchFile], *, store: GitStore
) -> tuple[PatchedSource, tuple[FailedPatch, ...]]:
    """What becomes of each patch. One behind a failed patch is examined too, unless both touch
    the same file."""
    tree = source.tree
    results: list[PatchResult] = []
    failed: list[FailedPatch] = []
    touched: set[str] = set()  # by patches that failed
    with store.patching(tree) as index:
        for patch in patches:
            if touched & files_of(patch):
                continue
            result = _step(patch, source, tree, index, store)
            if isinstance(result, PatchResult):
                results.append(result)
                tree = result.tree
            else:
                touched |= files_of(patch)
                failed.append(FailedPatch(patch, tree, result))
    after = SourceTree(source.name, tree, source.submodules)
    return PatchedSource(after, tuple(results)), tuple(failed)


def files_of(patch: PatchFile) -> set[str]:
    """The files that a patch touches."""
    if patch.edits:
        return {edit.file for edit in patch.edits}
    return diffs.read(patch.data, strip=patch.strip).files


def applies(patch: PatchFile, index: PatchIndex) -> bool:
    """Whether a patch, or every text edit, finds its place in what an index holds."""
    if patch.edits:
        return not edits.edit(patch.edits, {f: index.held(f) for f in files_of(patch)}).wrong
    return not index.check(patch.data, strip=patch.strip)


def met(condition: Condition, tree: str, *, store: GitStore) -> bool:
    data = store.blob(tree, condition.file)
    if condition.absent:
        return data is None
    if condition.holds is not None:
        return data is not None and condition.holds.encode() in data
    return data is None or (condition.lacks or "").encode() not in data


def _step(
    patch: PatchFile, source: SourceTree, tree: str, index: PatchIndex, store: GitStore
) -> PatchResult | Finding:
    when, obsolete_if = patch.options.when, patch.options.obsolete_if
    if when is not None and not met(when, tree, store=store):
        return PatchResult(patch, "obsolete", tree)
    if obsolete_if is not None and met(obsolete_if, tree, store=store):
        return PatchResult(patch, "obsolete", tree)
    if patch.edits:
        return _edits(patch, source, tree, index, store)
    words = index.check(patch.data, strip=patch.strip)
    doubts = [] if words else _astray(patch, tree, store)
    if not words and not doubts:
        after, words = index.apply(patch.data, strip=patch.strip)
        if after is None:
            return explained(source, tree, patch, words, store)
        return PatchResult(patch, "applied", after)
    if not index.check(patch.data, strip=patch.strip, reverse=True):
        taken_back = _astray(patch, tree, store, reverse=True)
        if not taken_back:
            return PatchResult(patch, "already-there", tree)
        doubts = doubts or taken_back
    if patch.options.three_way and (words or _is_made_from(patch, store)):
        merged, said = index.merge(patch.data, strip=patch.strip)
        if merged is not None:
            return PatchResult(patch, "already-there" if merged == tree else "applied", merged)
        words = f"{words}\n{said}"
    if doubts:
        return _doubtful(source, patch, doubts)
    return explained(source, tree, patch, words, store)


def _astray(patch: PatchFile, tree: str, store: GitStore, *, reverse: bool = False) -> list[Astray]:
    """The hunks of a patch that applies, at whose places it may not belong."""
    if patch.options.moved:
        return []
    held = partial(store.blob, tree)
    return list(hunk_places.astray(patch.data, strip=patch.strip, held=held, reverse=reverse))


def _is_made_from(patch: PatchFile, store: GitStore) -> bool:
    """Whether the store has all that a patch was made from: else git would not merge it."""
    hunks = diffs.read(patch.data, strip=patch.strip).hunks
    return all(len(hunk.ids[0]) >= 40 and store.holds(hunk.ids[0]) for hunk in hunks)


def _doubtful(source: SourceTree, patch: PatchFile, doubts: Sequence[Astray]) -> Finding:
    return Finding(
        PatchFailed.code,
        f"{patch.path} applies to {source.name}, but maybe not where it belongs",
        "make it again on the new commit (imgbuild patch refresh); or, if that is the place, "
        "declare it in patches.toml: moved = true",
        "\n".join(doubt.why for doubt in doubts),
        Place(Path(patch.path), doubts[0].hunk.line),
    )


def _edits(
    patch: PatchFile, source: SourceTree, tree: str, index: PatchIndex, store: GitStore
) -> PatchResult | Finding:
    held = {file: store.blob(tree, file) for file in sorted(files_of(patch))}
    modes = {e.path: e.mode for e in store.entries(tree)} if None in held.values() else {}
    links = {path for path, mode in modes.items() if mode == SYMLINK}
    found = edits.edit(patch.edits, held, links)
    if found.wrong:
        return edits_failed(source, tree, patch, found.wrong, store)
    if found.already_there:
        return PatchResult(patch, "already-there", tree)
    for file, data in found.files.items():
        tree = index.put(file, data)
    return PatchResult(patch, "applied", tree)


def check_locked(patched: PatchedSource, locked: LockedSource, place: Place) -> None:
    """Compare each patch and the result with the lock; `place` is the source's table there.

    Raises: PatchDrift, which names the first patch that differs.
    """
    name = patched.source.name
    hint = (
        "the same patch on the same tree: the lock was edited, or merged by hand; compute it anew "
        f"from the same pins, then read the diff: imgbuild lock {place.file.stem}"
    )
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
        said = f"{name}: {plural(found_count, 'patch')}, the lock has {locked_count}"
        raise PatchDrift(said, hint=hint, place=place)
    if patched.source.tree != locked.final.tree:
        said = f"{name}: the result is tree {patched.source.tree:.12}, the lock says "
        where = Place(place.file, key=(*place.key, "final", "tree"))
        raise PatchDrift(said + f"{locked.final.tree:.12}", hint=hint, place=where)


def _short(text: str) -> str:
    return text[:19] if text.startswith("sha256:") else text[:12] if len(text) == 40 else text
