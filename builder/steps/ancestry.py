"""Prove of a lock what only a history tells: that refs reach its commits, and where they forked.

Trees and merges follow from commits, and are proven without any history. Which commits are a
project's own, and which are the merge bases of two, is what somebody who edits a lock could
make up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from builder.errors import Finding, Place, SourceError
from builder.model.lane import Lane
from builder.model.lock import Lock, LockedCompose, LockedSource
from builder.model.values import GitPin
from builder.ports import GitStore, Say
from builder.steps import pulls
from builder.steps.hints import restoring
from builder.steps.reach import Imposter, reachable_from
from builder.steps.sources import entries, lane_entry, source_urls


class AncestryWrong(SourceError):
    """A lock names merge bases that are not those of its commits, or a merge that is none."""

    code = "ancestry"


def prove(
    lane: Lane, lock: Lock, *, root: Path, store: GitStore, say: Say
) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """Ask the histories behind a lock: what is wrong, and what could not be told and why.

    Asks servers, and fetches as much of a history as an answer needs.
    """
    found = [*_reached(lane, lock, root, store, say)]
    for name, locked in sorted(lock.sources.items()):
        if locked.compose:
            found += _forks(name, locked, lane, lock, root, store, say)
    wrong = tuple(f for f in found if isinstance(f, Finding))
    return wrong, tuple(f for f in found if isinstance(f, str))


def _reached(
    lane: Lane, lock: Lock, root: Path, store: GitStore, say: Say
) -> Iterator[Finding | str]:
    """Whether the refs that lane and lock name reach the locked commits."""
    for key, locked in entries(lock).items():
        kind, _, name = key.partition(".")
        wanted = lane_entry(name, locked, lane)
        if wanted is None:
            continue
        say(name)
        ref = locked.reachable_from or wanted.track.ref
        pinned = GitPin(name, source_urls(wanted, root=root), locked.commit, ref)
        place = Place(lock.path, key=(kind, name))
        try:
            _, unknown = reachable_from(pinned, wanted, place=place, store=store, say=say)
        except Imposter as imposter:
            yield from imposter.findings
        else:
            if unknown is not None and unknown.code != "tag-moved":  # which is asked of by itself
                yield unknown.what


def _forks(
    name: str, locked: LockedSource, lane: Lane, lock: Lock, root: Path, store: GitStore, say: Say
) -> Iterator[Finding | str]:
    """Whether the merge bases are those of the real histories, and the heads their pulls' own."""
    urls = source_urls(lane.sources[name], root=root)
    ours = [GitPin(name, urls, locked.commit, lane.sources[name].track.ref)]
    for i, pull in enumerate(locked.compose):
        head = GitPin(f"{name}/pull/{pull.pull}", urls, pull.head, pulls.ref(pull.pull))
        say(head.name)
        if unknown := _not_its_own(head, store, say):
            yield unknown
        try:
            what = _fork(pull, ours, head, store, say)
        except SourceError as error:
            yield f"{head.name}: where it forked off was not looked up: {error}"
        else:
            if what:
                place = Place(lock.path, key=("sources", name, "compose", i))
                hint = f"do not build from it; {restoring(lock.path.stem)}"
                yield Finding(AncestryWrong.code, f"{head.name} {what}", hint, place=place)
        if pull.disposition == "merged":
            ours.append(head)


def _fork(
    pull: LockedCompose, ours: Sequence[GitPin], head: GitPin, store: GitStore, say: Say
) -> str:
    """What the lock says wrongly of a pull request's place in the history; empty: nothing."""
    history = store.history(head.urls)
    if pull.disposition == "cherry-picked":
        return ""  # each picked commit names its parent itself
    if pull.disposition == "merged":
        bases = history.merge_bases(ours, head, say=say)
        if set(bases) == set(pull.merge_base):
            return ""
        found, said = (" ".join(f"{c:.12}" for c in cs) for cs in (bases, pull.merge_base))
        return f"forked off at {found or 'nothing'}, the lock says {said or 'nothing'}"
    for commit in pull.commits or (pull.head,):
        if history.merge_bases(ours, replace(head, commit=commit), say=say) != (commit,):
            return f"is not in the base: {commit:.12} is not in its history"
    return ""


def _not_its_own(head: GitPin, store: GitStore, say: Say) -> str:
    """Why it is not known that a pull request ever had this head; empty when it has it."""
    assert head.ref is not None
    try:
        tip = store.resolve(head.urls, head.ref)
        at = replace(head, commit=tip)
        if tip == head.commit or store.history(head.urls).reaches(at, head.commit, say=say):
            return ""
        why = f"it is at {tip:.12} now"
    except SourceError as error:
        why = str(error)
    return f"{head.name}: whether {head.commit:.12} was its head: {why}"
