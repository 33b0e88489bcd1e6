"""What JIT compilers keep, as it is copied between nodes: its key, its files, what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from builder.errors import Finding


@dataclass(frozen=True, slots=True)
class CacheFile:
    mode: int  # as in stat: type and permissions
    size: int  # bytes; 0 for what is no file
    digest: str  # sha256 of a file, `>target` of a link, "" of a folder


Manifest = Mapping[str, CacheFile]
"""By path below the folder of a fingerprint."""


@dataclass(frozen=True, slots=True)
class CacheKey:
    """What must agree, or kernels of one machine are of no use on another."""

    fingerprint: str  # of the lock, 64 hex digits
    architecture: str  # amd64, arm64
    gpu: str  # compute capability, "12.1"; several joined by "+"; "" where no driver answers

    @property
    def machine(self) -> str:
        return (
            f"{self.architecture}, GPU {self.gpu}" if self.gpu else f"{self.architecture}, no GPU"
        )


@dataclass(frozen=True, slots=True)
class Unit:
    """A cache in a folder of this host."""

    folder: str
    key: CacheKey
    lane: str
    node: str  # that it was taken from
    manifest: Manifest

    @property
    def size(self) -> int:
        return sum(one.size for one in self.manifest.values())


@dataclass(frozen=True, slots=True)
class CacheFacts:
    """What a machine said of itself and of its caches."""

    architecture: str
    gpu: str
    tools: frozenset[str]
    home: str
    root: str  # resolved; "" when it is not there
    free: int | None  # bytes
    keys: tuple[str, ...]  # the fingerprints, 12 digits, that it has caches of
    folders: tuple[str, ...]  # that are there, of those that were asked for
    links: tuple[str, ...]  # symbolic links where folders belong


@dataclass(frozen=True, slots=True)
class CacheOutcome:
    """How it ended on one machine."""

    node: str
    state: Literal["copied", "present", "failed"]
    seconds: float = 0
    sent: int = 0  # bytes
    files: int = 0
    finding: Finding | None = None
