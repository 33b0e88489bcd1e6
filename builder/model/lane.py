"""A lane: what a person writes, `locks/<lane>.toml`.

Keys that are added later get a default, and a field at its default is not part of the
canonical form, so that the build ids of existing lanes stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from builder.model.ids import (
    AbsolutePath,
    ArchList,
    DebName,
    EnvName,
    ImageRef,
    LanePlatform,
    Name,
    ObjectId,
    Ref,
    RelPath,
    Repository,
    Sha256,
    Tag,
    Url,
)
from builder.model.schema import RawTable


@dataclass(frozen=True, slots=True)
class Track:
    """The ref that `imgbuild lock --update` follows; one of the two."""

    branch: Ref | None = None
    tag: Ref | None = None

    @property
    def ref(self) -> str | None:
        """The full ref name."""
        if self.branch is not None:
            return f"refs/heads/{self.branch}"
        return None if self.tag is None else f"refs/tags/{self.tag}"


@dataclass(frozen=True, slots=True)
class Pull:
    """A pull request that is merged (or picked) onto a source's commit."""

    pull: int
    head: ObjectId | None = None  # None: what refs/pull/N/head names when locked
    commits: tuple[ObjectId, ...] = ()  # to pick, in order; none: the head alone
    title: str = ""  # for people


@dataclass(frozen=True, slots=True)
class RuntimeCompile:
    """What a source compiles when it runs, in the image: each entry becomes gates."""

    packages: tuple[DebName, ...] = ()  # Debian's
    pkg_config: tuple[str, ...] = ()  # modules
    libraries: tuple[str, ...] = ()  # names behind -l
    headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """A git repository that the build takes code from.

    `tree`, `parts` and `result_tree` are what others published of it: locking proves them, a
    build does not depend on them (docs/decisions/0004-imported-locks.md).
    """

    url: Url
    mirrors: tuple[Url, ...] = ()
    track: Track = Track()
    commit: ObjectId | None = None  # None: the tip of `track` when locked
    unreachable: str = ""  # why `commit` need not be in the history of `track`
    tree: ObjectId | None = None  # of the commit, as published
    parts: Mapping[RelPath, ObjectId] = field(default_factory=dict)  # paths in that tree
    compose: tuple[Pull, ...] = ()  # in order, onto the commit
    compose_strategy: Literal["merge", "cherry-pick"] = "merge"
    result_tree: ObjectId | None = None  # as published; met after compose or after a patch
    patches: tuple[RelPath, ...] = ()  # patch sets below patches/, applied after compose
    submodules: Literal["all", "none"] | tuple[RelPath, ...] = "all"
    unfilled: Mapping[RelPath, str] = field(default_factory=dict)  # gitlink -> reason
    native: tuple[RelPath, ...] = ()  # what the compiler sees; staged as an archive of its own
    runtime_compile: tuple[RuntimeCompile, ...] = ()


@dataclass(frozen=True, slots=True)
class Dep:
    """A third-party source in the deps tarball, below `into`."""

    url: Url
    into: RelPath
    mirrors: tuple[Url, ...] = ()
    track: Track = Track()
    commit: ObjectId | None = None
    unreachable: str = ""  # as a source's
    submodules: Literal["all", "none"] | tuple[RelPath, ...] = "all"
    unfilled: Mapping[RelPath, str] = field(default_factory=dict)
    variable: EnvName | None = None  # of the environment, by which the build is told its folder


@dataclass(frozen=True, slots=True)
class DepSet:
    """What a source's CMake files would fetch: derived from its patched tree when locked."""

    from_: Name  # a source of this lane
    files: tuple[str, ...] = ("CMakeLists.txt", "cmake/external_projects/*.cmake")  # globs
    define: Mapping[str, str] = field(default_factory=dict)  # CMake variables taken as given
    into: RelPath | None = None  # a folder in the deps tarball that all of it lies below
    mirrors: Mapping[Name, tuple[Url, ...]] = field(default_factory=dict)
    unfilled: Mapping[RelPath, str] = field(default_factory=dict)  # dep/gitlink -> reason
    leave_out: Mapping[str, str] = field(default_factory=dict)  # dep, or CMake file -> reason


@dataclass(frozen=True, slots=True)
class Base:
    """What a stage builds FROM: an image reference, or a root file system tar."""

    ref: ImageRef | None = None
    rootfs: str | None = None  # a path, from the project's root
    made_by: str = ""  # the command that makes the tar, for messages


@dataclass(frozen=True, slots=True)
class Wheel:
    requirement: str  # one name and version range: "flashinfer-python==0.6.17"


@dataclass(frozen=True, slots=True)
class Deb:
    package: DebName


@dataclass(frozen=True, slots=True)
class Build:
    cuda_arch_list: ArchList  # TORCH_CUDA_ARCH_LIST
    python: str = ""  # of the image, "3.12"; wheels are chosen for it
    args: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Caches:
    """What compilers keep when they run on a node: `<root>/<cache fingerprint>/<folder>/`.

    No input of a build: the image says itself where its caches lie.
    """

    root: AbsolutePath  # on the node
    folders: tuple[Name, ...]  # that `imgbuild nodes cache` copies


@dataclass(frozen=True, slots=True)
class Imported:
    """A foreign lock that the lane was made from, kept byte for byte; no input of a build."""

    file: RelPath  # below locks/
    sha256: Sha256
    format: Name
    sources: tuple[Name, ...] = ()  # the tables it speaks of


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane. `gates` are tables here; steps/gates reads them, each kind its own."""

    schema: Literal[1]
    image: Name  # docker-images/<image>/
    repository: Repository
    platforms: tuple[LanePlatform, ...]
    build: Build
    sources: Mapping[Name, Source] = field(default_factory=dict)
    base: Mapping[Name, Base] = field(default_factory=dict)
    description: str = ""
    tags: tuple[Tag, ...] = ("local",)
    deps: Mapping[Name, Dep | DepSet] = field(default_factory=dict)
    python: Mapping[Name, Wheel] = field(default_factory=dict)
    debs: Mapping[Name, Deb] = field(default_factory=dict)
    env: Mapping[EnvName, str] = field(default_factory=dict)  # of the image's config
    caches: Caches | None = None  # of JIT compilers, on nodes
    gates: tuple[RawTable, ...] = ()
    imported: tuple[Imported, ...] = ()
    name: str = field(default="", metadata={"internal": True})  # from the file's name
    path: Path = field(default=Path(), metadata={"internal": True})

    @property
    def own_deps(self) -> Mapping[str, Dep]:
        """The deps that the lane declares itself."""
        return {name: dep for name, dep in self.deps.items() if isinstance(dep, Dep)}

    @property
    def dep_sets(self) -> Mapping[str, DepSet]:
        """The deps tables that stand for what is derived."""
        return {name: dep for name, dep in self.deps.items() if isinstance(dep, DepSet)}
