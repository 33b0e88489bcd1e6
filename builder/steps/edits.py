"""Text edits: find, replace, expected count; what people otherwise do by a script on the host."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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


def edit(
    edits: Sequence[TextEdit], held: Mapping[str, bytes | None], links: Collection[str] = ()
) -> Edited:
    """Apply edits in order to the files that `held` has (None: there is none, or it is one of
    the symlinks `links`)."""
    changed: dict[str, bytes] = {}
    wrong: list[str] = []
    for one in edits:
        data = changed.get(one.file, held[one.file])
        if data is None:
            link = one.file in links
            said = "is a symlink: name the file that it leads to" if link else "is not there"
            wrong.append(f"{one.file} {said}")
            continue
        find, replace = one.find.encode(), one.replace.encode()
        if _is_there(data, find, replace, one.count):
            continue
        found, made = data.count(find), _made(data, find, replace)
        if found != one.count or made:
            wrong.append(_miscount(one, data, found, made))
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


def _miscount(one: TextEdit, data: bytes, found: int, made: int) -> str:
    text = one.find if len(one.find) <= 60 else f"{one.find[:57]}…"
    said = f"{one.file} holds {text!r} {plural(found, 'time')}, "
    if found == one.count:
        return f"{said}{made} of them where the edit was made already"
    said += f"not {one.count}"
    if not found and b"\r\n" in data and "\n" in one.find and "\r\n" not in one.find:
        return f"{said}: the file has CRLF line ends, write them in `find`"
    if not found:
        first = one.find.strip().splitlines()[0].encode() if one.find.strip() else b""
        lines = [n for n, line in enumerate(data.splitlines(), 1) if first and first in line]
        if lines:
            return f"{said} (its first line stands in line {lines[0]})"
    return said
