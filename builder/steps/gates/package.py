"""`package`: a Debian package that must be installed, as the image's dpkg database says.

Read from the database's files: dpkg itself need not be in the image. Distroless images keep
a file for each package in status.d, without a Status field.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from builder.model.ids import DebName
from builder.model.values import Verdict
from builder.steps.gates.gate import CouldNotLook, Evidence, Fault, Gate, Search
from builder.steps.gates.glob import Glob
from builder.steps.gates.reading import Whole

_INSTALLED = "install ok installed"
_DATABASE = Glob("var/lib/dpkg/status")
_PARTS = Glob("var/lib/dpkg/status.d/*")
_LIMIT = 64 << 20  # bytes; Debian's largest are about 5 MB
_DEBIAN = {"386": "i386", "arm": "armhf", "ppc64le": "ppc64el"}  # names of architectures


class Paragraph(NamedTuple):
    name: str
    architecture: str  # "all", or "" where the database does not say
    status: str
    version: str


@dataclass(frozen=True, slots=True)
class Package(Gate):
    """`version` is the whole version, or its beginning and a `*`."""

    kind: ClassVar[str] = "package"
    wants: ClassVar[frozenset[Literal["config", "history"]]] = frozenset({"config"})
    name: DebName
    version: str = ""

    @property
    def about(self) -> str:
        return self.name

    def faults(self) -> Iterator[Fault]:
        if "*" in self.version[:-1] or self.version.startswith(tuple("=<>~!")):
            yield Fault("version", "must be a version, or the beginning of one and '*'")

    def searches(self) -> tuple[Search, ...]:
        return (Search(_DATABASE, Whole(_LIMIT)), Search(_PARTS, Whole(_LIMIT)))

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        whole, parts = ([s.value for s in seen if s.value] for seen in evidence.files)
        if not whole and not parts:
            raise CouldNotLook(
                "the image has no dpkg database",
                hint="/var/lib/dpkg/status is missing: is it a Debian or Ubuntu image?",
            )
        known = [
            paragraph
            for data in (*whole, *parts)
            for paragraph in packages(data.decode("utf-8", "replace"))
        ]
        return (self._verdict(known, evidence.config.architecture),)

    def _verdict(self, known: Sequence[Paragraph], machine: str) -> Verdict:
        native = ("", "all", _DEBIAN.get(machine, machine))
        named = [paragraph for paragraph in known if paragraph.name == self.name]
        own = [paragraph for paragraph in named if paragraph.architecture in native]
        installed = [paragraph for paragraph in own if paragraph.status == _INSTALLED]
        if not named:
            names = {paragraph.name for paragraph in known}
            near = difflib.get_close_matches(self.name, names, n=3, cutoff=0.7)
            there = f" (the image has {', '.join(near)})" if near else ""
            return self.failed(
                f"not installed{there}",
                f'lock it ([debs.{self.name}] package = "{self.name}" in the lane) and dpkg '
                "--install it in the Dockerfile's last stage, or in one that it copies from; what "
                "another stage installs is not in the image",
            )
        if not own:
            has = ", ".join(sorted({paragraph.architecture for paragraph in named}))
            hint = f"lock and install that for {native[-1]} in the last stage"
            return self.failed(f"is there for {has}, and the image is for {native[-1]}", hint)
        if not installed:
            hint = "dpkg --install it in the last stage, or look for an interrupted dpkg"
            return self.failed(f"its dpkg status is {own[-1].status!r}", hint)
        fitting = [p.version for p in installed if fits(p.version, self.version)]
        if not fitting:
            hint = "change the gate's version, or what the Dockerfile installs"
            return self.failed(f"has version {installed[-1].version}, not {self.version}", hint)
        return self.passed(fitting[-1])


def packages(database: str) -> Iterator[Paragraph]:
    """Each paragraph of a dpkg database; one package has one for each architecture."""
    for paragraph in database.split("\n\n"):
        fields: dict[str, str] = {}
        for line in paragraph.splitlines():
            key, colon, value = line.partition(":")
            if colon and not key[:1].isspace():
                fields[key.lower()] = value.strip()
        if "package" in fields:
            yield Paragraph(
                fields["package"], fields.get("architecture", ""),
                fields.get("status", _INSTALLED), fields.get("version", ""),
            )  # fmt: skip


def fits(version: str, wanted: str) -> bool:
    """Whether a version is the wanted one, or begins as it says."""
    if wanted.endswith("*"):
        return version.startswith(wanted[:-1])
    return wanted in ("", version)
