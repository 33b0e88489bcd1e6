"""What a foreign lock says of a lane: the neutral form between importers and lanes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from builder.errors import Finding
from builder.model.lane import Source


@dataclass(frozen=True, slots=True)
class ForeignPatch:
    """A patch that a foreign lock names; its bytes are not in the lock."""

    path: str  # relative to the foreign file
    sha256: str  # with "sha256:" before it
    key: str  # where it stands in the foreign file


@dataclass(frozen=True, slots=True)
class SourceClaim:
    """One source as one file has it. `table.url` is "" when the file names no repository."""

    name: str
    table: Source
    said: Mapping[str, str] = field(default_factory=dict)  # lane key -> key of the file
    patches: tuple[ForeignPatch, ...] = ()


@dataclass(frozen=True, slots=True)
class Claims:
    """What one file says, and what of it a lane has no table for."""

    sources: tuple[SourceClaim, ...]
    bases: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # name -> (ref, its key)
    description: tuple[str, str] = ("", "")  # the text, its key
    information: tuple[str, ...] = ()  # keys that only the kept file holds


@dataclass(frozen=True, slots=True)
class Read:
    """A foreign file that was read: its document and what was noticed on the way."""

    file: Path
    format: str
    data: bytes
    document: Document
    warnings: tuple[Finding, ...] = ()
    label: str = ""  # the file's name, and its folder's where others are named alike


class Document:
    """A foreign lock as a typed value; each importer has its own."""

    __slots__ = ()

    def claims(self) -> Claims:
        """What the document says of a lane."""
        raise NotImplementedError

    def render(self) -> str:
        """The text that reads back as this document."""
        raise NotImplementedError

    def moved(self, sources: Mapping[str, Source]) -> tuple[Document, tuple[str, ...]]:
        """The document with what a lane says now, and notes on what was left out of it.

        `sources` holds the lane's tables that this document speaks of, at their locked
        commits. Raises: ExportImpossible when the format needs a value that no lane holds.
        """
        raise NotImplementedError
