"""What an importer is, and how its warnings look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from builder.errors import Finding, Place
from builder.importers.shape import Node, Reader
from builder.importers.text import ImportInvalid, Json
from builder.model.foreign import Document


@dataclass(frozen=True, slots=True)
class JsonKind:
    """A format in JSON. `read` raises ImportInvalid through the reader's `settle`."""

    about: str
    marks: frozenset[str]  # top-level keys that tell it from the others
    read: Callable[[Reader], Document]


def unknown_keys(node: Node, file: Path, json: Json) -> tuple[Finding, ...]:
    """One warning for each key that the format does not name; it is kept."""
    return tuple(
        Finding(
            ImportInvalid.code,
            f"{key}: not a key of this format; it is kept, and nothing reads it",
            place=Place(file, _line(key, json)),
            level="warning",
        )
        for key in node.unknown()
    )


def _line(key: str, json: Json) -> int | None:
    from builder.model.schema import dotted

    return next((line for at, line in json.lines.items() if dotted(at) == key), None)
