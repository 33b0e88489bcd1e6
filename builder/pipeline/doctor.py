"""`imgbuild doctor`: what this machine has, what it lacks, and which command needs it."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from builder.engine_ports import Engine
from builder.errors import ImgbuildError, ToolMissing
from builder.tools.process import environment, run

_ENOUGH = 50e9  # bytes that a large lane needs
_NUMBER = re.compile(r"(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    passed: bool
    seen: str
    uses: str  # what needs it
    without: str = ""  # what happens when it is missing
    hint: str = ""  # how to get it
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    uses: str
    hint: str
    argv: tuple[str, ...] = ()  # says its version; `NAME --version` when it is empty
    oldest: tuple[int, int] = (0, 0)
    without: str = ""  # what happens then; by default what uses it fails


GIT = Program(
    "git", "lock, verify-lock, fetch, stage, build, check, diff, patch, deps",
    "apt-get install git (2.38 or newer)",
    oldest=(2, 38),  # the first with `merge-tree --write-tree`
)  # fmt: skip
_ENGINE = "build, gate, inspect, push, patch extract"
_CACHES = "nodes cache push, nodes cache pull"
OPTIONAL = (
    Program("ssh", "push, nodes, sources at ssh addresses", "apt-get install openssh-client",
            ("ssh", "-V")),
    Program("rsync", _CACHES, "apt-get install rsync (3.1 or newer)", oldest=(3, 1)),
    Program("flock", _CACHES, "apt-get install util-linux"),
    Program("sha256sum", _CACHES, "apt-get install coreutils"),
    Program("zstd", "push over slow links, push --compress zstd", "apt-get install zstd",
            without="layers go uncompressed"),
    Program("apt-get", "lock, fetch and build of lanes with [debs]",
            "run imgbuild on Debian or Ubuntu"),
    Program("dpkg-deb", "check and build of lanes with [debs]", "apt-get install dpkg",
            without="what debs depend on is not checked"),
    Program("pip", "lock, fetch and build of lanes with [python]",
            f"{sys.executable} -m ensurepip, or: uv pip install pip",
            (sys.executable, "-m", "pip", "--version")),
    Program("setpriv", "build, push, nodes", "apt-get install util-linux",
            without="docker and ssh go on when imgbuild is killed"),
)  # fmt: skip


def doctor(*, engine: Engine, cache: Path) -> tuple[Check, ...]:
    """Every check; nothing is raised for what is missing."""
    return tuple(_checks(engine, cache))


def _checks(engine: Engine, cache: Path) -> Iterator[Check]:
    yield _program(GIT, is_optional=False)
    yield _engine(engine)
    yield from (_program(one, is_optional=True) for one in OPTIONAL)
    cache.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(cache).free
    low = "" if free > _ENOUGH else ": a large lane needs 50 GB"
    yield Check("cache", True, f"{cache}, {free / 1e9:.0f} GB free{low}", "all sources")


def _program(one: Program, *, is_optional: bool) -> Check:
    passed, seen = _looked(lambda: _version(one))
    without = one.without or f"{one.uses} fail"
    return Check(one.name, passed, seen, one.uses, without, one.hint, is_optional)


def _engine(engine: Engine) -> Check:
    hint = "scripts/engine start, or install Docker"
    try:
        about = engine.describe()
    except ImgbuildError as error:
        found = error.findings[0]
        passed, seen, hint = False, found.what, found.hint or hint
    else:
        passed, seen = True, f"engine {about.version}, {about.store} store, {about.platform}"
    return Check("docker", passed, seen, _ENGINE, f"{_ENGINE} fail", hint)


def _looked(look: Callable[[], str]) -> tuple[bool, str]:
    try:
        return True, look()
    except ImgbuildError as error:
        return False, error.findings[0].what


def _version(one: Program) -> str:
    done = run(one.argv or (one.name, "--version"), env=environment(), timeout_s=20)
    first = next(iter((done.text.strip() or done.complaint).splitlines()), "")
    number = _NUMBER.search(first)
    if number and (int(number[1]), int(number[2])) < one.oldest:
        oldest = ".".join(map(str, one.oldest))
        raise ToolMissing(f"{one.name} is {number[0]}, {oldest} is the oldest that serves")
    return first or "is there"
