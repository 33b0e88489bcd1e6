"""Where the hunks of a patch land, and whether that is where they were made for.

git moves a hunk to wherever its lines are found, and asks no further. Of two functions with one
body that is the wrong one as soon as the right one was changed. A hunk is at home where the
file is byte for byte the one that the patch was made from; else at the one place that holds its
lines, in the function that its heading (`@@ … @@ heading`) names, no nearer place being alike.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from builder.model.blobs import blob_id
from builder.steps import diffs
from builder.steps.diffs import Hunk

_CUT = 80  # bytes of a heading that git shows; GNU diff shows 40
_SHORTEST_CUT = 40
_SCOPE = re.compile(
    rb"(?!(?:import|from|using|typedef|return)\b)"
    rb"(?:(?:class|struct|union|enum|namespace)\b.*|[A-Za-z_$][^=(;]*(?:\(.*|[:{]\s*))",
    re.DOTALL,
)
"""What opens a function or the like; a hunk among imports has one of those as its heading."""
_HEADINGS = (
    re.compile(rb"[A-Za-z_$].*", re.DOTALL),  # git's, and that of diff -p
    _SCOPE,
    re.compile(rb"[ \t]*((?:class|(?:async[ \t]+)?def)[ \t].*)", re.DOTALL),  # diff=python
)
_TELLING = re.compile(rb"[A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class Astray:
    """A hunk whose place is doubtful."""

    hunk: Hunk
    why: str  # a sentence that names the places


def astray(
    data: bytes, *, strip: int, held: Callable[[str], bytes | None], reverse: bool = False
) -> Iterator[Astray]:
    """The hunks of a patch that git would apply (in reverse: take back) at a doubtful place.

    `held` gives the files of the tree that git said the patch applies to.
    """
    sections = [
        list(found)
        for _, found in itertools.groupby(
            diffs.read(data, strip=strip).hunks, key=lambda hunk: (hunk.file, hunk.to, hunk.ids)
        )
    ]
    made: dict[str, bytes] = {}  # by an earlier part of the patch for the same file
    for hunks in reversed(sections) if reverse else sections:
        before, after = (hunks[0].file, hunks[0].to)[:: -1 if reverse else 1]
        content = made.get(before) if before in made else held(before)
        if content is None:
            continue  # it is made by the patch
        lines = re.findall(rb"[^\n]*\n|[^\n]+", content)
        places = list[tuple[Hunk, int]]()
        for hunk in hunks:
            at, why = _place(hunk, lines, reverse)
            ids = hunk.ids[1 if reverse else 0]
            if why and not _is(content, ids):
                yield Astray(hunk, why)
            places.append((hunk, at))
        made[after] = _applied(lines, places, reverse)


def _place(hunk: Hunk, lines: Sequence[bytes], reverse: bool) -> tuple[int, str]:
    """The index of the line where a hunk lands, and what is doubtful about it."""
    block = _block(hunk, "+" if reverse else "-")
    start = hunk.to_start if reverse else hunk.start
    home = max(start - 1, 0) if block else start
    found = [at for at in _fitting(hunk, block, start, lines) if _holds(lines, at, block)]
    if not found:
        return home, f"{hunk.file}: where it lands cannot be told"
    at = min(found, key=lambda place: (abs(place - home), place < home))
    heading = hunk.heading.encode("utf-8", "surrogateescape")
    below = [place for place in found if heading and _is_below(heading, lines, place)]
    if len(found) > 1 and below != [at] and not (at == home and at in below):
        places = ", ".join(str(place + 1) for place in found[:6])
        return at, f"{hunk.file}: its lines stand at more than one place: in lines {places}"
    where = f"{hunk.file}:{at + 1}" + (f" (made for line {home + 1})" if at != home else "")
    named = bool(_SCOPE.fullmatch(heading))
    if named and at not in below and (at != home or _stands(heading, lines)):
        there = _heading(_HEADINGS[0], lines, at).decode("utf-8", "replace") or "no function"
        return at, f"{where} is below {there!r}, not below {hunk.heading!r}"
    for near in _nearer(at, home, lines):
        if _alike(lines, near, block) and (not named or _is_below(heading, lines, near)):
            return at, f"{where}: line {near + 1} is nearer, and like what it was made for"
    return at, ""


def _fitting(
    hunk: Hunk, block: Sequence[bytes], start: int, lines: Sequence[bytes]
) -> Sequence[int]:
    """The places that git tries: one without context at an end stays at that end of the file."""
    last = len(lines) - len(block)
    at_end = _trailing(hunk) == 0
    if start <= 1:
        return [0] if last == 0 or (last > 0 and not at_end) else []
    if at_end:
        return [last] if last >= 0 else []
    return range(last + 1)


def _trailing(hunk: Hunk) -> int:
    """How many lines of context end a hunk."""
    signs = [line[:1] for line in hunk.body if line[:1] != "\\"]
    return len(list(itertools.takewhile(lambda sign: sign not in ("+", "-"), signs[::-1])))


def _block(hunk: Hunk, sign: str) -> list[bytes]:
    """The lines of one side of a hunk."""
    found: list[bytes] = []
    taken = False
    for line in hunk.body:
        if line[:1] == "\\":  # No newline at end of file
            if taken:
                found[-1] = found[-1].removesuffix(b"\n")
            continue
        taken = line[:1] == sign or line[:1] not in ("+", "-")
        if taken:
            text = line[1:] if line[:1] in ("+", "-", " ") else line
            found.append(text.encode("utf-8", "surrogateescape") + b"\n")
    return found


def _applied(lines: Sequence[bytes], places: Sequence[tuple[Hunk, int]], reverse: bool) -> bytes:
    """The file after its hunks, for a later part of the patch."""
    signs = "+-" if reverse else "-+"
    made = list(lines)
    for hunk, at in sorted(places, key=lambda place: -place[1]):
        made[at : at + len(_block(hunk, signs[0]))] = _block(hunk, signs[1])
    return b"".join(made)


def _holds(lines: Sequence[bytes], at: int, block: Sequence[bytes]) -> bool:
    return all(lines[at + i] == line for i, line in enumerate(block))


def _nearer(at: int, home: int, lines: Sequence[bytes]) -> Iterator[int]:
    far = abs(at - home)
    for place in range(max(home - far + 1, 0), min(home + far, len(lines))):
        if place != at:
            yield place


def _alike(lines: Sequence[bytes], at: int, block: Sequence[bytes]) -> bool:
    """Whether half of the lines that tell something stand there, two at least."""
    telling = [i for i, line in enumerate(block) if _TELLING.search(line)]
    same = sum(at + i < len(lines) and lines[at + i] == block[i] for i in telling)
    return same >= 2 and 2 * same >= len(telling)


def _is_below(heading: bytes, lines: Sequence[bytes], at: int) -> bool:
    return any(_same(heading, _heading(kind, lines, at)) for kind in _HEADINGS)


def _heading(kind: re.Pattern[bytes], lines: Sequence[bytes], at: int) -> bytes:
    """The nearest line above that git would take for the heading."""
    for line in reversed(lines[:at]):
        if match := kind.fullmatch(line):
            return match[match.lastindex or 0].rstrip()
    return b""


def _stands(heading: bytes, lines: Sequence[bytes]) -> bool:
    """Whether the function that a heading names is in the file."""
    return any(_same(heading, line.strip()) for line in lines)


def _same(heading: bytes, line: bytes) -> bool:
    """Whether a line is the one that the heading was cut from."""
    if len(heading) >= _SHORTEST_CUT:
        return line.startswith(heading)
    return line[:_CUT].rstrip() == heading


def _is(content: bytes, shortened: str) -> bool:
    """Whether the id of a blob begins so, in either of git's formats."""
    ids = (blob_id(content, digits) for digits in (40, 64))
    return len(shortened) >= 7 and any(one.startswith(shortened) for one in ids)
