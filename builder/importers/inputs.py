"""sparkring's `inputs.json`: sources laid over an image (FORMATS 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from builder.importers import moving, shape
from builder.importers.kind import JsonKind
from builder.importers.naming import KNOWN_REPOSITORIES
from builder.importers.shape import Node, Reader
from builder.importers.words import Hex64, Image, Name, Oid, Prefixed, Text
from builder.model.foreign import Claims, Document, SourceClaim
from builder.model.lane import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Base(Node):
    reference: Image
    config_id: Prefixed


@dataclass(frozen=True, slots=True, kw_only=True)
class File(Node):
    path: Text  # relative to the manifest, or absolute
    sha256: Hex64


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned(Node):
    """A commit and the archives of its files and of those in the image."""

    commit: Oid
    upstream: Oid
    baseline_commit: Oid
    archive: File
    baseline_archive: File


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs(Node, Document):
    schema: Literal["sparkring-external-inputs/v1"]
    base: Base
    sources: Mapping[Name, Pinned]
    platform: Text | None = None

    def claims(self) -> Claims:
        """The format names no repository: a lane needs one from elsewhere."""
        sources = tuple(
            SourceClaim(
                name,
                Source(KNOWN_REPOSITORIES.get(name, ""), commit=pinned.commit),
                {"commit": f"sources.{name}.commit"},
            )
            for name, pinned in self.sources.items()
        )
        kept = ["base.config_id", *["platform"] * (self.platform is not None)]
        for name in self.sources:
            kept += [f"sources.{name}.{k}" for k in ("upstream", "baseline_commit", "archive")]
            kept.append(f"sources.{name}.baseline_archive")
        bases = {"runtime": (self.base.reference, "base.reference")}
        return Claims(sources, bases, information=(*kept, *self.unknown()))

    def render(self) -> str:
        return shape.render(self)

    def moved(self, sources: Mapping[str, Source]) -> tuple[Document, tuple[str, ...]]:
        return self, moving.same(self.claims(), sources, "the archives' sha256")


def read(reader: Reader) -> Inputs:
    """Raises: ImportInvalid with every finding."""
    inputs = reader.document(Inputs)
    if not inputs.sources:
        reader.report(("sources",), "names no source")
    for name, pinned in inputs.sources.items():
        at = ("sources", name)
        same_commit = pinned.commit == pinned.baseline_commit
        if same_commit and pinned.archive.sha256 != pinned.baseline_archive.sha256:
            what = "the baseline is the same commit with another archive"
            reader.report((*at, "baseline_archive"), what)
        if pinned.archive.path == pinned.baseline_archive.path and not same_commit:
            reader.report((*at, "baseline_archive"), "two commits lie in one archive")
    reader.settle()
    return inputs


KIND = JsonKind(
    "sources laid over an image (sparkring's inputs.json)",
    frozenset({"schema", "base", "sources"}),
    read,
)
