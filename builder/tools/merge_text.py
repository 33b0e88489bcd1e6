"""The text of a lock that did not merge whole: git's markers around the entries that conflict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tomlkit

from builder.tools.toml import HEAD

_OURS, _MIDDLE, _THEIRS = "<<<<<<< ours\n", "=======\n", ">>>>>>> theirs\n"
Key = tuple[str, ...]


def conflict_text(
    lane: str,
    entries: Mapping[Key, Any],
    conflicts: Mapping[Key, tuple[Any, Any]],
    notes: Sequence[str] = (),
) -> str:
    """Every entry, sorted, values before tables; a conflict holds both sides, None: no entry."""
    parts = [HEAD.format(lane=lane) + "".join(f"# {note}\n" for note in notes)]
    tables = {**{key: (value,) for key, value in entries.items()}, **conflicts}
    for key in sorted(tables, key=lambda key: (_is_table(tables[key]), key)):
        held = tables[key]
        if key not in conflicts:
            parts.append(_entry(key, held[0]))
        else:
            ours, theirs = (_entry(key, side) for side in held)
            parts.append(f"{_OURS}{ours}{_MIDDLE}{theirs}{_THEIRS}")
    return "\n".join(part for part in parts if part)


def whole_conflict(ours: bytes, theirs: bytes) -> bytes:
    """Both files between markers: one of them cannot be read as a lock."""
    sides = (side if side.endswith(b"\n") or not side else side + b"\n" for side in (ours, theirs))
    return _OURS.encode() + _MIDDLE.encode().join(sides) + _THEIRS.encode()


def _entry(key: Key, value: Any) -> str:
    if value is None:
        return ""
    for part in reversed(key):
        value = {part: value}
    return tomlkit.dumps(value, sort_keys=True)


def _is_table(held: Sequence[Any]) -> bool:
    return any(isinstance(side, Mapping) for side in held)
