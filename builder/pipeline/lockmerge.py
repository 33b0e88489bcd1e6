"""`imgbuild lock-merge`: three locks into one, as git's merge driver."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from builder.errors import Finding, ImgbuildError, Place
from builder.model import toml_text
from builder.model.toml_text import TomlInvalid
from builder.steps import lockmerge
from builder.steps.lanes import lock_of
from builder.steps.lockmerge import Conflict, Merged
from builder.tools.merge_text import conflict_text, whole_conflict
from builder.tools.toml import lock_text

CODE = "lock-conflict"
_WRITTEN = re.compile(rb"\A# Written by `imgbuild lock ([a-z0-9][a-z0-9._-]*)`")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The text of the merged lock, and why it is not whole; no findings: it is."""

    text: bytes
    findings: tuple[Finding, ...] = ()


def lock_merge(base: bytes, ours: bytes, theirs: bytes, *, path: Path | None = None) -> Outcome:
    """Merge two locks that grew from `base` (empty: both are new); `path` names the lock.

    Without findings the text is a valid lock, the same bytes as `imgbuild lock` writes.
    """
    lane = _lane(path, ours, theirs)
    place = Place(path or Path(f"locks/{lane}.lock"))
    try:
        for side in (ours, theirs):
            lock_of(side, place.file, lane, whole=False)
    except ImgbuildError as error:
        return Outcome(whole_conflict(ours, theirs), tuple(_unreadable(error, lane, place)))
    merged = lockmerge.merge(_table(base), _table(ours), _table(theirs))
    merged, reasons = _apart(merged, _table(ours), _table(theirs))
    findings = [*_findings(merged, reasons, lane, place)]
    if not findings:
        try:
            lock = lock_of(merged.table, place.file, lane)
        except ImgbuildError as error:
            return Outcome(whole_conflict(ours, theirs), tuple(_unreadable(error, lane, place)))
        return Outcome(lock_text(lock, lane).encode())
    conflicts = {c.key: (c.ours, c.theirs) for c in merged.conflicts}
    notes = [f"{'.'.join(key)} is left out: imgbuild lock {lane}" for key in merged.left_out]
    return Outcome(conflict_text(lane, merged.entries, conflicts, notes).encode(), tuple(findings))


def _apart(
    merged: Merged, ours: Mapping[str, Any], theirs: Mapping[str, Any]
) -> tuple[Merged, Mapping[lockmerge.Key, str]]:
    """Make conflicts of entries that merged and do not go together; why, by entry."""
    mine, yours = lockmerge.entries(ours), lockmerge.entries(theirs)
    entries, conflicts = dict(merged.entries), list(merged.conflicts)
    reasons: dict[lockmerge.Key, str] = {}
    for one, other, why in lockmerge.clashes(merged.table):
        for key, beside in ((one, other), (other, one)):
            reasons.setdefault(key, f"{'.'.join(key)} and {'.'.join(beside)} {why}")
            if key in entries:
                del entries[key]
                conflicts.append(Conflict(key, mine.get(key), yours.get(key), ()))
    conflicts.sort(key=lambda conflict: conflict.key)
    if conflicts != list(merged.conflicts):
        merged = replace(merged, entries=entries, conflicts=tuple(conflicts))
    return merged, reasons


def _findings(
    merged: Merged, reasons: Mapping[lockmerge.Key, str], lane: str, place: Place
) -> Iterator[Finding]:
    for conflict in merged.conflicts:
        yield Finding(
            CODE,
            reasons.get(conflict.key) or f"{conflict.name} was {_how(conflict)}",
            f"keep one side between the markers, then: imgbuild lock {lane}",
            place=place,
        )
    for key in merged.left_out:
        yield Finding(
            CODE,
            f"{'.'.join(key)} is left out: it follows from entries of both sides",
            f"when no markers are left: imgbuild lock {lane}",
            place=place,
        )


def _how(conflict: Conflict) -> str:
    if conflict.ours is None or conflict.theirs is None:
        return "removed on one side and changed on the other"
    if not conflict.names:
        return "changed on both sides, in values that may follow from each other"
    shown = ", ".join(name or "its value" for name in conflict.names[:6])
    more = len(conflict.names) - 6
    return f"changed on both sides: {shown}{f' and {more} more' if more > 0 else ''}"


def _unreadable(error: ImgbuildError, lane: str, place: Place) -> Iterator[Finding]:
    first = error.findings[0]
    yield Finding(
        CODE,
        f"a side of the merge is no lock that this imgbuild reads: {first.what}",
        f"keep one side between the markers, then: imgbuild lock {lane}",
        place=place,
    )


def _table(text: bytes) -> Mapping[str, Any]:
    """The table of a lock; of a base that is no TOML, as when both sides are new, an empty one."""
    try:
        return toml_text.parse(text)
    except TomlInvalid:
        return {}


def _lane(path: Path | None, *sides: bytes) -> str:
    if path is not None:
        return path.stem
    found = (_WRITTEN.match(side) for side in sides)
    return next((match[1].decode() for match in found if match), "LANE")
