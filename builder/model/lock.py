"""A lock: what `imgbuild lock` resolves from a lane, `locks/<lane>.lock`.

Every table carries `intent`, the digest of its table in the lane, so that a lane changed
after locking is seen. There is no global hash (it would make every two edits conflict) and
no time of writing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from builder.model.ids import EnvName, ImageRef, Name, ObjectId, Platform, Ref, RelPath, Sha256, Url

PatchState = Literal["applied", "already-there", "obsolete"]
Disposition = Literal["merged", "cherry-picked", "already-in-base"]


@dataclass(frozen=True, slots=True)
class LockedSubmodule:
    url: Url
    commit: ObjectId
    tree: ObjectId


@dataclass(frozen=True, slots=True)
class LockedCompose:
    """A pull request that was composed, in the lane's order, and the tree after it."""

    pull: int
    head: ObjectId
    disposition: Disposition
    result_tree: ObjectId
    merge_base: tuple[ObjectId, ...] = ()  # all of them; of what was picked: each one's parent
    commits: tuple[ObjectId, ...] = ()  # that were picked, in order
    with_history: bool = False  # several merge bases: three trees are not enough to merge again


@dataclass(frozen=True, slots=True)
class LockedPatch:
    path: RelPath  # from the project's root
    sha256: Sha256
    state: PatchState
    result_tree: ObjectId


@dataclass(frozen=True, slots=True)
class Final:
    """A source after compose and patches, with its submodules filled."""

    tree: ObjectId  # of the superproject
    content: Sha256  # of the canonical tar of everything
    native: Sha256 | None = None  # of the two archives, where the lane splits the source
    rest: Sha256 | None = None


@dataclass(frozen=True, slots=True)
class LockedSource:
    intent: Sha256
    url: Url
    commit: ObjectId
    tree: ObjectId
    content: Sha256  # of the canonical tar of `tree`: independent of git's hash
    time: int  # of the commit, seconds since the epoch
    final: Final
    compose: tuple[LockedCompose, ...] = ()
    delta: Sha256 | None = None  # the patch from `tree` to what was composed; see steps/delta
    reachable_from: Ref | None = None
    submodules: Mapping[RelPath, LockedSubmodule] = field(default_factory=dict)
    patches: tuple[LockedPatch, ...] = ()

    @property
    def composed_tree(self) -> str:
        """The tree that the patches are applied to."""
        return self.compose[-1].result_tree if self.compose else self.tree


@dataclass(frozen=True, slots=True)
class LockedDep:
    intent: Sha256
    url: Url
    into: RelPath
    commit: ObjectId
    tree: ObjectId
    content: Sha256
    time: int
    reachable_from: Ref | None = None
    submodules: Mapping[RelPath, LockedSubmodule] = field(default_factory=dict)
    from_: Name | None = None  # the deps table of the lane that it was derived by
    tag: str = ""  # what the CMake file names: a tag, a branch or the commit
    file: RelPath | None = None  # the CMake file
    variable: EnvName | None = None  # of the environment, by which the build is told its folder
    subfolder: RelPath | None = None  # what the variable points at, below `into`
    unfilled: Mapping[RelPath, str] = field(default_factory=dict)  # gitlink -> reason


@dataclass(frozen=True, slots=True)
class LockedBase:
    """A digest a platform: a manifest digest behind `ref`, or the sha256 of a rootfs tar."""

    intent: Sha256
    platforms: Mapping[Platform, Sha256]
    ref: ImageRef | None = None


@dataclass(frozen=True, slots=True)
class LockedFile:
    filename: RelPath
    sha256: Sha256
    size: int  # bytes


@dataclass(frozen=True, slots=True)
class LockedPackage:
    """A wheel or a Debian package; no host: the index is pip's or apt's own setting."""

    intent: Sha256
    name: str
    version: str
    platforms: Mapping[Platform, LockedFile]


@dataclass(frozen=True, slots=True)
class LockedImage:
    content: Sha256  # of the image folder


@dataclass(frozen=True, slots=True)
class LockedDepsArchive:
    content: Sha256  # of deps-src.tar.gz


@dataclass(frozen=True, slots=True)
class Lock:
    lock_version: Literal[1]
    image: LockedImage
    sources: Mapping[Name, LockedSource] = field(default_factory=dict)
    base: Mapping[Name, LockedBase] = field(default_factory=dict)
    deps: Mapping[Name, LockedDep] = field(default_factory=dict)
    deps_archive: LockedDepsArchive | None = None
    python: Mapping[Name, LockedPackage] = field(default_factory=dict)
    debs: Mapping[Name, LockedPackage] = field(default_factory=dict)
    path: Path = field(default=Path(), metadata={"internal": True})

    @property
    def epoch(self) -> int:
        """SOURCE_DATE_EPOCH of the image: the newest commit time, seconds; 1980 without any."""
        times = [s.time for s in self.sources.values()] + [d.time for d in self.deps.values()]
        return max(times, default=315532800)
