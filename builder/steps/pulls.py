"""Which commits the pull requests of a source stand for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from builder.errors import Finding, Place, SourceError
from builder.model.lane import Source
from builder.model.lock import LockedCompose, LockedSource
from builder.model.values import GitPin
from builder.ports import GitStore, RefGone
from builder.steps.placed import placed
from builder.steps.sources import source_urls


def ref(pull: int) -> str:
    return f"refs/pull/{pull}/head"


def heads(
    pinned: GitPin,
    wanted: Source,
    old: LockedSource | None,
    *,
    store: GitStore,
    former: LockedSource | None = None,
) -> tuple[GitPin, ...]:
    """The head of each pull request: the lane's, the older lock's, or what its ref names now.

    `old` is the older lock's entry when it is kept; `former` in any case, for what to do about
    a pull request that is deleted. Raises: SourceUnavailable.
    """
    kept, known = _heads(old), _heads(former)
    found = []
    for i, pull in enumerate(wanted.compose):
        head = pull.head or kept.get(pull.pull)
        if head is None:
            table = pinned.place
            place = Place(table.file, key=(*table.key, "compose", i)) if table else None
            with placed(pinned.name, place), _deleted(pull.pull, known.get(pull.pull)):
                head = store.resolve(pinned.urls, ref(pull.pull))
        name = f"{pinned.name}/pull/{pull.pull}"
        found.append(GitPin(name, pinned.urls, head, ref(pull.pull), pinned.place))
    return tuple(found)


def _heads(locked: LockedSource | None) -> dict[int, str]:
    return {pull.pull: pull.head for pull in locked.compose} if locked is not None else {}


@contextmanager
def _deleted(pull: int, head: str | None) -> Iterator[None]:
    try:
        yield
    except RefGone as gone:
        hint = f"pull request {pull} is deleted there; take it out of compose"
        if head is not None:
            hint += f', or keep the locked head: {{ pull = {pull}, head = "{head}" }}'
        gone.findings = tuple(replace(found, hint=hint) for found in gone.findings)
        raise


def moved(
    pinned: GitPin, wanted: Source, *, lane: Path, store: GitStore
) -> Iterator[Finding]:  # fmt: skip
    """Warnings for heads that the lane pins and whose pull request has another head now."""
    for i, pull in enumerate(wanted.compose):
        if pull.head is None:
            continue
        try:
            now = store.resolve(pinned.urls, ref(pull.pull))
        except SourceError:
            what, hint = f"{ref(pull.pull)} is not there any more", "the locked delta replays it"
        else:
            if now == pull.head:
                continue
            what = f"its head is {now:.12} now, the lane says {pull.head:.12}"
            hint = f'to take the new one: head = "{now}", then lock again'
        place = Place(lane, key=("sources", pinned.name, "compose", i, "head"))
        said = f"{pinned.name}: pull request {pull.pull}: {what}"
        yield Finding("head-moved", said, hint, place=place, level="warning")


def pins(name: str, locked: LockedSource, wanted: Source, *, root: Path) -> tuple[GitPin, ...]:
    """The commits that are merged: a build can do without them while it has the delta.

    They are asked for by their ids only: where a head moved, no history is searched for it.
    """
    urls = source_urls(wanted, root=root)
    found: dict[str, GitPin] = {}
    for pull in locked.compose:
        for commit in merged(pull):
            found.setdefault(commit, GitPin(f"{name}/pull/{pull.pull}", urls, commit))
        for base in pull.merge_base:
            found.setdefault(base, GitPin(f"{name}/merge base", urls, base))
    return tuple(found.values())


def merged(pull: LockedCompose) -> tuple[str, ...]:
    """The commits of a locked pull request that are merged, or picked."""
    return () if pull.disposition == "already-in-base" else pull.commits or (pull.head,)


def wrong(name: str, wanted: Source) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """What is wrong with a table's `compose`: the key in the lane, what it is, a hint."""
    seen: set[int] = set()
    for i, pull in enumerate(wanted.compose):
        key = ("sources", name, "compose", i)
        if pull.pull in seen or pull.pull < 1:
            fault = "is composed twice" if pull.pull in seen else "is no number of a pull request"
            yield (*key, "pull"), f"{name}: pull request {pull.pull} {fault}", ""
        seen.add(pull.pull)
        if wanted.compose_strategy == "merge" and pull.commits not in ((), (pull.head,)):
            what = f"{name}: pull request {pull.pull} names commits, which are picked, not merged"
            yield (*key, "commits"), what, 'add compose-strategy = "cherry-pick", or leave them out'
