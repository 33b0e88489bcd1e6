"""Text edits: find, replace, expected count; what people otherwise do by a script on the host."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from builder.model.counts import plural
from builder.model.patch_sets import TextEdit


@dataclass(frozen=True, slots=True)
class WrongEdit:
    """An edit that does not hold."""

    number: int  # which one, from 0
    said: str  # a sentence
    file: str
    line: int | None = None  # of the file, where the text is, or what is most like it

    def __str__(self) -> str:
        return self.said


@dataclass(frozen=True, slots=True)
class Edited:
    """What edits make of files. With `wrong`, nothing."""

    files: Mapping[str, bytes]  # those that change
    wrong: tuple[WrongEdit, ...] = ()

    @property
    def already_there(self) -> bool:
        return not self.files and not self.wrong


def edit(edits: Sequence[TextEdit], held: Mapping[str, bytes | None]) -> Edited:
    """Apply edits in order to the files that `held` has (None: there is none)."""
    changed: dict[str, bytes] = {}
    wrong: list[WrongEdit] = []
    for number, one in enumerate(edits):
        data = changed.get(one.file, held[one.file])
        if data is None:
            wrong.append(WrongEdit(number, f"{one.file} is not there", one.file))
            continue
        find, replace = one.find.encode(), one.replace.encode()
        if _is_there(data, find, replace, one.count):
            continue
        found = data.count(find)
        if found != one.count:
            wrong.append(_miscount(number, one, data, found))
            continue
        changed[one.file] = data.replace(find, replace)
    return Edited({}, tuple(wrong)) if wrong else Edited(changed)


def _is_there(data: bytes, find: bytes, replace: bytes, count: int) -> bool:
    """Whether the edit was made before. A deletion never shows that."""
    return bool(replace) and data.count(replace) == count and find not in data.replace(replace, b"")


def _miscount(number: int, one: TextEdit, data: bytes, found: int) -> WrongEdit:
    text = one.find if len(one.find) <= 60 else f"{one.find[:57]}…"
    said = f"{one.file} holds {text!r} {plural(found, 'time')}, not {one.count}"
    if found:
        first = data.find(one.find.encode())
        return WrongEdit(number, said, one.file, data.count(b"\n", 0, first) + 1)
    if b"\r\n" in data and "\n" in one.find and "\r\n" not in one.find:
        said = f"{said}: the file has CRLF line ends, write them in `find`"
        return WrongEdit(number, said, one.file)
    anchor = next((line.strip() for line in one.find.splitlines() if line.strip()), "")
    lines = data.decode("utf-8", "replace").splitlines()
    if exact := [n for n, line in enumerate(lines, 1) if anchor and anchor in line]:
        said = f"{said} (its first line stands in line {exact[0]})"
        return WrongEdit(number, said, one.file, exact[0])
    return WrongEdit(number, said, one.file, _near(anchor, lines))


def _near(anchor: str, lines: Sequence[str]) -> int | None:
    """The line that has most of the anchor in one piece, at least half of it."""
    matcher = difflib.SequenceMatcher(None, "", anchor, autojunk=False)
    most, found = 0, None
    for number, line in enumerate(lines, 1):
        matcher.set_seq1(line)
        if (size := matcher.find_longest_match().size) > most:
            most, found = size, number
    return found if 2 * most >= len(anchor) else None
