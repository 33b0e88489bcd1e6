"""`file`: a path of the image that must be there, or must not, with what it must be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from builder.model.counts import plural
from builder.model.ids import Sha256
from builder.model.schema import Check
from builder.model.values import Verdict
from builder.steps.gates.gate import Evidence, Fault, Gate, Search, Seen
from builder.steps.gates.glob import Glob, ImagePath
from builder.steps.gates.reading import Texts

Mode = Annotated[
    str,
    Check(
        lambda text: 3 <= len(text) <= 4 and not text.strip("01234567"),
        'permissions in octal digits, such as "755"',
    ),
]

_MADE = frozenset((
    ".dockerenv", "dev", "dev/console", "dev/pts", "dev/shm", "etc", "etc/hostname", "etc/hosts",
    "etc/mtab", "etc/resolv.conf", "proc", "sys",
))  # fmt: skip
"""What the engine puts into each container where the image does not have it."""


@dataclass(frozen=True, slots=True)
class File(Gate):
    """Symlinks are followed; one that leads nowhere counts as absent."""

    kind: ClassVar[str] = "file"
    path: ImagePath
    sha256: Sha256 | None = None
    mode: Mode | None = None
    absent: bool = False
    contains: str | tuple[str, ...] = ()

    @property
    def about(self) -> str:
        return self.path

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.contains,) if isinstance(self.contains, str) else self.contains

    def faults(self) -> Iterator[Fault]:
        if self.absent and (self.sha256 or self.mode or self.texts):
            yield Fault("absent", "leaves nothing for sha256, mode or contains to hold")
        if self.path.strip("/") in _MADE and not (self.sha256 or self.texts):
            yield Fault(
                "path",
                "is there in each container, whether the image has it or not: the engine makes it",
                "name sha256 or contains, if its content is meant; else leave the gate out",
            )

    def searches(self) -> tuple[Search, ...]:
        return (Search(Glob(self.path, exact=True), Texts(self.texts)),)

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        if not evidence.files[0]:
            if self.absent:
                return (self.passed("is not there"),)
            return (self.failed("no such file in the image", "which stage makes it, and COPY?"),)
        seen = evidence.files[0][0]
        if self.absent:
            hint = "remove it in the layer that makes it: a later RUN rm leaves it in the image"
            return (self.failed(f"is there: {_described(seen)}", hint),)
        wrong = tuple(self._wrong(seen))
        return wrong or (self.passed(_described(seen)),)

    def _wrong(self, seen: Seen) -> Iterator[Verdict]:
        mode = f"{seen.file.mode:o}"
        if self.mode is not None and int(self.mode, 8) != seen.file.mode:
            hint = f"chmod {self.mode} in the stage that makes it, or COPY --chmod={self.mode}"
            yield self.failed(f"its mode is {mode}, not {self.mode}", hint)
        if seen.value is None and (self.sha256 or self.texts):
            yield self.failed("is no regular file", "sha256 and contains are for files only")
            return
        if self.sha256 is not None and f"sha256:{seen.value.sha256}" != self.sha256:
            hint = "if the new content is wanted, write this digest into the gate"
            yield self.failed(f"its content is sha256:{seen.value.sha256}", hint)
        missing = [t for t in self.texts if t not in seen.value.found] if self.texts else []
        if missing:
            words = ", ".join(map(repr, missing))
            yield self.failed(f"does not hold {words}", "was another version of it copied?")


def _described(seen: Seen) -> str:
    what = "a folder" if seen.file.kind == "folder" else plural(seen.file.size, "byte")
    return f"{what}, mode {seen.file.mode:o}"
