"""Ask servers whether the tags that a lock pins are still where they were.

A branch moves, a tag stays: one that names another commit now, or is gone, was replaced by
somebody. Either what is there now is not the release any more, or what was locked never was.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from builder.errors import Finding, Place, SourceError
from builder.model.lane import Lane
from builder.model.lock import Lock, LockedDep
from builder.model.values import GitPin
from builder.ports import GitStore, RefGone, Say
from builder.steps.reach import TAGS, tag_moved
from builder.steps.sources import entries, lane_entry, source_urls


def tagged(lane: Lane, lock: Lock, *, root: Path) -> Iterator[tuple[str, GitPin]]:
    """The lane's name of each entry that a tag named, and its pin; not what the lane excuses by
    `unreachable`."""
    for key, locked in entries(lock).items():
        kind, _, name = key.partition(".")
        wanted = lane_entry(name, locked, lane)
        if wanted is None or wanted.unreachable:
            continue
        ref = locked.reachable_from or wanted.track.ref
        if ref is not None and ref.startswith(TAGS):
            derived = locked.from_ if isinstance(locked, LockedDep) else None
            place = Place(lock.path, key=(kind, name, "commit"))
            urls = source_urls(wanted, root=root)
            yield derived or name, GitPin(name, urls, locked.commit, ref, place)


def ask(
    lane: Lane, lock: Lock, *, root: Path, store: GitStore, say: Say
) -> Iterator[Finding | str]:
    """What is wrong, and what could not be told and why; one question a tag, nothing is fetched."""
    for entry, pinned in tagged(lane, lock, root=root):
        assert pinned.ref is not None
        assert pinned.place is not None
        tag = pinned.ref.removeprefix(TAGS)
        say(f"{pinned.name} {tag}")
        try:
            now = store.resolve(pinned.urls, pinned.ref)
        except RefGone:
            seen = "is gone"
        except SourceError as error:
            yield f"{pinned.name}: where the tag {tag} is now: {error}"
            continue
        else:
            seen = "" if now == pinned.commit else f"is at {now:.12} now"
        if seen:
            yield tag_moved(pinned, seen, pinned.place, entry=entry)
