"""The values between steps. A type is evidence: only its step makes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from builder.errors import Place
from builder.model.lock import PatchState
from builder.model.patch_sets import PatchOptions, TextEdit

STAGED_MTIME = 315532800
"""The mtime of every staged file, seconds: 1980-01-01, the earliest that zip files can hold.

Not the commit's time: an archive's bytes are the key of BuildKit's cache, and a commit that
changes no native file must not compile anything (docs/decisions/0002-staged-mtime.md).
"""


@dataclass(frozen=True, slots=True)
class GitPin:
    """One commit to fetch, with all places where it may be had."""

    name: str  # "kern", or "kern/third_party/common" for a submodule
    urls: tuple[str, ...]  # the lane's url first, then mirrors
    commit: str
    ref: str | None = None  # the declared ref, for servers that refuse bare commit ids
    place: Place | None = field(default=None, compare=False)  # its table, for messages

    @property
    def entry(self) -> str:
        """What `imgbuild lock --update` calls it."""
        return str(self.place.key[1]) if self.place else self.name.partition("/")[0]

    @property
    def is_submodule(self) -> bool:
        inside = self.name.partition("/")[2]
        return bool(inside) and not inside.startswith("pull/") and inside != "merge base"


@dataclass(frozen=True, slots=True)
class FetchedPin:
    pin: GitPin
    url: str | None  # where it came from; None when the store had it
    size: int = 0  # bytes added to the store


@dataclass(frozen=True, slots=True)
class CommitInfo:
    commit: str
    tree: str
    time: int  # committer time, seconds
    author: str
    subject: str
    parents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One entry of a tree read recursively; `mode` is git's six octal digits."""

    mode: str  # 100644, 100755, 120000, 160000 (gitlink)
    object: str
    path: str
    size: int = 0  # bytes; 0 for a gitlink


@dataclass(frozen=True, slots=True)
class PatchFile:
    path: str  # from the project's root
    sha256: str
    data: bytes
    strip: int = 1  # -p
    options: PatchOptions = field(default_factory=PatchOptions)
    edits: tuple[TextEdit, ...] = ()  # it is no diff, but these


@dataclass(frozen=True, slots=True)
class PatchResult:
    patch: PatchFile
    state: PatchState
    tree: str  # after it


@dataclass(frozen=True, slots=True)
class SourceTree:
    """A tree in the store and the commits that fill its gitlinks, by path."""

    name: str
    tree: str
    submodules: Mapping[str, str] = field(default_factory=dict)  # path -> tree id


@dataclass(frozen=True, slots=True)
class VerifiedSource:
    """Its commit is in the store and holds the locked tree and content."""

    source: SourceTree


@dataclass(frozen=True, slots=True)
class PatchedSource:
    """A verified source after compose and patches; the result tree is the locked one."""

    source: SourceTree
    patches: tuple[PatchResult, ...]
    by_delta: tuple[int, ...] = ()  # pull requests that were not merged anew, see ComposedTree


@dataclass(frozen=True, slots=True)
class Archive:
    """A canonical tar in the file store."""

    sha256: str  # with "sha256:" before it
    size: int  # bytes
    path: Path
    new: bool  # it was written by this run


@dataclass(frozen=True, slots=True)
class StagedContext:
    """A build context on disk, complete and read-only by convention."""

    path: Path
    named: Mapping[str, Path]  # further contexts: "wheels", "debs"
    archives: tuple[Archive, ...]


@dataclass(frozen=True, slots=True)
class EngineInfo:
    version: str
    store: Literal["classic", "containerd"]
    platform: str  # linux/arm64
    free_bytes: int | None  # of the data root; None when it is not on this machine


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """One call of buildx, with everything explicit."""

    context: Path
    named: Mapping[str, Path]
    args: Mapping[str, str]
    labels: Mapping[str, str]
    tag: str
    platform: str
    log: Path  # the whole log is written here
    no_cache: bool = False
    dockerfile: Path | None = None  # whose lines the context's Dockerfile begins with
    notes: tuple[str, ...] = ()  # lines that the log begins with


@dataclass(frozen=True, slots=True)
class ScriptResult:
    returncode: int
    stdout: bytes
    stderr: bytes
    ended: str = ""  # why it was ended before its own end: "no end after 20 s"


UNNAMED = "image"
"""What the last stage of a Dockerfile is called where it has no name of its own."""


@dataclass(frozen=True, slots=True)
class BuildStep:
    """One vertex of the build as BuildKit reported it."""

    stage: str  # the Dockerfile's stage name, or ""
    name: str  # the instruction, one line
    seconds: float
    cached: bool


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """A candidate: built, not yet proven, known by its id and a temporary tag only."""

    id: str
    reference: str  # a tag of its own that keeps the engine from dropping it
    log: Path
    steps: tuple[BuildStep, ...]


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """What the engine says of an image."""

    id: str
    layers: tuple[str, ...]  # diff ids, in order
    labels: Mapping[str, str]
    tags: tuple[str, ...]
    env: Mapping[str, str]
    architecture: str
    size: int  # bytes
    created: str
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    user: str = ""  # as USER has it: a name or number, maybe with a group; "" is root
    workdir: str = ""
    more: Mapping[str, str] = field(default_factory=dict)  # what else is set: HEALTHCHECK, VOLUME


@dataclass(frozen=True, slots=True)
class ImageFile:
    """One entry of an image's file system, as the engine streams it."""

    path: str  # without a leading /
    kind: Literal["file", "folder", "link", "hardlink", "other"]
    mode: int  # permission bits
    size: int = 0  # bytes
    target: str = ""  # of a link: as it stands there; of a hardlink: a path streamed before
    owner: tuple[int, int] = (0, 0)  # uid and gid
    xattrs: tuple[tuple[str, str], ...] = ()  # sorted; capabilities are one


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one gate saw."""

    gate: str  # "link", or "load": a gate may give two verdicts
    about: str  # what it looked at: "cudart", "opt/demo/libkern.so"
    passed: bool
    seen: str  # one line
    hint: str = ""  # what to do, when it did not pass
    detail: str = ""  # output of the probe
    file: str = ""  # where the gate is declared, when it did not pass
    line: int | None = None


@dataclass(frozen=True, slots=True)
class PassedGates:
    """Every gate of a candidate holds; only `steps.gates.judge` makes it."""

    image: BuiltImage
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True)
class LabelledImage:
    id: str
    tags: tuple[str, ...]
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StageTime:
    name: str  # fetch, verify, …
    seconds: float
    said: str


Outcome = Literal["running", "killed", "interrupted", "built", "unchanged", "failed"]


@dataclass(frozen=True, slots=True)
class Record:
    """One run of a build, kept as JSON whatever its end was."""

    id: str  # sorts by time
    lane: str
    build_id: str
    outcome: Outcome
    started: str  # UTC, ISO 8601
    seconds: float
    stages: tuple[StageTime, ...]
    steps: tuple[BuildStep, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    image: str = ""
    tags: tuple[str, ...] = ()
    log: str = ""
    error: Mapping[str, Any] | None = None
