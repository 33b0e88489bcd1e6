"""Find out whether a commit belongs to the ref that its lane declares.

A server gives any commit of its whole network of forks by its id: one that lies only in
somebody's fork ("imposter commit") looks like the project's own.
"""

from __future__ import annotations

from dataclasses import replace

from builder.errors import Finding, Place, SourceError
from builder.model.lane import Dep, Source
from builder.model.values import GitPin
from builder.ports import GitStore, Say
from builder.steps.hints import unless_edited

TAGS = "refs/tags/"


class Imposter(SourceError):
    """A commit is not in the history of its declared ref."""

    code = "imposter-commit"


def reachable_from(
    pinned: GitPin, wanted: Source | Dep, *, place: Place, store: GitStore, say: Say
) -> tuple[str | None, Finding | None]:
    """The declared ref when it reaches the commit; a warning when that is not known, or when it is
    a tag of another commit.

    Asks the server. `place` is the entry's table in the lane. Raises: Imposter.
    """
    if pinned.ref is None or wanted.unreachable:
        return None, None
    try:
        tip = store.resolve(pinned.urls, pinned.ref)
        at = GitPin(pinned.name, pinned.urls, tip, pinned.ref)
        found = store.history(pinned.urls).reaches(at, pinned.commit, say=say)
    except SourceError as error:
        return None, _unknown(pinned, place, str(error))
    if found is None:
        return None, _unknown(pinned, place, "its history is too long to be followed")
    if not found:
        raise _imposter(pinned, tip, place)
    if pinned.ref.startswith(TAGS) and tip != pinned.commit:
        here = Place(place.file, key=(*place.key, "commit"))
        said = tag_moved(pinned, f"is at {tip:.12} now", here, entry=pinned.name)
        return pinned.ref, replace(said, level="warning")
    return pinned.ref, None


def tag_moved(pinned: GitPin, seen: str, place: Place, *, entry: str) -> Finding:
    """That a tag does not name the pinned commit; `entry` is the lane's, to be updated."""
    tag = (pinned.ref or "").removeprefix(TAGS)
    return Finding(
        "tag-moved", f"{pinned.name}: the tag {tag} {seen}, pinned is {pinned.commit:.12}",
        f"{unless_edited(place.file.stem)}find out why before you build from either (a tag stays "
        "where it is, unless somebody replaces a release); to take what is there now: imgbuild "
        f"lock {place.file.stem} --update {entry}, then read the diff; to stay, say why in the "
        'lane: unreachable = "…"',
        place=place,
    )  # fmt: skip


def _imposter(pinned: GitPin, tip: str, place: Place) -> Imposter:
    return Imposter(
        f"{pinned.name}: commit {pinned.commit:.12} is not in the history of {pinned.ref}, which "
        f"is at {tip:.12} now",
        hint="it may lie only in a fork or a pull request, or the ref was rewritten: name the ref "
        'that holds it in track, or say why it is right: unreachable = "…"',
        place=Place(place.file, key=(*place.key, "commit")),
    )


def _unknown(pinned: GitPin, place: Place, why: str) -> Finding:
    return Finding(
        "reach-unknown",
        f"{pinned.name}: whether {pinned.ref} reaches commit {pinned.commit:.12} is not known: "
        f"{why}",
        'lock again when the server answers, or say why it is right: unreachable = "…"',
        place=Place(place.file, key=(*place.key, "commit")),
        level="warning",
    )
