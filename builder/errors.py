"""What can go wrong, as facts with a place and a cure.

One root, one exit code a family. An error holds one finding or many: whatever can be
found together is reported together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal, Self, TypeVar

K = TypeVar("K")
V = TypeVar("V")
_UNKNOWN = re.compile(r"\b(?:LANE|NAME)\b")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a finding lies: a file, and in it a line (1-based) or a TOML key path.

    A key path is turned into its line when the finding is shown.
    """

    file: Path
    line: int | None = None
    key: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was seen, and what to type next."""

    code: str  # stable, kebab-case: "tree-mismatch"
    what: str
    hint: str = ""
    detail: str = ""  # several lines, shown indented
    place: Place | None = None
    level: Literal["error", "warning"] = "error"

    def named(self, lane: str, name: str = "NAME") -> Finding:
        """With what the hint's writer could not know in place of the words LANE and NAME."""
        real = {"LANE": lane, "NAME": name}
        return replace(self, hint=_UNKNOWN.sub(lambda word: real[word[0]], self.hint))


class ImgbuildError(Exception):
    """The root of all errors that a user is shown."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 70
    findings: tuple[Finding, ...]

    def __init__(
        self, what: str, *, hint: str = "", detail: str = "", place: Place | None = None
    ) -> None:
        super().__init__(what)
        self.findings = (Finding(self.code, what, hint, detail, place),)

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> Self:
        """One error for many findings; there must be at least one."""
        found = tuple(findings)
        error = cls.__new__(cls)  # a family's members have constructors of their own
        Exception.__init__(error, found[0].what)
        error.findings = found
        return error


def each(keys: Iterable[K], make: Callable[[K], V]) -> dict[K, V]:
    """What `make` makes of each key. Where it fails for some, the others are tried as well: one
    error of the first's family holds all findings."""
    made: dict[K, V] = {}
    errors: list[ImgbuildError] = []
    for key in keys:
        try:
            made[key] = make(key)
        except ImgbuildError as error:
            errors.append(error)
    together(errors)
    return made


def together(errors: Sequence[ImgbuildError]) -> None:
    """Raise many errors as one, of the first's family, with every finding once."""
    if errors:
        found = dict.fromkeys(finding for error in errors for finding in error.findings)
        raise type(errors[0]).of(found)


class UsageError(ImgbuildError):
    code, exit_code = "usage", 2


class LaneError(ImgbuildError):
    """The lane, the lock or another file of the project is not as it must be."""

    code, exit_code = "lane", 3


class SourceError(ImgbuildError):
    """A source cannot be had, or is not what the lock says."""

    code, exit_code = "source", 4


class PatchError(ImgbuildError):
    code, exit_code = "patch", 5


class BuildError(ImgbuildError):
    code, exit_code = "build", 6


class GateError(ImgbuildError):
    code, exit_code = "gate", 7


class DistributionError(ImgbuildError):
    code, exit_code = "distribution", 8


class ToolFailed(ImgbuildError):
    """A program answered with an error that is not one of the families above."""

    code, exit_code = "tool-failed", 9


class ToolMissing(ImgbuildError):
    code, exit_code = "tool-missing", 10
