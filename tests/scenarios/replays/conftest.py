"""One locked demo for all replays; each works on a copy of its own, its large files linked.

The image that gates look at is built once, while the replays that need none run.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

import pytest

from tests.scenarios.conftest import Ran, Workplace, copy_project, remove_images, repository

GOLDEN = Path(__file__).parent / "golden"
DOCKERFILE = "docker-images/demo/Dockerfile"
MEETS_503 = "FROM cuda AS kern-cuda\n"
_STEP = (
    "RUN --network=none --mount=type=cache,target={once} "
    "if [ ! -e {once}/x ]; then touch {once}/x; "
    "echo 'E: Failed to fetch http://deb.example/x.deb  503  Service Unavailable' >&2; "
    "exit 100; fi; rm {once}/x\n"
)
_MASKS = (
    (r"(?m)(?<=\S)  +(?=\S)", "  "),  # columns are as wide as their widest row
    (r"\x1b\[[0-9;]*m", ""),
    (r"(?:/[^\s/:'\"]+)+/(?=(?:project|place|state|cache)\b)", "…/"),
    (r"imgbuild-replays[a-z0-9-]*", "imgbuild-demo"),
    (r"\d{8}-\d{6}-[0-9a-f]{6}", "<run>"),
    (r"127\.0\.0\.1:\d{2,}", "127.0.0.1:<port>"),
    (r"loader\.\d+", "loader.<pid>"),
    (r"imgbuild-[0-9a-f]{24}", "imgbuild-<probe>"),
    (r"\b[0-9a-f]{64}\b", "<sha256>"),
    (r"\b[0-9a-f]{40}\b", "<commit>"),
    (r"\b[0-9a-f]{12}\b", "<id>"),
    (r"\b\d+(?:\.\d+)? (?:ms|s|min|MB|kB|GB)\b", "<n>"),
    (r"\blinux/(?:amd64|arm64)\b", "<platform>"),
    (r"python3\.\d+", "python3.N"),
    (r"_[0-9][^\s_]*_(?:amd64|arm64)\.deb", "_<version>_<arch>.deb"),
    (r"\(= [0-9][^)]*\)", "(= <version>)"),
    (r"(?m)^( +node\d  )\S+(  (?:classic|containerd)  )\w+", r"\1<version>\2<arch>"),
)


@dataclass(frozen=True)
class Replay:
    """A broken project, and what imgbuild says of it."""

    place: Workplace

    def expect(self, name: str, *words: str) -> Ran:
        """Run `imgbuild WORDS…`; what it says is golden/NAME.txt."""
        ran = self.place.run(*words)
        self.compare(name, words, ran)
        return ran

    def compare(self, name: str, words: Sequence[str], ran: Ran) -> None:
        """Compare with golden/NAME.txt; UPDATE_GOLDEN=1 writes it."""
        told = f"{ran.out}{ran.err}".splitlines()
        head = [f"$ imgbuild {' '.join(words)}", f"{_end(told, ran.code)}, exit {ran.code}"]
        kept = [line for line in told if _FINDING.match(line)]
        masked = _masked("\n".join([*head, *kept]), self.place) + "\n"
        file = GOLDEN / f"{name}.txt"
        if os.environ.get("UPDATE_GOLDEN"):
            file.write_text(masked)
        assert masked == file.read_text(), f"{file} differs (UPDATE_GOLDEN=1 writes it)"


_FINDING = re.compile(r"(?:error|warning)\[|  --> |  hint: |        \S|FAILED |       hint:")
_STAGE = re.compile(r"  (?P<word>ok|FAILED|stopped) (?P<name>[a-z]+)")


def _end(told: Sequence[str], code: int) -> str:
    """The stage in which it stopped: the first that failed, or the one whose report is bad.

    Before all stages the lane is read, then the lock: `check` goes on without what follows
    from the lock, and says so.
    """
    stages = [match for line in told if (match := _STAGE.match(line))]
    failed = [match["name"] for match in stages if match["word"] != "ok"]
    if not code:
        warned = any(line.startswith("warning[") for line in told)
        return f"not stopped, warned in {stages[-1]['name']}" if warned else "not stopped"
    if failed:
        return f"stopped in {failed[0]}"
    if not stages:
        return "stopped before any stage"
    if any("the sources are not proven" in line for line in told):
        return "stopped at the lock, before any stage"
    return f"stopped in {stages[-1]['name']}"


def _masked(text: str, place: Workplace) -> str:
    for folder in (place.root, place.env["IMGBUILD_STATE"], place.env["IMGBUILD_CACHE"]):
        text = text.replace(f"{folder}/", "").replace(str(folder), "…")
    for pattern, shown in _MASKS:
        text = re.sub(pattern, shown, text)
    return text


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Workplace:
    """The demo, locked, with a step of its Dockerfile that fails the first time (S8).

    The step is another one in each session, so that what is behind it runs, and is logged.
    """
    folder = tmp_path_factory.mktemp("replays")
    place = Workplace(
        copy_project(folder / "project"),
        {"IMGBUILD_CACHE": str(shared_cache), "IMGBUILD_STATE": str(folder / "state")},
    )
    name = f"imgbuild-replays-{os.getpid()}"
    place.edit("locks/demo.toml", ('"imgbuild-demo"', f'"{name}"'))
    (folder / "Dockerfile").write_bytes((place.root / DOCKERFILE).read_bytes())
    place.edit(DOCKERFILE, (MEETS_503, f"{MEETS_503}{_STEP.format(once=f'/{name}')}"))
    place.good("lock", "demo")
    return place


@pytest.fixture(scope="session")
def sketch(tmp_path_factory: pytest.TempPathFactory, whole: Workplace) -> Workplace:
    """The same for what starts no container: of the base it has what the preflight reads."""
    folder = tmp_path_factory.mktemp("sketch")
    place = copied(whole, folder)
    (place.root / DOCKERFILE).write_bytes((whole.root.parent / "Dockerfile").read_bytes())
    base = place.root / ".demo/base/rootfs.tar"
    with tarfile.open(base) as tar:
        member = next(m for m in tar if m.name.removeprefix("./") == "var/lib/dpkg/status")
        held = tar.extractfile(member)
        assert held is not None
        data = held.read()
    base.unlink()  # a link to the whole one
    with tarfile.open(base, "w") as tar:
        tar.addfile(member, io.BytesIO(data))
    place.good("lock", "demo", "--update", "runtime")
    return place


def copied(place: Workplace, to: Path) -> Workplace:
    def link(source: str, target: str) -> None:
        if Path(source).stat().st_size > 1_000_000:
            os.link(source, target)
        else:
            shutil.copy2(source, target)

    root = to / "project"
    shutil.copytree(place.root, root, symlinks=True, copy_function=link)
    return Workplace(root, dict(place.env))


@pytest.fixture
def replay(request: pytest.FixtureRequest, tmp_path: Path) -> Replay:
    """Of the demo that its module names: `DEMO`."""
    return Replay(copied(request.getfixturevalue(request.module.DEMO), tmp_path))


@pytest.fixture(scope="session", autouse=True)
def building(request: pytest.FixtureRequest) -> Iterator[Popen[str] | None]:
    """The build of the shared image, which goes on while other replays run."""
    if not any("built" in getattr(item, "fixturenames", ()) for item in request.session.items):
        yield None
        return
    place: Workplace = request.getfixturevalue("whole")
    with place.start("build", "demo") as running:
        yield running
    remove_images(place)


@pytest.fixture(scope="session")
def built(building: Popen[str], whole: Workplace) -> str:
    """The demo's image, built once for all replays of gates."""
    _, told = building.communicate(timeout=300)
    assert building.returncode == 0, told
    return f"{repository(whole)}:local"
