"""What holds for the pull requests and patches of every composition format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from builder.importers.shape import Node, Reader
from builder.importers.words import Hex64, Path
from builder.model.foreign import ForeignPatch
from builder.model.lane import Pull
from builder.model.schema import KeyPath


class Composed(Protocol):
    """A pull request of a manifest or of an integration lock."""

    @property
    def number(self) -> int: ...
    @property
    def head(self) -> str: ...
    @property
    def ref(self) -> str | None: ...
    @property
    def commits(self) -> tuple[str, ...]: ...
    @property
    def title(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePatch(Node):
    """A patch on top of the pull requests; `path` is relative to the manifest."""

    path: Path
    sha256: Hex64
    title: str = ""


def check(read: Reader, pulls: Sequence[Composed], strategy: str, key: str) -> None:
    """Each pull request by itself and among the others."""
    unique(read, [p.number for p in pulls], (key,), "number", "pull request {} is named twice")
    unique(read, [p.head for p in pulls], (key,), "head", "the head {:.12} is named twice")
    for i, pull in enumerate(pulls):
        at: KeyPath = (key, i)
        if pull.number < 1:
            read.report((*at, "number"), f"must be greater than 0, not {pull.number}")
        wanted = f"refs/pull/{pull.number}/head"
        if pull.ref is not None and pull.ref != wanted:
            read.report((*at, "ref"), f"must be {wanted}, not {pull.ref!r}")
        if strategy == "merge" and pull.commits and pull.commits != (pull.head,):
            what = "must be [head] where pull requests are merged"
            read.report((*at, "commits"), what, 'or is composition_strategy "cherry_pick"?')
        if len(set(pull.commits)) < len(pull.commits):
            read.report((*at, "commits"), "names a commit twice")


def check_patches(read: Reader, patches: Sequence[SourcePatch]) -> None:
    paths = [p.path for p in patches]
    unique(read, paths, ("source_patches",), "path", "{} is named twice")


def unique(read: Reader, values: Iterable[object], at: KeyPath, key: str, what: str) -> None:
    """Report every value that was there before."""
    first: dict[object, int] = {}
    for i, value in enumerate(values):
        if value in first:
            said = what.format(value)
            read.report((*at, i, key), f"{said}: first in {at[-1]}[{first[value]}]")
        first.setdefault(value, i)


def lane_pulls(pulls: Sequence[Composed]) -> tuple[Pull, ...]:
    """As a lane writes them; commits that are the head alone are not said again."""
    return tuple(
        Pull(p.number, p.head, () if p.commits == (p.head,) else p.commits, p.title) for p in pulls
    )


def lane_patches(patches: Sequence[SourcePatch]) -> tuple[ForeignPatch, ...]:
    return tuple(
        ForeignPatch(p.path, f"sha256:{p.sha256}", f"source_patches[{i}]")
        for i, p in enumerate(patches)
    )


STRATEGIES: Mapping[str, Literal["merge", "cherry-pick"]] = {
    "merge": "merge",
    "cherry_pick": "cherry-pick",
}
"""composition_strategy of the formats -> compose-strategy of a lane."""
