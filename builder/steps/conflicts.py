"""Say of a merge that failed: which pull request, which files, which lines, what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from builder.errors import Finding, PatchError, Place
from builder.model.counts import plural
from builder.model.merges import MergeConflict

_HUNKS = 3  # of a file
_FILES = 5
_LINES = 12  # of a side
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class ComposeConflict(PatchError):
    """A pull request does not merge with what was composed before it."""

    code = "compose-conflict"


@dataclass(frozen=True, slots=True)
class Hunk:
    """Two versions of the same lines."""

    line: int  # where it begins in the file, counted as if ours had won
    ours: tuple[str, ...]
    theirs: tuple[str, ...]


def finding(
    name: str, pull: int, head: str, before: Sequence[int], found: Sequence[MergeConflict],
    *, place: Place,
) -> Finding:  # fmt: skip
    """The finding for one pull request; `before` are those that were composed before it."""
    paths = list(dict.fromkeys(conflict.path for conflict in found))
    onto = f"the commit and {_pulls(before)}" if before else "the commit"
    named = ", ".join(map(_shown, paths[:_FILES])) + (", …" if len(paths) > _FILES else "")
    what = f"{name}: pull request {pull} (head {head:.12}) conflicts with {onto} in {named}"
    return Finding(
        ComposeConflict.code, what, _hint(pull, before), "\n".join(_detail(found)), place
    )


def hunks(data: bytes) -> Iterator[Hunk]:
    """The conflicts in a file that holds markers."""
    ours: list[str] = []
    theirs: list[str] = []
    line, side = 0, ""
    for text in data.decode("utf-8", "replace").splitlines():
        if text.startswith("<<<<<<< ") and not side:
            ours, theirs, side = [], [], "ours"
        elif text == "=======" and side == "ours":
            side = "theirs"
        elif text.startswith(">>>>>>> ") and side == "theirs":
            yield Hunk(line + 1, tuple(ours), tuple(theirs))
            line, side = line + len(ours), ""
        elif side:
            (ours if side == "ours" else theirs).append(text)
        else:
            line += 1


def _detail(found: Sequence[MergeConflict]) -> Iterator[str]:
    for conflict in found[:_FILES]:
        shown = [*hunks(conflict.held)]
        if not shown:
            yield _shown(conflict.words or f"{conflict.kind}: {conflict.path}")
        for hunk in shown[:_HUNKS]:
            yield f"{_shown(conflict.path)}:{hunk.line}"
            yield from _side("- composed", hunk.ours)
            yield from _side("+ pull request", hunk.theirs)
        if len(shown) > _HUNKS:
            yield f"… {plural(len(shown) - _HUNKS, 'more conflict')} in {_shown(conflict.path)}"
    if len(found) > _FILES:
        yield f"… {len(found) - _FILES} more"


def _side(title: str, lines: Sequence[str]) -> Iterator[str]:
    yield f"  {title}:" if lines else f"  {title}: (nothing)"
    yield from (f"    {_shown(line)[:120]}" for line in lines[:_LINES])
    if len(lines) > _LINES:
        yield f"    … {plural(len(lines) - _LINES, 'more line')}"


def _hint(pull: int, before: Sequence[int]) -> str:
    order = "put it at another place in compose, " if before else ""
    return (
        f"{order}name a head of {pull} that was rebased onto the commit, move the commit, or "
        f"leave {pull} out and carry what you need of it as a patch set"
    )


def _pulls(numbers: Sequence[int]) -> str:
    return f"pull request{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _shown(text: str) -> str:
    return _CONTROL.sub(lambda m: f"\\x{ord(m[0]):02x}", text)
