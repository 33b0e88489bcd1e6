"""What servers say of the refs behind a lock: whether they reach its commits, what moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from builder.errors import Finding, Place
from builder.model.lane import Dep, Lane, Source
from builder.model.lock import Lock, LockedDep, LockedSource
from builder.model.values import GitPin
from builder.ports import GitStore, Say
from builder.steps import pulls, resolve
from builder.steps.reach import Imposter, reachable_from

Pins = Mapping[str, Mapping[str, GitPin]]


@dataclass(frozen=True, slots=True)
class Followed:
    """Which ref reaches each pin, by kind and name; what a person should know."""

    refs: Mapping[tuple[str, str], str | None]
    warnings: tuple[Finding, ...]


def follow(
    lane: Lane, old: Lock | None, pins: Pins, moving: frozenset[str], *, store: GitStore, say: Say
) -> Followed:
    """Ask of what is new, and of what could not be told before. Raises: Imposter, of all."""
    refs: dict[tuple[str, str], str | None] = {}
    warnings, wrong = list[Finding](), list[Finding]()
    for kind, entries in pins.items():
        for name, pinned in entries.items():
            wanted: Source | Dep = getattr(lane, kind)[name]
            former = getattr(old, kind).get(name) if old else None
            kept = resolve.keeps(wanted, former, update=name in moving)
            taken = not kept and (wanted.commit is None or name in moving)  # from the ref
            if (taken and pinned.ref) or (former is not None and _was_reached(former, pinned)):
                refs[kind, name] = pinned.ref
            else:
                place = Place(lane.path, key=(kind, name))
                try:
                    refs[kind, name], warning = reachable_from(
                        pinned, wanted, place=place, store=store, say=say
                    )
                    warnings += [warning] if warning else []
                except Imposter as imposter:
                    wrong += imposter.findings
            if isinstance(wanted, Source) and not kept:
                warnings += pulls.moved(pinned, wanted, lane=lane.path, store=store)
    if wrong:
        raise Imposter.of(wrong)
    return Followed(refs, tuple(warnings))


def _was_reached(former: LockedSource | LockedDep, pinned: GitPin) -> bool:
    return former.commit == pinned.commit and former.reachable_from == pinned.ref
