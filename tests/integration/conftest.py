"""A store, a repository, a real Docker engine, and a small base of this machine's own files."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from builder.errors import ImgbuildError
from builder.model.lock import LockedBase
from builder.steps.bases import ensure_base
from builder.tools.docker import DockerEngine
from builder.tools.git_store import Store
from tests.integration.repositories import Repo

ROOT = Path(__file__).parents[2]
TOOLS = (
    "sh", "cat", "echo", "find", "id", "ln", "ls", "mkdir", "pwd", "seq", "sleep", "touch", "true",
)  # fmt: skip
EPOCH = 1757692800


@dataclass(frozen=True)
class Bench:
    """An engine, the platform it builds for, and a base that it has."""

    engine: DockerEngine
    platform: str
    rootfs: Path
    locked: LockedBase
    base: str
    store: str


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    with contextlib.closing(Store(tmp_path / "cache")) as made:
        yield made


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A new repository."""
    return Repo(tmp_path / "kern.git")


@pytest.fixture(scope="session")
def engine() -> DockerEngine:
    """The engine that answers."""
    if os.environ.get("IMGBUILD_NO_DOCKER") == "1":
        pytest.skip("IMGBUILD_NO_DOCKER=1")
    found = DockerEngine()
    missing = ""
    try:
        found.describe()
    except ImgbuildError as error:
        missing = str(error)
    if missing:
        pytest.fail(f"{missing}; scripts/test starts an engine", pytrace=False)
    return found


@pytest.fixture(scope="session")
def rootfs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few programs of this machine and the libraries they need, 5 MB; its own in every run."""
    path = tmp_path_factory.mktemp("rootfs") / "rootfs.tar"
    with tarfile.open(path, "w") as tar:
        for folder in ("etc", "opt", "tmp", "usr/bin", "usr/lib"):
            _add(tar, folder, tarfile.DIRTYPE)
        for link in ("bin", "lib"):
            _add(tar, link, tarfile.SYMTYPE, target=f"usr/{link}")
        _add(tar, "lib64", tarfile.SYMTYPE, target="usr/lib")
        _add(tar, "etc/passwd", data=b"root:x:0:0:root:/:/bin/sh\n")
        _add(tar, "etc/group", data=b"root:x:0:\n")
        _add(tar, "etc/run", data=str(path).encode())
        for name, file in sorted(_programs().items()):
            _add(tar, name, data=file.read_bytes())
    return path


@pytest.fixture(scope="session")
def bench(engine: DockerEngine, rootfs: Path) -> Iterator[Bench]:
    """The engine that answers, with the base loaded; what it has of ours goes at the end."""
    with _bench(engine, rootfs) as made:
        yield made


@pytest.fixture(scope="session")
def containerd(rootfs: Path) -> Iterator[dict[str, str]]:
    """The environment of an engine of our own on the containerd store, while tests use it."""
    variables = {**os.environ, "IMGBUILD_ENGINE_STORE": "containerd"}
    cache = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    home = os.environ.get("IMGBUILD_ENGINE_HOME", f"{cache}/imgbuild-engine")
    if os.geteuid() != 0 or not Path(home, "prefix").is_dir():
        pytest.skip("needs root and an engine of our own (scripts/engine start)")
    script = ROOT / "scripts/engine"
    with subprocess.Popen(
        [script, "run", "sh", "-c", "echo ready; read end"], env=variables,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as running:  # fmt: skip
        assert running.stdout
        assert running.stdin
        assert running.stdout.readline() == b"ready\n"
        shown = subprocess.run([script, "env"], env=variables, capture_output=True, check=True)
        yield dict(re.findall(r"\b(DOCKER_\w+)=(\S+)", shown.stdout.decode()))
        running.stdin.close()


@pytest.fixture(params=["answering", "containerd"])
def each_store(
    request: pytest.FixtureRequest, rootfs: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bench]:
    """The test runs on the engine that answers, and on one with the containerd store."""
    if request.param == "containerd":
        for name, value in request.getfixturevalue("containerd").items():
            monkeypatch.setenv(name, value)
        with _bench(DockerEngine(), rootfs) as made:
            yield made
    else:
        yield request.getfixturevalue("bench")


@contextlib.contextmanager
def _bench(engine: DockerEngine, rootfs: Path) -> Iterator[Bench]:
    about = engine.describe()
    digest = f"sha256:{hashlib.sha256(rootfs.read_bytes()).hexdigest()}"
    locked = LockedBase(digest, {about.platform: digest})
    base = ensure_base(
        "small", locked, about.platform, rootfs=rootfs, engine=engine, say=lambda _: None
    )
    try:
        yield Bench(engine, about.platform, rootfs, locked, base, about.store)
    finally:
        for image in engine.images(f"imgbuild-test-{os.getpid()}"):
            for tag in image.tags:
                engine.untag(tag)
        engine.untag(base)


@pytest.fixture
def tag(request: pytest.FixtureRequest) -> str:
    """A tag that is removed with the bench."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    return f"imgbuild-test-{os.getpid()}:{name}"


def _programs() -> dict[str, Path]:
    """Where each program and library lies in the image, and its file here."""
    found: dict[str, Path] = {}
    for tool in TOOLS:
        here = shutil.which(tool, path="/usr/bin:/bin")
        assert here, tool
        found[f"usr/bin/{tool}"] = Path(here).resolve()
        shown = subprocess.run(["ldd", here], capture_output=True, text=True, check=False).stdout
        for library in re.findall(r"(/\S+\.so\S*)", shown):
            found[f"usr/lib/{Path(library).name}"] = Path(library).resolve()
    return found


def _add(
    tar: tarfile.TarFile, name: str, kind: bytes = tarfile.REGTYPE, *, target: str = "",
    data: bytes = b"",
) -> None:  # fmt: skip
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.mtime = kind, 0o755, 315532800
    entry.linkname, entry.size = target, len(data)
    tar.addfile(entry, io.BytesIO(data))
