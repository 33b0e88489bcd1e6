"""Merge two locks that grew from one, entry by entry.

An entry's values follow from each other (a commit, its tree, its patches' results), so two
edits in one entry merge only where neither can depend on the other: the platforms of a base
or a package in the same version. Nothing is computed here; what both sides would have to
compute anew is left out and told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Table = Mapping[str, Any]
Key = tuple[str, ...]  # ("sources", "kern"), ("image",)

KINDS = ("base", "debs", "deps", "python", "sources")
"""Tables of entries; each other top-level table is an entry itself."""

_BY_PLATFORM = ("base", "debs", "python")


@dataclass(frozen=True, slots=True)
class Conflict:
    """An entry that both sides changed; None where a side has none."""

    key: Key
    ours: Any
    theirs: Any
    names: tuple[str, ...]  # the keys in it that both changed, dotted

    @property
    def name(self) -> str:
        return ".".join(self.key)


@dataclass(frozen=True, slots=True)
class Merged:
    """All that merged by itself, and what did not."""

    entries: Mapping[Key, Any]
    conflicts: tuple[Conflict, ...] = ()
    left_out: tuple[Key, ...] = field(default=())  # to be computed from the merged entries

    @property
    def table(self) -> Table:
        """The merged entries as the table of a lock."""
        found: dict[str, Any] = {}
        for key, value in sorted(self.entries.items()):
            if len(key) == 1:
                found[key[0]] = value
            else:
                found.setdefault(key[0], {})[key[1]] = value
        return found


def merge(base: Table, ours: Table, theirs: Table) -> Merged:
    """The three-way merge of the tables of three locks; `base` may be empty."""
    was, mine, yours = (entries(table) for table in (base, ours, theirs))
    found: dict[Key, Any] = {}
    conflicts: list[Conflict] = []
    for key in sorted(was.keys() | mine.keys() | yours.keys()):
        if key == ("deps-archive",):
            continue
        triple = (was.get(key), mine.get(key), yours.get(key))
        settled, value = _entry(key, *triple)
        if not settled:
            conflicts.append(Conflict(key, triple[1], triple[2], tuple(_both(*triple))))
        elif value is not None:
            found[key] = value
    left_out = tuple(_deps_archive(found, conflicts, was, mine, yours))
    return Merged(found, tuple(conflicts), left_out)


def entries(table: Table) -> dict[Key, Any]:
    """The entries of a lock's table: `sources.kern`, `image`, `lock-version`."""
    found: dict[Key, Any] = {}
    for top, value in table.items():
        if top in KINDS and isinstance(value, Mapping):
            found.update({(top, name): entry for name, entry in value.items()})
        else:
            found[(top,)] = value
    return found


def _entry(key: Key, was: Any, ours: Any, theirs: Any) -> tuple[bool, Any]:
    """Whether it merges, and to what; None: the entry is gone."""
    if ours in (theirs, was):
        return True, theirs
    if theirs == was:
        return True, ours
    if key[0] in _BY_PLATFORM and _same_but_platforms(ours, theirs):
        before = was.get("platforms") if isinstance(was, Mapping) else None
        return _platforms(before, ours, theirs)
    return False, None


def _same_but_platforms(ours: Any, theirs: Any) -> bool:
    if not all(isinstance(side, Mapping) for side in (ours, theirs)):
        return False
    mine, yours = ({k: v for k, v in s.items() if k != "platforms"} for s in (ours, theirs))
    held = [side.get("platforms") for side in (ours, theirs)]
    return mine == yours and all(isinstance(platforms, Mapping) for platforms in held)


def _platforms(was: Any, ours: Table, theirs: Table) -> tuple[bool, Any]:
    before = was if isinstance(was, Mapping) else {}
    mine, yours = ours["platforms"], theirs["platforms"]
    merged = {}
    for platform in sorted(before.keys() | mine.keys() | yours.keys()):
        triple = (before.get(platform), mine.get(platform), yours.get(platform))
        settled, value = _entry(("",), *triple)
        if not settled:
            return False, None
        if value is not None:
            merged[platform] = value
    return bool(merged), {**ours, "platforms": merged}


def _deps_archive(
    found: dict[Key, Any],
    conflicts: list[Conflict],
    was: Mapping[Key, Any],
    ours: Mapping[Key, Any],
    theirs: Mapping[Key, Any],
) -> Iterator[Key]:
    """Take the digest of a side that has the merged deps; without one it is left out."""
    key, deps = ("deps-archive",), _deps(found)
    whole = not any(conflict.key[0] == "deps" for conflict in conflicts)
    sides = [side for side in (ours, theirs, was) if key in side and _deps(side) == deps]
    if whole and not deps:
        return
    if whole and sides[:2] == [ours, theirs]:
        settled, value = _entry(key, was.get(key), ours[key], theirs[key])
        sides = [{key: value}] if settled else []
    if whole and sides:
        found[key] = sides[0][key]
    else:
        yield key


def _deps(side: Mapping[Key, Any]) -> Mapping[Key, Any]:
    return {key: value for key, value in side.items() if key[0] == "deps"}


def _both(was: Any, ours: Any, theirs: Any, at: str = "") -> Iterator[str]:
    """The dotted keys that the two sides hold with other values, and not as before."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        before = was if isinstance(was, Mapping) else {}
        for key in sorted(ours.keys() | theirs.keys()):
            mine, yours = ours.get(key), theirs.get(key)
            if mine != yours and before.get(key) not in (mine, yours):
                yield from _both(before.get(key), mine, yours, f"{at}.{key}" if at else key)
    else:
        yield at


def clashes(table: Table) -> Iterator[tuple[Key, Key, str]]:
    """Entries that are good alone and not together: (one, other, why)."""
    for kind in ("python", "debs"):
        yield from _twice(table, kind)
    taken: list[tuple[str, str]] = []
    for name, dep in sorted(table.get("deps", {}).items()):
        for place, other in taken:
            if f"{place}/".startswith(f"{dep['into']}/") or f"{dep['into']}/".startswith(
                f"{place}/"
            ):
                yield ("deps", other), ("deps", name), f"overlap below {dep['into']}"
        taken.append((dep["into"], name))


def _twice(table: Table, kind: str) -> Iterator[tuple[Key, Key, str]]:
    first: dict[str, str] = {}
    for name, package in sorted(table.get(kind, {}).items()):
        other = first.setdefault(package["name"], name)
        if other != name:
            yield (kind, other), (kind, name), f"are both {package['name']}"
