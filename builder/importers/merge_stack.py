"""`source.lock.json`: a branch that is a stack of merges onto an upstream commit (FORMATS 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from builder.importers import moving, pulls, shape
from builder.importers.kind import JsonKind
from builder.importers.naming import branch
from builder.importers.shape import Node, Reader
from builder.importers.words import Branch, Hex64, Image, Name, Oid, Text, Url
from builder.model.foreign import Claims, Document, SourceClaim
from builder.model.lane import Source, Track


@dataclass(frozen=True, slots=True, kw_only=True)
class Tip(Node):
    repository: Url
    ref: Branch
    commit: Oid
    tree: Oid


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamBase(Node):
    repository: Url
    ref: Branch
    commit: Oid


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedPull(Node):
    number: int
    head: Oid
    merge_commit: Oid
    ref: str | None = None  # published ones have none
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Included(Node):
    """A pull request that the upstream base already holds."""

    number: int
    merge_commit: Oid
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate(Node):
    head: Oid
    integration_commit: Oid | None = None
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeBase(Node):
    """An image whose compiled part is reused, and the commit that it was compiled from."""

    image: Image
    commit: Oid
    tree: Oid
    changed_paths_sha256: Hex64


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStack(Node, Document):
    schema_version: Literal[1]
    component: Name
    purpose: Text
    source: Tip
    upstream_base: UpstreamBase
    pull_requests: tuple[MergedPull, ...]
    source_patches: tuple[object, ...]
    native_artifact_base: NativeBase | None = None
    qualification_candidate_commits: tuple[Candidate, ...] = ()
    upstream_includes: tuple[Included, ...] = ()

    def claims(self) -> Claims:
        """The tip is what is built; the merges that made it stay in the kept file."""
        tip = self.source
        table = Source(
            tip.repository, track=Track(branch(tip.ref)), commit=tip.commit, tree=tip.tree
        )
        said = {k: f"source.{w}" for k, w in (("url", "repository"), ("track", "ref"))}
        said |= {"commit": "source.commit", "tree": "source.tree"}
        kept = ["component", "upstream_base", *["pull_requests"] * bool(self.pull_requests)]
        for key in (
            "native_artifact_base", "qualification_candidate_commits", "upstream_includes",
        ):  # fmt: skip
            kept += [key] * bool(getattr(self, key))
        return Claims(
            (SourceClaim(self.component, table, said),),
            description=(self.purpose, "purpose"),
            information=(*kept, *self.unknown()),
        )

    def render(self) -> str:
        return shape.render(self)

    def moved(self, sources: Mapping[str, Source]) -> tuple[Document, tuple[str, ...]]:
        return self, moving.same(self.claims(), sources, "the list of merges")


def read(reader: Reader) -> MergeStack:
    """Raises: ImportInvalid with every finding."""
    stack = reader.document(MergeStack)
    numbers = [p.number for p in stack.pull_requests]
    pulls.unique(reader, numbers, ("pull_requests",), "number", "pull request {} is named twice")
    for key in ("head", "merge_commit"):
        values = [getattr(p, key) for p in stack.pull_requests]
        pulls.unique(reader, values, ("pull_requests",), key, "{:.12} is named twice")
    for i, pull in enumerate(stack.pull_requests):
        if pull.number < 1:
            reader.report(("pull_requests", i, "number"), "must be greater than 0")
        if pull.ref not in (None, f"refs/pull/{pull.number}/head"):
            what = f"must be refs/pull/{pull.number}/head, not {pull.ref!r}"
            reader.report(("pull_requests", i, "ref"), what)
        if pull.merge_commit in (pull.head, stack.upstream_base.commit):
            what = "is no merge: it is the head, or the upstream base"
            reader.report(("pull_requests", i, "merge_commit"), what)
    included = [p.number for p in stack.upstream_includes]
    pulls.unique(
        reader, included, ("upstream_includes",), "number", "pull request {} is named twice"
    )
    if stack.source_patches:
        reader.report(("source_patches",), "must be []: this format knows none")
    _check_tip(reader, stack)
    reader.settle()
    return stack


def _check_tip(reader: Reader, stack: MergeStack) -> None:
    """The last head's merge is the tip; without heads the tip is the base."""
    tip, base = stack.source.commit, stack.upstream_base.commit
    candidates = stack.qualification_candidate_commits
    if not stack.pull_requests and not candidates:
        if tip != base:
            what = f"no pull request is merged, so it must be upstream_base.commit {base:.12}"
            reader.report(("source", "commit"), what)
        return
    if tip == base:
        reader.report(("source", "commit"), "is the upstream base, though there are merges")
    last = candidates[-1].integration_commit if candidates else stack.pull_requests[-1].merge_commit
    if last is not None and last != tip:
        what = f"must be the last merge, {last:.12}, not {tip:.12}"
        reader.report(("source", "commit"), what)
    native = stack.native_artifact_base
    if native is not None and (native.commit == tip) != (native.tree == stack.source.tree):
        what = "source and native_artifact_base disagree on the tree of one commit"
        if native.commit == tip:
            reader.report(("native_artifact_base", "tree"), what)


KIND = JsonKind(
    "a stack of merges on a branch (source.lock.json)",
    frozenset({"component", "source", "upstream_base"}),
    read,
)
