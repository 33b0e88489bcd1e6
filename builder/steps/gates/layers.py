"""`layers`: an extension lane changes only what it declares, against the image it builds on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from builder.model.ids import Name
from builder.model.values import ImageFile, Verdict
from builder.steps.gates.gate import Evidence, Fault, Gate, Search, Seen
from builder.steps.gates.glob import Glob, ImageGlob

_OURS = ("opt/imgbuild", "opt/imgbuild/**")  # the lock that imgbuild puts in
_SHOWN = 20

Change = Literal["added", "changed", "removed"]


@dataclass(frozen=True, slots=True)
class Layers(Gate):
    """`base` is one of the lane's; `allow` holds what may differ, `files` where to look."""

    kind: ClassVar[str] = "layers"
    base: Name
    allow: tuple[ImageGlob, ...]
    files: tuple[ImageGlob, ...] = ("**",)

    @property
    def about(self) -> str:
        return f"against base {self.base}"

    def faults(self) -> Iterator[Fault]:
        if not self.files:
            yield Fault("files", "must name at least one pattern")

    def searches(self) -> tuple[Search, ...]:
        globs = [Glob(text) for text in self.files]
        here = [Search(glob, DigestReading, links=True) for glob in globs]
        there = [Search(glob, DigestReading, links=True, base=self.base) for glob in globs]
        return (*here, *there)

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        half = len(self.files)
        now, before = _entries(evidence.files[:half]), _entries(evidence.files[half:])
        changes = dict(_compared(before, now))
        unwanted = {path: change for path, change in changes.items() if not self._allowed(path)}
        if not unwanted:
            return (
                self.passed(f"{len(changes)} of {len(now)} paths differ, all of them declared"),
            )
        lines = [f"{change}: {path}" for path, change in sorted(unwanted.items())]
        more = [f"… and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        return (
            self.failed(
                f"{len(unwanted)} paths differ that are not declared, such as {lines[0]}",
                "leave them as they are, or name them in `allow`",
                detail="\n".join([*lines[:_SHOWN], *more]),
            ),
        )

    def _allowed(self, path: str) -> bool:
        return any(Glob(text).matches(path) for text in (*self.allow, *_OURS))


def _entries(found: tuple[tuple[Seen, ...], ...]) -> Mapping[str, tuple[object, ...]]:
    return {
        seen.file.path: (seen.file.kind.replace("hardlink", "file"), seen.file.mode, *_what(seen))
        for search in found
        for seen in search
    }


def _what(seen: Seen) -> tuple[object, ...]:
    return (seen.file.target,) if seen.file.kind == "link" else (seen.value,)


def _compared(
    before: Mapping[str, tuple[object, ...]], now: Mapping[str, tuple[object, ...]]
) -> Iterator[tuple[str, Change]]:
    for path in sorted({*before, *now}):
        if path not in before:
            yield path, "added"
        elif path not in now:
            yield path, "removed"
        elif before[path] != now[path]:
            yield path, "changed"


@dataclass(slots=True)
class DigestReading:
    file: ImageFile
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)

    def feed(self, chunk: bytes) -> bool:
        self.digest.update(chunk)
        return True

    def result(self) -> str:
        return self.digest.hexdigest()
