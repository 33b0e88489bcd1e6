"""Debian packages that gates ask for, and that nothing brings into the last stage."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from builder.errors import Finding, Place
from builder.model.lane import Lane
from builder.steps.gates import Gate
from builder.steps.gates.headers import Headers
from builder.steps.gates.link import Link
from builder.steps.gates.package import Package
from builder.steps.gates.pkg_config import PkgConfig
from builder.steps.preflight.installs import Installed
from builder.steps.preflight.shell import commands
from builder.steps.preflight.values import Valued

_OF_MODULE = {"libusb-1.0": "libusb-1.0-0-dev", "zlib": "zlib1g-dev", "openssl": "libssl-dev"}
_OF_LIBRARY = {
    "aio": "libaio-dev", "ibverbs": "libibverbs-dev", "numa": "libnuma-dev",
    "rdmacm": "librdmacm-dev", "uring": "liburing-dev",
}  # fmt: skip
"""Libraries that come as a Debian package or from a build of their own, not with CUDA or wheels."""
_OF_HEADER = {
    "infiniband/verbs.h": "libibverbs-dev", "libaio.h": "libaio-dev", "liburing.h": "liburing-dev",
    "numa.h": "libnuma-dev", "rdma/rdma_cma.h": "librdmacm-dev",
}  # fmt: skip
_LOOK = frozenset(
    ("apt-cache", "apt-get", "apt-mark", "apt", "cat", "dpkg", "dpkg-query", "echo", "find", "grep",
     "ls", "printf", "rm", "test", "[", "[[")
)  # fmt: skip
_OF_COMPILERS = re.compile(r"libc6-dev|linux-libc-dev|lib(?:stdc\+\+|gcc)-\d+-dev|libcrypt-dev")


def wanted(gate: Gate) -> Iterator[tuple[str, str]]:
    """Each package that a gate asks for, and the word by which a build of it would be known."""
    headers: Sequence[str] = ()
    if isinstance(gate, Package):
        yield gate.name, ""
    elif isinstance(gate, PkgConfig):
        if gate.module.startswith("lib") or gate.module in _OF_MODULE:  # else who has it?
            yield _OF_MODULE.get(gate.module, f"{gate.module}-dev"), gate.module
        headers = (gate.compile,) if isinstance(gate.compile, str) else gate.compile
    elif isinstance(gate, Link):
        for library in gate.libraries:
            if library in _OF_LIBRARY:
                yield _OF_LIBRARY[library], library
        headers = gate.headers
    elif isinstance(gate, Headers):
        headers = gate.headers
    for header in headers:
        if header in _OF_HEADER:
            package = _OF_HEADER[header]
            yield package, package.removeprefix("lib").removesuffix("-dev")


def not_installed(
    gates: Sequence[tuple[Gate, Place]],
    has: Installed,
    stages: Collection[Valued],
    last: Valued,
    lane: Lane,
    file: Path,
) -> Iterator[Finding]:
    """One finding for each package, at the first gate that asks for it.

    Where the base is not known, it is only likely for what no base needs for itself: a warning.
    """
    told: set[str] = set()
    for gate, place in gates:
        for package, word in wanted(gate):
            if package in told or has.may_have(package) or (word and _built(word, stages)):
                continue
            likely = package.endswith("-dev") and not _OF_COMPILERS.fullmatch(package)
            if has.over_unknown and not likely:
                continue
            told.add(package)
            about = ", which is not looked into here," if has.over_unknown else ""
            yield Finding(
                "package-not-installed",
                f"the gate {gate.kind} {gate.about} asks for {package}, which "
                + (f"only the base{about} could bring" if about else "nothing installs")
                + f" in the last stage ({last.stage.title}, from line {last.stage.line} of "
                f"{file.name})",
                _cure(package, lane),
                place=place,
                level="warning" if has.over_unknown else "error",
            )


def _cure(package: str, lane: Lane) -> str:
    if any(deb.package == package for deb in lane.debs.values()):
        return (
            f"{package} is locked: install it from the context debs in the last stage, or copy it "
            "from a stage that does; what runs in another stage is not in the image"
        )
    return (
        f'lock it: [debs.{package}] package = "{package}" in the lane, imgbuild lock {lane.name}, '
        "and dpkg --install in the last stage, or in one that it copies from; what runs in another "
        "stage is not in the image"
    )


def _built(word: str, stages: Collection[Valued]) -> bool:
    """Whether the Dockerfile seems to build or bring it otherwise: a command, a copy names it."""
    for stage in stages:
        for at in stage.steps:
            if at.instruction.name in ("ADD", "COPY") and word in at.instruction.text:
                return True
            if at.instruction.name == "RUN" and any(
                command.program not in _LOOK and any(word in each for each in command.words)
                for command in commands(at.instruction)
            ):
                return True
    return False
