"""Find out whether a commit belongs to the ref that its lane declares.

A server gives any commit of its whole network of forks by its id: one that lies only in
somebody's fork ("imposter commit") looks like the project's own.
"""

from __future__ import annotations

from builder.errors import Finding, Place, SourceError
from builder.model.lane import Dep, Source
from builder.model.values import GitPin
from builder.ports import GitStore, Say


class Imposter(SourceError):
    """A commit is not in the history of its declared ref."""

    code = "imposter-commit"


def reachable_from(
    pinned: GitPin, wanted: Source | Dep, *, place: Place, store: GitStore, say: Say
) -> tuple[str | None, Finding | None]:
    """The declared ref when it reaches the commit, else a warning why that is not known.

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
    return pinned.ref, None


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
