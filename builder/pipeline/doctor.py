"""`imgbuild doctor`: what this machine has, what it lacks."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from builder.errors import ImgbuildError, ToolMissing
from builder.ports import Engine
from builder.tools.process import environment, run

OLDEST_GIT = (2, 38)
"""The first git with `merge-tree --write-tree`."""


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    passed: bool
    seen: str
    hint: str = ""


def doctor(*, engine: Engine, cache: Path) -> tuple[Check, ...]:
    """Every check; nothing is raised for what is missing."""
    return tuple(_checks(engine, cache))


def _checks(engine: Engine, cache: Path) -> Iterator[Check]:
    yield _looked("git", _git, "apt-get install git (2.38 or newer)")
    yield _looked("ssh", lambda: _version("ssh", "-V"), "apt-get install openssh-client")
    yield _looked("docker", lambda: _engine(engine), "scripts/engine start, or install Docker")
    cache.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(cache).free
    low = "" if free > 50e9 else ": a large lane needs 50 GB"
    yield Check("cache", True, f"{cache}, {free / 1e9:.0f} GB free{low}")


def _looked(name: str, look: Callable[[], str], hint: str) -> Check:
    try:
        return Check(name, True, look())
    except ImgbuildError as error:
        found = error.findings[0]
        return Check(name, False, found.what, found.hint or hint)


def _git() -> str:
    text = _version("git", "--version")
    number = text.split()[2]
    if tuple(int(n) for n in number.split(".")[:2]) < OLDEST_GIT:
        raise ToolMissing(f"git is {number}, 2.38 is the oldest that serves")
    return text


def _engine(engine: Engine) -> str:
    about = engine.describe()
    return f"engine {about.version}, {about.store} store, {about.platform}"


def _version(*argv: str) -> str:
    done = run(argv, env=environment(), timeout_s=20)
    return (done.text or done.complaint).splitlines()[0]
