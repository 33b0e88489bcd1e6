"""Text for a terminal: what comes from outside cannot act on it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from builder.model.urls import without_userinfo

_UNSAFE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    r"\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)
"""C0 but tab and newline, C1, what turns the direction of text, what is not seen at all, and
what is no text (a file's name that is not UTF-8): XML takes none of it."""


def clean(text: str) -> str:
    """The text with control and direction characters written out, `\\x1b`, and without the
    passwords of URLs."""
    return _UNSAFE.sub(lambda m: m[0].encode("unicode_escape").decode(), without_userinfo(text))


def clean_json(report: Any) -> str:
    """The same for JSON: it reads as the same values but for the passwords."""
    text = json.dumps(_without_userinfo(report), indent=2, ensure_ascii=False)
    return _UNSAFE.sub(lambda m: json.dumps(m[0])[1:-1], text)


def _without_userinfo(value: Any) -> Any:
    match value:
        case str():
            return without_userinfo(value)
        case dict():
            return {_without_userinfo(key): _without_userinfo(one) for key, one in value.items()}
        case list() | tuple():
            return [_without_userinfo(one) for one in value]
        case _:
            return value


def one_line(text: str) -> str:
    return clean(" ".join(text.split()))


def duration(seconds: float) -> str:
    """A time as people read it: `0.4 s`, `12 s`, `4 min 10 s`, `1 h 11 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def size(count: float) -> str:
    """Bytes as people read them: `3.1 MB`."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def table(rows: Sequence[Sequence[str]], *, indent: str = "") -> list[str]:
    """Rows as aligned columns, the last column ragged."""
    if not rows:
        return []
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        (indent + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]
