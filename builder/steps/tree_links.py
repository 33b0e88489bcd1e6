"""Follow the symlinks of a tree, each part of each target once: hostile trees hold thousands."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

_MAX_LINKS = 40  # that one path may pass, as in Linux
_CIRCLE = "runs in a circle"


@dataclass(eq=False, slots=True)
class _Folder:
    """A place in the tree; `inside` are folders and links below it, as far as links need them."""

    above: _Folder | None
    inside: dict[str, _Folder | str] = field(default_factory=dict)  # a link is its own path


_NOTHING: dict[str, _Folder | str] = {}  # what is known to be inside a folder without links


@dataclass(frozen=True, slots=True)
class _End:
    """Where a link leads, and how many further links it passes; or what is wrong with it."""

    place: _Folder
    passed: int = 0
    wrong: str = ""


_Walk: TypeAlias = Generator[str, _End, _End]
"""Asks for the ends of the links that it meets."""


def links_wrong(links: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The links (path -> target) that are absolute, leave the tree or run in a circle."""
    root = _Folder(None)
    above = {path: _add(root, path) for path in links}
    ends: dict[str, _End] = {}
    for path in links:
        if wrong := _end(path, links, above, ends).wrong:
            yield path, wrong


def _add(root: _Folder, path: str) -> _Folder:
    """The folder of a link, which is then known to hold it."""
    *parts, name = path.split("/")
    at = root
    for part in parts:
        below = at.inside.get(part)
        if not isinstance(below, _Folder):
            below = at.inside[part] = _Folder(at)
        at = below
    at.inside[name] = path
    return at


def _end(
    first: str, links: Mapping[str, str], above: Mapping[str, _Folder], ends: dict[str, _End]
) -> _End:
    """The end of a link; those that it passes are kept too, so that none is walked again."""
    if first in ends:
        return ends[first]
    walks = {first: _walk(links[first], above[first])}  # in the order that they wait
    found: _End | None = None
    while walks:
        path, walk = next(reversed(walks.items()))
        try:
            wanted = walk.send(found) if found else next(walk)
        except StopIteration as end:
            found = ends[path] = end.value
            del walks[path]
            continue
        found = ends.get(wanted)
        if found is None and wanted in walks:
            found = _End(above[wanted], wrong=_CIRCLE)
        elif found is None:
            walks[wanted] = _walk(links[wanted], above[wanted])
    return ends[first]


def _walk(target: str, at: _Folder) -> _Walk:
    if target.startswith("/"):
        return _End(at, wrong="is absolute")
    passed = 0
    for part in target.split("/"):
        if part in ("", "."):
            continue
        if part == "..":
            if at.above is None:
                return _End(at, wrong="leaves the tree")
            at = at.above
            continue
        below = at.inside.get(part)
        if not isinstance(below, str):
            at = below or _Folder(at, _NOTHING)
            continue
        end = yield below
        passed += 1 + end.passed
        if end.wrong or passed > _MAX_LINKS:
            return _End(at, wrong=end.wrong or _CIRCLE)
        at = end.place
    return _End(at, passed)
