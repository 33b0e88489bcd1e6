"""Say of which source or package a failure speaks, and where that stands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from builder.errors import Finding, Place, SourceError


@contextmanager
def placed(name: str, place: Place | None) -> Iterator[None]:
    """Findings that have no place get this one, which is in a table of a lane or its lock."""
    try:
        yield
    except SourceError as error:
        error.findings = tuple(f if f.place else _at(f, name, place) for f in error.findings)
        raise


def _at(found: Finding, name: str, place: Place | None) -> Finding:
    what = found.what if found.what.startswith(name) else f"{name}: {found.what}"
    found = replace(found, what=what, place=place)
    return found.named(place.file.stem, str(place.key[1])) if place else found
