"""One locked demo for all replays; each works on a copy of its own, its large files linked."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.scenarios.conftest import Ran, Workplace, copy_project, remove_images, repository

GOLDEN = Path(__file__).parent / "golden"
_MASKS = (
    (r"\x1b\[[0-9;]*m", ""),
    (r"(?:/[^\s/:'\"]+)+/(?=(?:project|place|state|cache)\b)", "…/"),
    (r"imgbuild-replays[a-z0-9-]*", "imgbuild-demo"),
    (r"\d{8}-\d{6}-[0-9a-f]{6}", "<run>"),
    (r"loader\.\d+", "loader.<pid>"),
    (r"imgbuild-[0-9a-f]{24}", "imgbuild-<probe>"),
    (r"\b[0-9a-f]{64}\b", "<sha256>"),
    (r"\b[0-9a-f]{40}\b", "<commit>"),
    (r"\b[0-9a-f]{12}\b", "<id>"),
    (r"\b\d+(?:\.\d+)? (?:ms|s|min|MB|kB|GB)\b", "<n>"),
    (r"\blinux/(?:amd64|arm64)\b", "<platform>"),
    (r"python3\.\d+", "python3.N"),
)


@dataclass(frozen=True)
class Replay:
    """A broken project, and what imgbuild says of it."""

    place: Workplace

    def expect(self, name: str, ran: Ran) -> None:
        """Compare with golden/NAME.txt; UPDATE_GOLDEN=1 writes it."""
        told = f"{ran.out}{ran.err}".splitlines()
        stage = [
            line.split()[1]
            for line in told
            if re.match(r"\s+(?:ok|FAILED|failed|error|!!)\s", line)
        ]
        kept = [line for line in told if _is_of_finding(line)]
        text = "\n".join([f"exit {ran.code}", f"after {stage[-1] if stage else 'nothing'}", *kept])
        masked = _masked(text, self.place) + "\n"
        file = GOLDEN / f"{name}.txt"
        if os.environ.get("UPDATE_GOLDEN"):
            file.write_text(masked)
        assert masked == file.read_text(), f"{file} differs (UPDATE_GOLDEN=1 writes it)"


def _is_of_finding(line: str) -> bool:
    if "not checked:" in line or "what one means:" in line:
        return False
    return bool(
        re.match(r"(?:error|warning)\[|  --> |  hint: |        \S|FAILED |       hint:", line)
    )


def _masked(text: str, place: Workplace) -> str:
    for folder in (place.root, place.env["IMGBUILD_STATE"], place.env["IMGBUILD_CACHE"]):
        text = text.replace(f"{folder}/", "").replace(str(folder), "…")
    for pattern, shown in _MASKS:
        text = re.sub(pattern, shown, text)
    return text


@pytest.fixture(scope="session")
def locked(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Workplace:
    folder = tmp_path_factory.mktemp("replays")
    place = Workplace(
        copy_project(folder / "project"),
        {"IMGBUILD_CACHE": str(shared_cache), "IMGBUILD_STATE": str(folder / "state")},
    )
    name = f"imgbuild-replays-{os.getpid()}"
    place.edit("locks/demo.toml", ('"imgbuild-demo"', f'"{name}"'))
    place.good("lock", "demo")
    place.good("check", "demo")  # what a base holds is remembered
    return place


@pytest.fixture
def replay(locked: Workplace, tmp_path: Path) -> Replay:
    def link(source: str, target: str) -> None:
        if Path(source).stat().st_size > 1_000_000:
            os.link(source, target)
        else:
            shutil.copy2(source, target)

    root = tmp_path / "project"
    shutil.copytree(locked.root, root, symlinks=True, copy_function=link)
    return Replay(Workplace(root, locked.env))


@pytest.fixture(scope="session")
def built(locked: Workplace) -> Iterator[str]:
    """The demo's image, built once for all replays of gates."""
    locked.good("build", "demo", "--no-cache")  # with a log of every step
    yield f"{repository(locked)}:local"
    remove_images(locked)
