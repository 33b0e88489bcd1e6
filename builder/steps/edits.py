"""Text edits: find, replace, expected count; what people otherwise do by a script on the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from builder.model.counts import plural
from builder.model.patch_sets import TextEdit


@dataclass(frozen=True, slots=True)
class Edited:
    """What edits make of files. With `wrong`, nothing."""

    files: Mapping[str, bytes]  # those that change
    wrong: tuple[str, ...] = ()  # sentences, one an edit that does not hold

    @property
    def already_there(self) -> bool:
        return not self.files and not self.wrong


def edit(edits: Sequence[TextEdit], held: Mapping[str, bytes | None]) -> Edited:
    """Apply edits in order to the files that `held` has (None: there is none)."""
    changed: dict[str, bytes] = {}
    wrong: list[str] = []
    for one in edits:
        data = changed.get(one.file, held[one.file])
        if data is None:
            wrong.append(f"{one.file} is not there")
            continue
        find, replace = one.find.encode(), one.replace.encode()
        if _is_there(data, find, replace, one.count):
            continue
        found = data.count(find)
        if found != one.count:
            wrong.append(_miscount(one, data, found))
            continue
        changed[one.file] = data.replace(find, replace)
    return Edited({}, tuple(wrong)) if wrong else Edited(changed)


def _is_there(data: bytes, find: bytes, replace: bytes, count: int) -> bool:
    """Whether the edit was made before. A deletion never shows that."""
    return bool(replace) and data.count(replace) == count and find not in data.replace(replace, b"")


def _miscount(one: TextEdit, data: bytes, found: int) -> str:
    text = one.find if len(one.find) <= 60 else f"{one.find[:57]}…"
    said = f"{one.file} holds {text!r} {plural(found, 'time')}, not {one.count}"
    if not found and b"\r\n" in data and "\n" in one.find and "\r\n" not in one.find:
        return f"{said}: the file has CRLF line ends, write them in `find`"
    if not found:
        first = one.find.strip().splitlines()[0].encode() if one.find.strip() else b""
        lines = [n for n, line in enumerate(data.splitlines(), 1) if first and first in line]
        if lines:
            return f"{said} (its first line stands in line {lines[0]})"
    return said
