"""Compare two lanes, or one lane at two revisions, by what they mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from builder.steps.lockdiff_facts import Facts, Side, Value, facts

State = Literal["same", "moved", "changed", "added", "removed", "unknown"]
"""moved: another commit. unknown: what would say so is known on one side only."""

KINDS = (
    "sources", "deps", "base", "python", "debs", "args", "env", "build", "image", "gates", "lane",
)  # fmt: skip
"""The kinds of entries, in the order in which they are told."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that was compared, with both values; None is not known there."""

    name: str
    state: Literal["same", "changed", "unknown"]
    before: Value
    after: Value


@dataclass(frozen=True, slots=True)
class Entry:
    kind: str
    name: str
    state: State
    facts: tuple[Fact, ...]

    def fact(self, name: str) -> Fact | None:
        return next((fact for fact in self.facts if fact.name == name), None)

    def differing(self) -> tuple[Fact, ...]:
        return tuple(fact for fact in self.facts if fact.state == "changed")


@dataclass(frozen=True, slots=True)
class LaneDiff:
    before: Side
    after: Side
    entries: tuple[Entry, ...]  # by kind, then in the lanes' own order

    def of(self, *kinds: str) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.kind in kinds)

    @property
    def same(self) -> bool:
        """Nothing differs in what could be compared."""
        return all(entry.state in ("same", "unknown") for entry in self.entries)

    @property
    def unknown(self) -> Mapping[str, tuple[str, ...]]:
        """What cannot be compared: the names of facts by `kind.name`."""
        found = {
            f"{entry.kind}.{entry.name}": tuple(f.name for f in entry.facts if f.state == "unknown")
            for entry in self.entries
        }
        return {name: missing for name, missing in found.items() if missing}


def diff(before: Side, after: Side) -> LaneDiff:
    """Everything in which two sides differ, are the same, or cannot be compared."""
    old, new = facts(before), facts(after)
    keys = sorted(dict.fromkeys((*old, *new)), key=lambda key: KINDS.index(key[0]))
    return LaneDiff(before, after, tuple(_entry(key, old.get(key), new.get(key)) for key in keys))


def _entry(key: tuple[str, str], old: Facts | None, new: Facts | None) -> Entry:
    kind, name = key
    if old is None or new is None:
        held = tuple(
            Fact(fact, "changed", (old or {}).get(fact), (new or {}).get(fact))
            for fact in (old or new or {})
        )
        return Entry(kind, name, "added" if old is None else "removed", held)
    found = tuple(_compared(kind, old, new))
    return Entry(kind, name, _state(kind, found), found)


def _compared(kind: str, old: Facts, new: Facts) -> Iterator[Fact]:
    follows = kind in ("sources", "deps") and _origin(old) == _origin(new) is not None
    for name in dict.fromkeys((*old, *new)):
        if name == "parts":
            continue  # told as `native`
        before, after = old.get(name, ""), new.get(name, "")
        if name == "native":
            before, after = _native(old, new)
        if before is None or after is None:
            yield Fact(name, "same" if follows else "unknown", before, after)
        else:
            yield Fact(name, "same" if before == after else "changed", before, after)


_ORIGIN = ("commit", "pull-requests", "patches")


def _origin(held: Facts) -> tuple[Value, ...] | None:
    """From what all else of a source follows; None where it is not known whole."""
    found = tuple(held.get(name, "") for name in _ORIGIN)
    return None if None in found else found


def _native(old: Facts, new: Facts) -> tuple[Value, Value]:
    """The native parts in the terms that both sides know: our digest, or published trees."""
    if old.get("native") is not None and new.get("native") is not None:
        return old["native"], new["native"]
    if old.get("parts") and new.get("parts"):
        return old["parts"], new["parts"]
    return old.get("native"), new.get("native")


def _state(kind: str, found: tuple[Fact, ...]) -> State:
    changed = {fact.name for fact in found if fact.state == "changed"}
    if kind in ("sources", "deps") and changed & {"commit", "pull-requests"}:
        return "moved"
    if changed:
        return "changed"
    known = {fact.name for fact in found if fact.state == "same"}
    unknown = any(fact.state == "unknown" for fact in found)
    settled = kind == "sources" and known & {"commit", "result-tree"} == {"commit", "result-tree"}
    return "unknown" if unknown and not settled else "same"
