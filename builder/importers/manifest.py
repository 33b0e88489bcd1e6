"""Composition manifests: which pull requests a composition wants (FORMATS 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from builder.importers import moving, pulls, shape
from builder.importers.kind import JsonKind
from builder.importers.naming import branch, source_name
from builder.importers.shape import Node, Reader
from builder.importers.words import Branch, Oid, Text, Url
from builder.model.foreign import Claims, Document, SourceClaim
from builder.model.lane import Pull, Source, Track


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest(Node):
    number: int
    head: Oid
    ref: str | None = None
    commits: tuple[Oid, ...] = ()
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion(Node):
    """A pull request that was looked at and left out; information for people."""

    number: int
    head: Oid
    disposition: Literal[
        "alternative", "experimental", "out_of_scope", "research-only", "superseded", "unsupported"
    ]
    reason: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(Node, Document):
    schema_version: Literal[1]
    name: Text
    repository: Url
    base_ref: Branch
    pull_requests: tuple[PullRequest, ...]
    composition_strategy: Literal["merge", "cherry_pick", "pinned_branch"] = "merge"
    composition_ref: Branch | None = None
    composition_commit: Oid | None = None
    source_patches: tuple[pulls.SourcePatch, ...] = ()
    reviewed_exclusions: tuple[Exclusion, ...] = ()

    def claims(self) -> Claims:
        said = {"url": "repository"}
        if self.composition_ref is not None:
            said |= {"commit": "composition_commit", "track": "composition_ref"}
            table = Source(
                self.repository,
                track=Track(branch(self.composition_ref)),
                commit=self.composition_commit,
            )
        else:
            said |= {"track": "base_ref", "compose": "pull_requests"}
            table = Source(
                self.repository,
                track=Track(branch(self.base_ref)),
                compose=pulls.lane_pulls(self.pull_requests),
                compose_strategy=pulls.STRATEGIES[self.composition_strategy],
            )
        name = source_name(self.repository)
        claim = SourceClaim(name, table, said, pulls.lane_patches(self.source_patches))
        kept = ("name", *["reviewed_exclusions"] * bool(self.reviewed_exclusions), *self.unknown())
        return Claims((claim,), description=(self.name, "name"), information=kept)

    def render(self) -> str:
        return shape.render(self)

    def moved(self, sources: Mapping[str, Source]) -> tuple[Document, tuple[str, ...]]:
        """A manifest is an intent: what the lane wants now can be said in full."""
        claim = self.claims().sources[0]
        table = sources.get(claim.name)
        if table is None:
            return self, ()
        if self.composition_ref is not None or table.patches:
            return self, moving.same(self.claims(), sources, "the composition")
        known = {pull.number: pull for pull in self.pull_requests}
        changed = replace(
            self,
            repository=table.url,
            base_ref=table.track.ref or self.base_ref,
            pull_requests=tuple(_moved(known.get(p.pull), p) for p in table.compose),
            composition_strategy=("merge" if table.compose_strategy == "merge" else "cherry_pick"),
        )
        return changed, ()


def _moved(known: PullRequest | None, pull: Pull) -> PullRequest:
    head = pull.head
    if head is None:
        raise moving.ExportImpossible(
            f"pull request {pull.pull} has no head in the lane, a manifest needs one",
            hint='add head = "…" to it in the lane',
        )
    if known is None:
        keys = ("number", "head", "title")
        return PullRequest(
            keys=keys, number=pull.pull, head=head, commits=pull.commits, title=pull.title
        )
    commits = pull.commits or ((head,) if known.commits else ())
    return replace(known, head=head, commits=commits, title=pull.title or known.title)


def read(reader: Reader) -> Manifest:
    """Raises: ImportInvalid with every finding."""
    manifest = reader.document(Manifest)
    strategy = manifest.composition_strategy
    pulls.check(reader, manifest.pull_requests, strategy, "pull_requests")
    pulls.check_patches(reader, manifest.source_patches)
    for key in ("composition_ref", "composition_commit"):
        there = getattr(manifest, key) is not None
        if strategy == "pinned_branch" and not there:
            reader.report((key,), 'is missing: "pinned_branch" needs it')
        if strategy != "pinned_branch" and there:
            reader.report((key,), f"has no meaning under {strategy!r}")
    _check_exclusions(reader, manifest)
    reader.settle()
    return manifest


def _check_exclusions(reader: Reader, manifest: Manifest) -> None:
    key = "reviewed_exclusions"
    excluded = [e.number for e in manifest.reviewed_exclusions]
    pulls.unique(reader, excluded, (key,), "number", "pull request {} is named twice")
    taken = {p.number for p in manifest.pull_requests}
    for i, number in enumerate(excluded):
        if number < 1:
            reader.report((key, i, "number"), f"must be greater than 0, not {number}")
        if number in taken:
            what = f"pull request {number} is left out here and taken in pull_requests"
            reader.report((key, i, "number"), what)


KIND = JsonKind(
    "a composition of pull requests, as wanted (a manifest)",
    frozenset({"repository", "base_ref", "pull_requests"}),
    read,
)
