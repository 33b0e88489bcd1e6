"""Text edits: find, replace, expected count; what people otherwise do by a script on the host."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
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


def edit(
    edits: Sequence[TextEdit], held: Mapping[str, bytes | None], links: Collection[str] = ()
) -> Edited:
    """Apply edits in order to the files that `held` has (None: there is none, or it is one of
    the symlinks `links`)."""
    changed: dict[str, bytes] = {}
    wrong: list[WrongEdit] = []
    for number, one in enumerate(edits):
        data = changed.get(one.file, held[one.file])
        if data is None:
            link = one.file in links
            said = "is a symlink: name the file that it leads to" if link else "is not there"
            wrong.append(WrongEdit(number, f"{one.file} {said}", one.file))
            continue
        find, replace = one.find.encode(), one.replace.encode()
        if _is_there(data, find, replace, one.count):
            continue
        found, made = data.count(find), _made(data, find, replace)
        if found != one.count or made:
            wrong.append(_miscount(number, one, data, found, made))
            continue
        changed[one.file] = data.replace(find, replace)
    return Edited({}, tuple(wrong)) if wrong else Edited(changed)


def _is_there(data: bytes, find: bytes, replace: bytes, count: int) -> bool:
    """Whether the edit was made before. A deletion never shows that: what it leaves, nothing or
    a part of `find`, stood there before it."""
    if replace in find or data.count(replace) != count:
        return False
    return data.count(find) == _made(data, find, replace)


def _made(data: bytes, find: bytes, replace: bytes) -> int:
    """How many of the places that hold `find` are what the edit writes."""
    if find not in replace:
        return 0
    return data.count(find) - sum(part.count(find) for part in data.split(replace))


def _miscount(number: int, one: TextEdit, data: bytes, found: int, made: int) -> WrongEdit:
    text = one.find if len(one.find) <= 60 else f"{one.find[:57]}…"
    said = f"{one.file} holds {text!r} {plural(found, 'time')}, "
    is_count = found == one.count
    said += f"{made} of them where the edit was made already" if is_count else f"not {one.count}"
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
