"""A project of its own for each scenario: a copy of this one with the demo's lane locked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("docker-images", "locks", "patches", ".demo")
IMGBUILD = Path(sys.executable).with_name("imgbuild")


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Workplace:
    """A folder with a project, and the environment that its commands run in."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)
    user: str | None = None
    umask: int = 0o022

    def run(self, *argv: str, timeout_s: float = 300) -> Ran:
        done = subprocess.run(
            [str(IMGBUILD), *argv], cwd=self.root, env={**os.environ, **self.env},
            capture_output=True, text=True, timeout=timeout_s, user=self.user,
            umask=self.umask, check=False,
        )  # fmt: skip
        return Ran(done.returncode, done.stdout, done.stderr)

    def good(self, *argv: str) -> Ran:
        done = self.run(*argv)
        assert done.code == 0, done.err
        return done

    def edit(self, path: str, *changes: tuple[str, str]) -> None:
        file = self.root / path
        text = file.read_text()
        for before, after in changes:
            assert before in text, f"{path} does not hold {before!r}"
            text = text.replace(before, after)
        file.write_text(text)

    def start(self, *argv: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(IMGBUILD), *argv], cwd=self.root, env={**os.environ, **self.env}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip


def copy_project(to: Path) -> Path:
    to.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        shutil.copytree(ROOT / part, to / part, symlinks=True)
    for lock in (to / "locks").glob("*"):
        if lock.is_dir():
            shutil.rmtree(lock)
        elif lock.name != "demo.toml":  # a lock is made anew: what one keeps would show
            lock.unlink()
    return to


def docker(*argv: str) -> str:
    return subprocess.run(
        ["docker", *argv], capture_output=True, text=True, check=True, timeout=120
    ).stdout


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all scenarios of a session: wheels are downloaded once."""
    named = os.environ.get("IMGBUILD_TEST_CACHE")
    return Path(named) if named else tmp_path_factory.mktemp("cache")


@pytest.fixture
def workplace(tmp_path: Path, shared_cache: Path) -> Iterator[Workplace]:
    """A locked demo project; its images are removed afterwards."""
    place = Workplace(
        copy_project(tmp_path / "project"),
        {"IMGBUILD_CACHE": str(shared_cache), "IMGBUILD_STATE": str(tmp_path / "state")},
    )
    place.edit("locks/demo.toml", ('"imgbuild-demo"', f'"imgbuild-{tmp_path.name[:40].lower()}"'))
    place.good("lock", "demo")
    yield place
    remove_images(place)


def repository(place: Workplace) -> str:
    for line in (place.root / "locks/demo.toml").read_text().splitlines():
        if line.startswith("repository"):
            return line.split('"')[1]
    raise AssertionError("the lane names no repository")


def remove_images(place: Workplace) -> None:
    for pattern in (repository(place), "imgbuild-candidate"):
        for tag in docker("images", "--format", "{{.Repository}}:{{.Tag}}", pattern).split():
            subprocess.run(["docker", "rmi", "-f", tag], capture_output=True, check=False)


Edit = Callable[[Workplace], None]
