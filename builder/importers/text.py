"""Bytes of a foreign file to text, text to JSON values, strictly and with the lines.

Written here because the standard reader takes a repeated key's last value, NaN, and gives no
lines; and because a file of a stranger must not exhaust the stack.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from json import JSONDecodeError
from json.decoder import scanstring  # type: ignore[attr-defined]  # not in typeshed
from pathlib import Path
from typing import NoReturn

from builder.errors import Finding, LaneError, Place
from builder.model.schema import KeyPath, dotted

MOST_BYTES = 4_000_000
_DEEPEST = 32
_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]{0,17}))(?![0-9.eE])")
_WORDS = {"true": True, "false": False, "null": None}


class ImportInvalid(LaneError):
    """A foreign file is not as its format says, or contradicts itself."""

    code = "import-invalid"


def decode(data: bytes, file: Path) -> str:
    """The text of a file. Raises: ImportInvalid."""
    if len(data) > MOST_BYTES:
        raise ImportInvalid(
            f"{len(data)} bytes: a lock has at most {MOST_BYTES}", place=Place(file)
        )
    if data.startswith(b"\xef\xbb\xbf"):
        raise ImportInvalid(
            "begins with a byte order mark", hint="save it as plain UTF-8", place=Place(file, 1)
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as bad:
        line = data[: bad.start].count(b"\n") + 1
        raise ImportInvalid("is not UTF-8 text", place=Place(file, line)) from bad


@dataclass(slots=True)
class Json:
    """A JSON text as values, and the line of each key path."""

    value: object
    lines: dict[KeyPath, int]


def parse(text: str, file: Path) -> Json:
    """Raises: ImportInvalid for what is no JSON, and for every repeated key."""
    parser = _Parser(text, file)
    value = parser.whole()
    if parser.repeated:
        raise ImportInvalid.of(parser.repeated)
    return Json(value, parser.lines)


@dataclass(slots=True)
class _Parser:
    text: str
    file: Path
    lines: dict[KeyPath, int] = field(default_factory=dict)
    repeated: list[Finding] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    at: int = 0

    def whole(self) -> object:
        self.starts = [0, *(m.end() for m in re.finditer("\n", self.text))]
        self._space()
        value = self._value(())
        self._space()
        if self.at < len(self.text):
            self._fail("text behind the end of the JSON value")
        return value

    def _value(self, path: KeyPath) -> object:
        self.lines.setdefault(path, self._line())
        if len(path) > _DEEPEST:
            self._fail(f"is nested more than {_DEEPEST} deep")
        match self.text[self.at : self.at + 1]:
            case "{":
                return self._object(path)
            case "[":
                return self._array(path)
            case '"':
                return self._string()
        if number := _NUMBER.match(self.text, self.at):
            self.at = number.end()
            return int(number[1])
        for word, value in _WORDS.items():
            if self.text.startswith(word, self.at):
                self.at += len(word)
                return value
        return self._fail(
            "a value is expected: text, a whole number, a list, an object, true, false, null"
        )

    def _object(self, path: KeyPath) -> dict[str, object]:
        found: dict[str, object] = {}
        while self._more("}", first=not found):
            if self.text[self.at : self.at + 1] != '"':
                self._fail("a key in double quotes is expected")
            line = self._line()
            key = self._string()
            if key in found:
                what = f"{dotted((*path, key))}: the key is there twice"
                self.repeated.append(
                    Finding(ImportInvalid.code, what, place=Place(self.file, line))
                )
            self._space()
            self._take(":")
            self.lines[(*path, key)] = line
            found[key] = self._value((*path, key))
        return found

    def _array(self, path: KeyPath) -> list[object]:
        found: list[object] = []
        while self._more("]", first=not found):
            found.append(self._value((*path, len(found))))
        return found

    def _more(self, end: str, *, first: bool) -> bool:
        """Stand on the next item; False behind the closing bracket."""
        if first:
            self.at += 1
        self._space()
        if self.text.startswith(end, self.at):
            self.at += 1
            return False
        if not first:
            self._take(",")
            if self.text.startswith(end, self.at):
                self._fail("a comma before the end")
        return True

    def _string(self) -> str:
        try:
            value, self.at = scanstring(self.text, self.at + 1, True)
        except JSONDecodeError as bad:
            self.at = bad.pos
            self._fail(bad.msg.lower())
        if any("\ud800" <= c <= "\udfff" for c in value):
            self._fail("half of a surrogate pair")
        return str(value)

    def _take(self, sign: str) -> None:
        if not self.text.startswith(sign, self.at):
            self._fail(f"{sign!r} is expected")
        self.at += 1
        self._space()

    def _space(self) -> None:
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def _line(self) -> int:
        return bisect_right(self.starts, self.at)

    def _fail(self, what: str) -> NoReturn:
        raise ImportInvalid(f"is not JSON: {what}", place=Place(self.file, self._line()))
