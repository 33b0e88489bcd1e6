"""Show an error: every finding with its place and what to type next."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from builder.cli.text import clean, one_line
from builder.errors import Finding, Place
from builder.model.counts import plural
from builder.model.locate import line_of
from builder.model.schema import dotted

if TYPE_CHECKING:
    from builder.model.caches import CacheOutcome
    from builder.model.distribution import Outcome

_SHOWN = 40


def lines(findings: Iterable[Finding]) -> Iterator[str]:
    """The lines of a report.

    error[tree-mismatch]: kern: the commit holds tree 91c0…, the lock says 77ab…
      --> locks/demo.lock:14
      hint: bring back the one that imgbuild wrote: git checkout -- locks/demo.lock
    """
    every = list(findings)
    for found in every[:_SHOWN]:
        yield f"{found.level}[{found.code}]: {one_line(found.what)}"
        if found.place is not None:
            yield f"  --> {where(found.place)}"
        for line in found.detail.splitlines():
            yield f"  | {clean(line)}"
        if found.hint:
            first, *rest = found.hint.splitlines()
            yield f"  hint: {clean(first)}"
            yield from (f"        {clean(line)}" for line in rest)
    if len(every) > _SHOWN:
        yield f"… and {plural(len(every) - _SHOWN, 'more finding')}; --json shows all"


def where(place: Place) -> str:
    """`locks/demo.lock:14`, relative to the working folder where that is shorter."""
    line = line_at(place)
    path = clean(_near(place.file))
    return path if line is None else f"{path}:{line}"


def line_at(place: Place) -> int | None:
    """The line of a place; its key is looked up in the file."""
    if place.line is not None or not place.key:
        return place.line
    try:
        return line_of(place.file.read_text(encoding="utf-8"), place.key)
    except (OSError, UnicodeDecodeError):
        return None


def failure_json(code: int, found: Iterable[Finding]) -> Mapping[str, Any]:
    """The report of a command that ended with an error."""
    return {"ok": False, "exit": code, "findings": [finding_json(one) for one in found]}


def finding_json(found: Finding) -> Mapping[str, Any]:
    place = found.place
    return {
        "code": found.code,
        "level": found.level,
        "what": found.what,
        "hint": found.hint,
        "detail": found.detail,
        "file": _near(place.file) if place else None,
        "line": line_at(place) if place else None,
        "key": dotted(place.key) if place and place.key else None,
    }


def outcome_json(outcome: Outcome | CacheOutcome) -> dict[str, Any]:
    """How something ended on a node, with its reason as in every other report."""
    return {**asdict(outcome), "finding": outcome.finding and finding_json(outcome.finding)}


def annotation(found: Finding) -> str:
    """A GitHub workflow command that puts the finding on its line."""
    place = found.place
    line = line_at(place) if place else None
    parts = [f"file={_escaped(_in_workspace(place.file), property_=True)}"] if place else []
    parts += [f"line={line}"] if line else []
    parts += [f"title={_escaped(found.code, property_=True)}"]
    text = clean(f"{found.what}\n{found.hint}" if found.hint else found.what)
    return f"::{found.level} {','.join(parts)}::{_escaped(text)}"


def _escaped(text: str, *, property_: bool = False) -> str:
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if property_ else text


def _near(path: Path) -> str:
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("../..") else relative


def _in_workspace(path: Path) -> str:
    """A path as GitHub asks for it: from the root of what was checked out."""
    named = os.environ.get("GITHUB_WORKSPACE")
    top = Path(named).resolve() if named else None
    return str(path.relative_to(top)) if top and path.is_relative_to(top) else _near(path)
