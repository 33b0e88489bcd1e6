"""`integration.lock.json`: a composition of pull requests, resolved (FORMATS 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from builder.importers import moving, pulls, shape
from builder.importers.kind import JsonKind
from builder.importers.naming import branch, source_name
from builder.importers.shape import Node, Reader
from builder.importers.words import EMPTY_PATCH, Branch, Hex64, Oid, Path, Text, Url
from builder.model.foreign import Claims, Document, SourceClaim
from builder.model.lane import Pull, Source, Track

_DISPOSITIONS: Mapping[str, tuple[str, ...]] = {
    "merge": ("merged", "already_in_base"),
    "cherry_pick": ("cherry_picked", "already_in_base"),
    "pinned_branch": ("recorded_in_composition", "already_in_base"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestPin(Node):
    sha256: Hex64
    path: str | None = None  # on the machine that made the lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Base(Node):
    repository: Url
    ref: Branch
    commit: Oid


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition(Node):
    ref: Branch
    commit: Oid


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest(Node):
    number: int
    head: Oid
    disposition: Literal["merged", "cherry_picked", "already_in_base", "recorded_in_composition"]
    ref: str | None = None
    commits: tuple[Oid, ...] = ()
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Node):
    tree: Oid
    patch: Path
    patch_sha256: Hex64


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegrationLock(Node, Document):
    schema_version: Literal[1]
    name: Text
    manifest: ManifestPin
    base: Base
    pull_requests: tuple[PullRequest, ...]
    result: Result
    composition_strategy: Literal["merge", "cherry_pick", "pinned_branch"] = "merge"
    composition: Composition | None = field(default=None, metadata=shape.NULL)
    source_patches: tuple[pulls.SourcePatch, ...] = ()
    generated_at: str | None = None

    @property
    def changes_nothing(self) -> bool:
        """The patch from the base to the result is empty: the base holds the result's tree."""
        return self.result.patch_sha256 == EMPTY_PATCH

    def claims(self) -> Claims:
        url = self.base.repository
        said = {"url": "base.repository", "result-tree": "result.tree"}
        compose: tuple[Pull, ...]
        if self.composition is not None:
            at, ref = self.composition.commit, self.composition.ref
            said |= {"commit": "composition.commit", "track": "composition.ref"}
            compose, strategy = (), pulls.STRATEGIES["merge"]
        else:
            at, ref = self.base.commit, self.base.ref
            said |= {"commit": "base.commit", "track": "base.ref", "compose": "pull_requests"}
            compose = pulls.lane_pulls(self.pull_requests)
            strategy = pulls.STRATEGIES[self.composition_strategy]
        tree = self.result.tree if self.changes_nothing and self.composition is None else None
        if tree is not None:
            said["tree"] = "result.tree, since result.patch is empty"
        table = Source(
            url, track=Track(branch(ref)), commit=at, tree=tree, compose=compose,
            compose_strategy=strategy, result_tree=self.result.tree,
        )  # fmt: skip
        name = source_name(url)
        claim = SourceClaim(name, table, said, pulls.lane_patches(self.source_patches))
        kept = ["name", "manifest", "pull_requests[].disposition", "result.patch"]
        kept += ["generated_at"] * (self.generated_at is not None)
        return Claims(
            (claim,), description=(self.name, "name"), information=(*kept, *self.unknown())
        )

    def render(self) -> str:
        return shape.render(self)

    def moved(self, sources: Mapping[str, Source]) -> tuple[Document, tuple[str, ...]]:
        return self, moving.same(self.claims(), sources, "manifest.sha256 and result.patch_sha256")


def read(reader: Reader) -> IntegrationLock:
    """Raises: ImportInvalid with every finding."""
    lock = reader.document(IntegrationLock)
    pulls.check(reader, lock.pull_requests, lock.composition_strategy, "pull_requests")
    pulls.check_patches(reader, lock.source_patches)
    if lock.composition_strategy == "pinned_branch" and lock.composition is None:
        reader.report(("composition",), 'is missing: "pinned_branch" names its branch and commit')
    if lock.composition_strategy != "pinned_branch" and lock.composition is not None:
        reader.report(("composition",), f"must be null under {lock.composition_strategy!r}")
    allowed = _DISPOSITIONS[lock.composition_strategy]
    for i, pull in enumerate(lock.pull_requests):
        if pull.disposition not in allowed:
            said = f"is {pull.disposition!r}, but the strategy is {lock.composition_strategy!r}"
            reader.report(("pull_requests", i, "disposition"), said)
        if pull.head == lock.base.commit and pull.disposition != "already_in_base":
            reader.report(("pull_requests", i, "disposition"), "the head is the base commit itself")
    _check_result(reader, lock)
    reader.settle()
    return lock


def _check_result(reader: Reader, lock: IntegrationLock) -> None:
    untouched = all(p.disposition == "already_in_base" for p in lock.pull_requests)
    untouched = untouched and not lock.source_patches and lock.composition is None
    if untouched and not lock.changes_nothing:
        what = "nothing was composed, so the patch must be empty (sha256 e3b0c442…)"
        reader.report(("result", "patch_sha256"), what)
    if lock.result.tree == lock.base.commit:
        reader.report(("result", "tree"), "is the base commit's id, which is no tree")


KIND = JsonKind(
    "a composition of pull requests, resolved (integration.lock.json)",
    frozenset({"base", "result", "manifest", "pull_requests"}),
    read,
)
