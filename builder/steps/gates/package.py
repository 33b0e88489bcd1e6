"""`package`: a Debian package that must be installed, as the image's dpkg database says.

Read from the database's files: dpkg itself need not be in the image. Distroless images keep
a file for each package in status.d, without a Status field.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from builder.model.ids import DebName
from builder.model.values import Verdict
from builder.steps.gates.gate import CouldNotLook, Evidence, Fault, Gate, Search
from builder.steps.gates.glob import Glob
from builder.steps.gates.reading import Whole

_INSTALLED = "install ok installed"
_DATABASE = Glob("var/lib/dpkg/status")
_PARTS = Glob("var/lib/dpkg/status.d/*")
_LIMIT = 64 << 20  # bytes; Debian's largest are about 5 MB


@dataclass(frozen=True, slots=True)
class Package(Gate):
    """`version` is the whole version, or its beginning and a `*`."""

    kind: ClassVar[str] = "package"
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
        known: dict[str, tuple[str, str]] = {}
        for data in (*whole, *parts):
            known.update(packages(data.decode("utf-8", "replace")))
        return (self._verdict(known),)

    def _verdict(self, known: Mapping[str, tuple[str, str]]) -> Verdict:
        status, version = known.get(self.name, ("", ""))
        if not status:
            near = difflib.get_close_matches(self.name, known, n=3, cutoff=0.7)
            there = f" (the image has {', '.join(near)})" if near else ""
            return self.failed(
                f"not installed{there}",
                f'lock it ([debs.{self.name}] package = "{self.name}" in the lane) and dpkg '
                "--install it in the Dockerfile's last stage, or in one that it copies from; what "
                "another stage installs is not in the image",
            )
        if status != _INSTALLED:
            hint = "dpkg --install it in the last stage, or look for an interrupted dpkg"
            return self.failed(f"its dpkg status is {status!r}", hint)
        if not fits(version, self.version):
            hint = "change the gate's version, or what the Dockerfile installs"
            return self.failed(f"has version {version}, not {self.version}", hint)
        return self.passed(version)


def packages(database: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Name, and (status, version), of each package of a dpkg database."""
    for paragraph in database.split("\n\n"):
        fields: dict[str, str] = {}
        for line in paragraph.splitlines():
            key, colon, value = line.partition(":")
            if colon and not key[:1].isspace():
                fields[key.lower()] = value.strip()
        if "package" in fields:
            status = fields.get("status", _INSTALLED)
            yield fields["package"], (status, fields.get("version", ""))


def fits(version: str, wanted: str) -> bool:
    """Whether a version is the wanted one, or begins as it says."""
    if wanted.endswith("*"):
        return version.startswith(wanted[:-1])
    return wanted in ("", version)
