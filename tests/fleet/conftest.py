"""Four nodes, two with each store, and an `imgbuild` that reaches them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fleet import fleet as fleets
from tests.fleet import images
from tests.fleet.fleet import Fleet, Node
from tests.fleet.images import Layer

ROOT = Path(__file__).parents[2]
IMGBUILD = Path(sys.executable).with_name("imgbuild")
STORES = ("classic", "containerd", "classic", "containerd")
TAG = "fleet:local"
KB = 1000


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def report(self) -> Any:
        return json.loads(self.out)

    @property
    def states(self) -> dict[str, str]:
        return {one["node"]: one["state"] for one in self.report["nodes"]}

    @property
    def codes(self) -> dict[str, str]:
        return {one["node"]: one["finding"]["code"] for one in self.report["nodes"]
                if one["finding"]}  # fmt: skip


@dataclass(frozen=True)
class Host:
    """The machine that pushes."""

    fleet: Fleet
    folder: Path

    @property
    def env(self) -> dict[str, str]:
        own = {
            "IMGBUILD_SSH_CONFIG": str(self.fleet.ssh_config),
            "IMGBUILD_STATE": str(self.folder / "state"),
            "IMGBUILD_NODES": str(self.folder / "nodes.toml"),
            "XDG_RUNTIME_DIR": str(self.fleet.folder),
        }
        return {**os.environ, **self.fleet.source.env, **own}

    def has(self, *layers: Layer, labels: dict[str, str] | None = None, day: int = 12,
            architecture: str = "amd64", tag: str = TAG) -> str:  # fmt: skip
        """Put an image under the tag; its config digest (on a classic source)."""
        data = images.archive(layers, [tag], images.GOOD if labels is None else labels,
                              architecture, f"2025-09-{day:02}T18:40:00Z")  # fmt: skip
        images.load(self.fleet.source, data)
        return self.fleet.source.ids()[tag]

    def start(self, *words: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(IMGBUILD), "-C", str(self.folder), *words], env={**self.env, **env}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def run(self, *words: str, timeout_s: float = 120, **env: str) -> Ran:
        with self.start(*words, **env) as running:
            out, err = running.communicate(timeout=timeout_s)
        return Ran(running.returncode, out, err)

    def push(self, nodes: str = "all", *words: str, **env: str) -> Ran:
        return self.run("push", "--nodes", nodes, "--json", *words, **env)

    def receipts(self) -> list[Any]:
        files = sorted((self.folder / "state/pushes").glob("*/*.json"))
        return [json.loads(path.read_text()) for path in files]

    @property
    def nodes(self) -> list[Node]:
        return self.fleet.nodes


@pytest.fixture(scope="session")
def _fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    if os.environ.get("IMGBUILD_NO_DOCKER") == "1":
        pytest.skip("IMGBUILD_NO_DOCKER=1")
    if lacking := fleets.missing():
        pytest.skip(lacking)
    with fleets.fleet(STORES, data=tmp_path_factory.mktemp("fleet")) as made:
        yield made


@pytest.fixture
def host(_fleet: Fleet, tmp_path: Path) -> Iterator[Host]:
    """Nodes without images, and a source without any."""
    for engine in (_fleet.source, *(n.engine for n in _fleet.nodes)):
        engine.empty()
    names = "".join(f"[nodes.{n.name}]\n" for n in _fleet.nodes)
    groups = ('all = ["classics", "containerds"]\nclassics = ["node1", "node3"]\n'
              'containerds = ["node2", "node4"]\n')  # fmt: skip
    (tmp_path / "nodes.toml").write_text(f"schema = 1\n{names}[groups]\n{groups}")
    yield Host(_fleet, tmp_path)
    for node in _fleet.nodes:
        for path in node.bin.iterdir():
            path.unlink()


def layers_of(node: Node, reference: str = TAG) -> str:
    return node.docker("image", "inspect", "-f", "{{json .RootFS.Layers}}", reference)
