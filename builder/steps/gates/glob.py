"""Patterns for paths of an image: `*`, `?`, `[…]` within a name, `**` over folders."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from builder.model.schema import Check

_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class Glob:
    """A pattern from the image's root, with or without the leading /."""

    text: str
    exact: bool = False  # no character of it is special

    @property
    def literal(self) -> bool:
        return self.exact or not _WILD.search(self.text)

    @property
    def root(self) -> str:
        """The part before the first special character: where to read. "" is everything."""
        if self.literal:
            return self.text.strip("/")
        parts = self.text.strip("/").split("/")
        fixed = next(i for i, part in enumerate(parts) if _WILD.search(part))
        return "/".join(parts[:fixed])

    def matches(self, path: str) -> bool:
        if self.literal:
            return path == self.text.strip("/")
        return _compiled(self.text).fullmatch(path) is not None


def outermost(roots: Iterable[str]) -> tuple[str, ...]:
    """The roots that do not lie below another one."""
    kept: list[str] = []
    for root in sorted(set(roots), key=lambda r: r.split("/") if r else []):
        if not any(is_below(root, other) for other in kept):
            kept.append(root)
    return tuple(kept)


def is_below(path: str, root: str) -> bool:
    """Whether a path is the root or lies below it."""
    return root == "" or path == root or path.startswith(root + "/")


def is_glob(text: str) -> bool:
    parts = text.removeprefix("/").split("/")
    if any(part in ("", ".", "..") or ("**" in part and part != "**") for part in parts):
        return False
    try:
        return text.isprintable() and bool(_compiled(text))
    except re.error:  # [z-a]
        return False


def is_image_path(text: str) -> bool:
    return is_glob(text) and not _WILD.search(text)


ImageGlob = Annotated[
    str,
    Check(is_glob, "a path or pattern from the image's root; ** stands alone between slashes"),
]
ImagePath = Annotated[str, Check(is_image_path, "a path from the image's root, no pattern")]


@functools.cache
def _compiled(text: str) -> re.Pattern[str]:
    parts = text.strip("/").split("/")
    rule = ""
    for i, part in enumerate(parts):
        last = i == len(parts) - 1
        if part == "**":
            rule += ".+" if last else "(?:[^/]+/)*"
        else:
            rule += _name(part) + ("" if last else "/")
    return re.compile(rule, re.DOTALL)


def _name(part: str) -> str:
    rule, at = "", 0
    while at < len(part):
        end = part.find("]", at + 2) if part[at] == "[" else -1
        if end > 0:
            inside = part[at + 1 : end].replace("\\", r"\\")
            inside = re.sub(r"^!", "^", inside).replace("[", r"\[")
            rule += f"(?!/)[{inside}]"
            at = end
        else:
            rule += {"*": "[^/]*", "?": "[^/]"}.get(part[at], re.escape(part[at]))
        at += 1
    return rule
