"""Find the line of a key in a TOML text, for messages.

tomllib and tomlkit keep no positions. This reads only what is needed for that: headers,
keys and the extent of multi-line values; it is asked after a file was found wrong, never to
read values.
"""

from __future__ import annotations

import re

from builder.model.schema import KeyPath

_HEADER = re.compile(r"^\s*(\[\[?)\s*(.+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(
    r"""^\s*((?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
    r"""(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*'))*)\s*=(.*)$"""
)
_PART = re.compile(r"""[A-Za-z0-9_-]+|"((?:[^"\\]|\\.)*)"|'([^']*)'""")
_STRING = re.compile(r"""\"\"\"|'''|"(?:[^"\\]|\\.)*"|'[^']*'|#.*""")


def line_of(text: str, key: KeyPath) -> int | None:
    """The line (1-based) of the longest part of `key` that the text holds, or None."""
    best, best_length = None, 0
    for at, line in _keys(text):
        length = _shared(at, key)
        if length > best_length and length == len(at):
            best, best_length = line, length
    return best


def _keys(text: str) -> list[tuple[KeyPath, int]]:
    found: list[tuple[KeyPath, int]] = []
    counts: dict[KeyPath, int] = {}
    table: KeyPath = ()
    open_quote, depth = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if open_quote or depth:
            open_quote, depth = _extent(line, open_quote, depth)
            continue
        if header := _HEADER.match(line):
            table = _resolve(_parts(header[2]), counts)
            if header[1] == "[[":
                index = counts.get(table, -1) + 1
                counts[table] = index
                table = (*table, index)
            found.append((table, number))
        elif entry := _KEY.match(line):
            found.append(((*table, *_parts(entry[1])), number))
            open_quote, depth = _extent(entry[2], "", 0)
    return found


def _parts(text: str) -> tuple[str, ...]:
    return tuple(m[1] or m[2] or m[0].strip("\"'") for m in _PART.finditer(text))


def _resolve(parts: tuple[str, ...], counts: dict[KeyPath, int]) -> KeyPath:
    """Put the current index behind each array of tables that a header passes through."""
    at: KeyPath = ()
    for i, part in enumerate(parts):
        at = (*at, part)
        if at in counts and i < len(parts) - 1:
            at = (*at, counts[at])
    return at


def _extent(line: str, quote: str, depth: int) -> tuple[str, int]:
    """Which multi-line quote is open and how deep the brackets are after `line`."""
    if quote:
        end = line.find(quote)
        if end < 0:
            return quote, depth
        line = line[end + 3 :]
    while match := _STRING.search(line):
        depth += _brackets(line[: match.start()])
        line = line[match.end() :]
        if match[0] in ('"""', "'''"):
            end = line.find(match[0])
            if end < 0:
                return match[0], depth
            line = line[end + 3 :]
    return "", depth + _brackets(line)


def _brackets(text: str) -> int:
    return sum(text.count(c) for c in "[{") - sum(text.count(c) for c in "]}")


def _shared(a: KeyPath, b: KeyPath) -> int:
    length = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        length += 1
    return length
