"""Read the TOML that people write; whatever the parser stumbles over is said with its place."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from builder.errors import Finding, Place
from builder.model.schema import KeyPath, dotted

_BOM = b"\xef\xbb\xbf"
_DIGITS = re.compile(rb"[0-9_]{4301}")  # more than Python turns into a number


class TomlInvalid(ValueError):
    """What is wrong with a text, and where in it."""

    def __init__(self, what: str, hint: str = "", line: int | None = None, key: KeyPath = ()):
        super().__init__(what)
        self.what, self.hint, self.line, self.key = what, hint, line, key

    def finding(self, code: str, file: Path) -> Finding:
        return Finding(code, self.what, self.hint, place=Place(file, self.line, self.key))


def parse(data: bytes) -> Mapping[str, object]:
    """The table of a text with Unix or Windows line ends. Raises: TomlInvalid."""
    if data.startswith(_BOM):
        raise TomlInvalid(
            "begins with a byte order mark, which TOML does not have",
            'save it as UTF-8 without "BOM"; or: sed -i "1s/^\\xEF\\xBB\\xBF//" FILE', 1,
        )  # fmt: skip
    try:
        table = tomllib.loads(data.decode("utf-8").replace("\r\n", "\n"))
        large = next(_large(table), None)
    except UnicodeDecodeError as bad:
        raise TomlInvalid("is not UTF-8 text", line=_line(data, bad.start)) from bad
    except tomllib.TOMLDecodeError as bad:
        said = re.search(r"line (\d+)", str(bad))
        line = int(said[1]) if said else len(data.splitlines())
        raise TomlInvalid(f"is not TOML: {bad}", line=line) from bad
    except RecursionError as bad:
        raise TomlInvalid("is nested too deeply") from bad
    except ValueError as bad:
        digits = _DIGITS.search(data)
        at = _line(data, digits.start()) if digits else None
        raise TomlInvalid("holds a value that cannot be read", line=at) from bad
    if large is not None:
        raise TomlInvalid(f"{dotted(large)}: is a number of more than 64 bits", key=large)
    return table


def _line(data: bytes, at: int) -> int:
    return data[:at].count(b"\n") + 1


def _large(value: object, at: KeyPath = ()) -> Iterator[KeyPath]:
    """The numbers that no other reader of TOML must take."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _large(item, (*at, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _large(item, (*at, i))
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        yield at
