"""Reads what all gates want to see of an image's files, in one streamed pass.

Only the folders that the patterns begin with are read, none twice, one file at a time;
nothing is written. A file that several gates want is read once, by all of them together.

Symlinks. The fixed part of a pattern is followed: `lib/**/*.so` finds the same files whether
/lib is a folder or a link to usr/lib, and names them lib/…. The engine does that for a root
that it is asked for. When a wider pattern made the read start further up, a link on the way
is seen as it streams by, and what lies behind it is read in a second pass. Links that the
special part of a pattern would have to follow are not followed: their files have a name of
their own. Of a hardlink the stream holds the content once; it is read again if that name was
not wanted itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import IO, Any

from builder.engine_ports import Engine
from builder.model.values import ImageFile, ImageInfo
from builder.steps.gates.gate import CouldNotLook, Reading, Search, Seen, Start
from builder.steps.gates.glob import Glob, is_below, outermost

OPAQUE = ".wh..wh..opq"  # the whiteout that removes all that its folder held
_ROUNDS = 6
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class _Wish:
    number: int  # of the search
    search: Search


@dataclass(slots=True)
class _Pass:
    """What one pass has seen so far."""

    found: list[dict[str, Seen]]
    links: set[str] = field(default_factory=set)
    again: list[_Wish] = field(default_factory=list)


def read_files(
    searches: Sequence[Search], image: str, *, engine: Engine
) -> tuple[tuple[Seen, ...], ...]:
    """For each search what it found, sorted by path. Raises: CouldNotLook."""
    found: list[dict[str, Seen]] = [{} for _ in searches]
    wishes = [_Wish(i, search) for i, search in enumerate(searches)]
    for _ in range(_ROUNDS):
        if not wishes:
            return tuple(tuple(seen[path] for path in sorted(seen)) for seen in found)
        roots = outermost(wish.search.glob.root for wish in wishes)
        state = _Pass(found)
        with engine.read_tree(image, roots) as stream:
            for file, content in stream:
                _entry(file, content, wishes, state)
        behind = [w for w in wishes if _is_behind_link(w.search.glob.root, roots, state.links)]
        wishes = behind + state.again
    raise CouldNotLook("the links in the image lead round in circles")


def read_layers(
    searches: Sequence[Search], image: str, *, above: int, engine: Engine
) -> tuple[tuple[Seen, ...], ...]:
    """For each search what the layers from number `above` on hold, in their order; of what a
    layer removes, the file `.wh.NAME` if NAME matches. Links are not followed."""
    found: list[list[Seen]] = [[] for _ in searches]
    first: dict[tuple[int, int, str], Any] = {}  # values that hardlinks share
    with engine.read_layers(image, above=above) as stream:
        for layer, file, content in stream:
            path = removed(file.path) or file.path
            at = [i for i, search in enumerate(searches) if search.glob.matches(path)]
            at = [i for i in at if file.kind != "link" or searches[i].links]
            readings = [searches[i].start(file) for i in at] if content is not None else []
            if content is not None:
                _feed(content, readings)
            for i, reading in zip_longest(at, readings):
                value = reading.result() if reading else first.get((i, layer, file.target))
                first[i, layer, file.path] = value
                found[i].append(Seen(file, value, layer))
    return tuple(tuple(sorted(seen, key=lambda one: one.layer)) for seen in found)


def removed(path: str) -> str:
    """What a whiteout of this name removes; "" for what is none."""
    folder, _, name = path.rpartition("/")
    if not name.startswith(".wh."):
        return ""
    return "/".join(filter(None, (folder, "*" if name == OPAQUE else name[4:])))


@dataclass(frozen=True, slots=True)
class EngineBase:
    """A base that the engine has; implements gate.BaseImage."""

    image: str
    config: ImageInfo
    engine: Engine

    def at(self, paths: Sequence[str], start: Start) -> Mapping[str, Seen]:
        found = {}
        with self.engine.read_tree(self.image, sorted(paths), deep=False) as stream:
            for file, content in stream:
                value = None
                if content is not None:
                    reading = start(file)
                    _feed(content, [reading])
                    value = reading.result()
                found[file.path] = Seen(file, value)
        return found


def _entry(
    file: ImageFile, content: IO[bytes] | None, wishes: Sequence[_Wish], state: _Pass
) -> None:
    takers = [wish for wish in wishes if wish.search.glob.matches(file.path)]
    if file.kind == "link":
        state.links.add(file.path)
        takers = [wish for wish in takers if wish.search.links]
    if file.kind == "hardlink":
        for wish in takers:
            _same_content(file, wish, state)
    elif content is not None:
        readings = [wish.search.start(file) for wish in takers]
        _feed(content, readings)
        for wish, reading in zip(takers, readings, strict=True):
            state.found[wish.number][file.path] = Seen(file, reading.result())
    else:
        for wish in takers:
            state.found[wish.number][file.path] = Seen(file, None)


def _same_content(file: ImageFile, wish: _Wish, state: _Pass) -> None:
    first = state.found[wish.number].get(file.target)
    if first is not None:
        seen = replace(first, file=replace(first.file, path=file.path))
        state.found[wish.number][file.path] = seen
    else:
        alone = replace(wish.search, glob=Glob(file.path, exact=True))
        state.again.append(_Wish(wish.number, alone))


def _feed(content: IO[bytes], readings: Sequence[Reading]) -> None:
    hungry = list(readings)
    while hungry and (chunk := content.read(_CHUNK)):
        hungry = [reading for reading in hungry if reading.feed(chunk)]


def _is_behind_link(root: str, roots: Sequence[str], links: set[str]) -> bool:
    """Whether the pass came to a link on the way to a root that it did not begin at."""
    return root not in roots and any(is_below(root, link) for link in links)
