"""`imgbuild build --push`: layers move while the gates run, tags only after they passed."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import pytest

from tests.fleet.conftest import KB, Host, Ran
from tests.fleet.machine import call

pytestmark = [pytest.mark.fleet, pytest.mark.docker]
LANE = """
schema = 1
image = "tiny"
repository = "tiny"
platforms = ["linux/amd64"]
[build]
cuda-arch-list = "12.1a"
[sources.app]
url = "file://{app}"
track = {{ branch = "main" }}
commit = "{commit}"
[[gates]]
kind = "marker"
image-file = "opt/**/marker"
contains = "hello"
"""
LARGE, SMALL = 6000 * KB, 3000 * KB
NODES = "node1,node2"  # one of each store


@pytest.fixture
def lane(host: Host) -> Path:
    """A project with one lane: two layers and the lock's; its gate can be made to take long."""
    plugins = Path(host.fleet.source.env["DOCKER_CONFIG"]) / "cli-plugins"
    plugins.mkdir(exist_ok=True)
    buildx = host.fleet.source.prefix / "usr/libexec/docker/cli-plugins/docker-buildx"
    (plugins / "docker-buildx").unlink(missing_ok=True)
    (plugins / "docker-buildx").symlink_to(buildx)
    app, made = host.folder / "app", random.Random(7)
    app.mkdir()
    (app / "large").write_bytes(made.randbytes(LARGE))
    (app / "marker").write_text("hello")
    git = ("git", "-C", app, "-c", "user.name=a", "-c", "user.email=a@b")
    call(*git, "init", "-q", "-b", "main")
    call(*git, "add", "-A")
    call(*git, "commit", "-qm", "one")
    image = host.folder / "docker-images/tiny"
    image.mkdir(parents=True)
    (image / "small").write_bytes(made.randbytes(SMALL))
    (image / "Dockerfile").write_text("FROM scratch\nADD sources/app.tar /opt/app/\nADD small /\n")
    (host.folder / "locks").mkdir()
    commit = call(*git, "rev-parse", "HEAD").strip()
    (host.folder / "locks/tiny.toml").write_text(LANE.format(app=app, commit=commit))
    docker = host.folder / "bin/docker"
    docker.parent.mkdir()
    docker.write_text(f'#!/bin/sh\n[ "$1" != create ] || sleep $(cat {host.folder}/takes)\n'
                      f'exec {host.fleet.source.prefix}/usr/bin/docker "$@"\n')  # fmt: skip
    docker.chmod(0o755)
    return host.folder / "locks/tiny.toml"


def start(host: Host, *words: str, gate_takes: str = "0") -> subprocess.Popen[str]:
    (host.folder / "takes").write_text(gate_takes)
    return host.start(
        "build", "tiny", "--lock", "--json", *words,
        IMGBUILD_CACHE=str(host.folder / "cache"), IMGBUILD_PUSH_BATCH="1",
        PATH=f"{host.folder}/bin:{host.fleet.source.env['PATH']}",
    )  # fmt: skip


def build(host: Host, *words: str) -> Ran:
    with start(host, *words) as running:
        out, err = running.communicate(timeout=120)
    return Ran(running.returncode, out, err)


def names(host: Host) -> list[set[str]]:
    return [set(node.engine.ids()) for node in host.nodes[:2]]


def is_arriving(found: set[str]) -> bool:
    """All three layers are there, under no name of an image."""
    return any(n.startswith("imgbuild-transfer:") and n.endswith("-3") for n in found)


def test_layers_go_while_the_gates_run(host: Host, lane: Path) -> None:
    running = start(host, "--push", NODES, gate_takes="12")
    end = time.monotonic() + 40
    while not all(map(is_arriving, names(host))) and time.monotonic() < end:
        time.sleep(0.2)
    assert running.poll() is None  # its gates still run
    seen = names(host)
    assert all(map(is_arriving, seen)), seen
    assert not any(name.startswith("tiny") for found in seen for name in found)
    out, err = running.communicate(timeout=120)
    done = Ran(running.returncode, out, err)
    assert done.code == 0, out + err
    assert done.report["outcome"] == "built"
    pushed = done.report["push"]
    tags = {"tiny:local", f"tiny:{done.report['build_id'][:12]}"}
    assert names(host) == [tags, tags]
    assert host.nodes[0].engine.ids()["tiny:local"] == done.report["image"]
    assert all(one["sent"] < 20 * KB for one in pushed["nodes"])
    assert all(pushed["ahead"][node] > LARGE + SMALL for node in ("node1", "node2"))
    assert host.receipts()[-1]["ahead"] == pushed["ahead"]

    again = build(host, "--push", NODES)  # nothing to build, nothing to move
    assert (again.code, again.report["outcome"]) == (0, "unchanged")
    assert {one["state"] for one in again.report["push"]["nodes"]} == {"present"}


def test_a_failed_gate_leaves_layers_and_no_name(host: Host, lane: Path) -> None:
    lane.write_text(lane.read_text().replace('"hello"', '"bye"'))
    running = start(host, "--push", NODES, gate_takes="8")
    out, err = running.communicate(timeout=120)
    assert running.returncode == 7, out + err
    assert "no tag was moved; layers went to node1 9.0 MB, node2 9.0 MB" in err
    assert all(map(is_arriving, names(host)))
    assert not any(name.startswith("tiny") for found in names(host) for name in found)
    assert not host.receipts()

    lane.write_text(lane.read_text().replace('"bye"', '"hello"'))  # the same layers pass now
    mended = build(host, "--push", NODES)
    assert mended.code == 0, mended.out + mended.err
    sent = [one["sent"] for one in mended.report["push"]["nodes"]]
    assert sum(sent) + sum(mended.report["push"]["ahead"].values()) < 60 * KB
    tags = {"tiny:local", f"tiny:{mended.report['build_id'][:12]}"}
    assert names(host) == [tags, tags]


def test_a_failed_gate_ends_the_transfer(host: Host, lane: Path) -> None:
    """Who waits for the verdict does not wait for the link; prune removes what arrived."""
    lane.write_text(lane.read_text().replace('"hello"', '"bye"'))
    nodes = host.folder / "nodes.toml"
    nodes.write_text(f'{nodes.read_text()}[defaults]\nlimit-rate = "400 kB"\ncompress = "none"\n')
    began = time.monotonic()
    failed = build(host, "--push", "node1,node3")
    assert failed.code == 7, failed.out + failed.err
    assert time.monotonic() - began < 30  # 18 MB would take 45 s
    assert not any(n.startswith("tiny") for n in host.nodes[0].engine.ids())
    assert str(host.fleet.ssh_config) not in call("ps", "-eo", "args")

    nodes.write_text(nodes.read_text().partition("[defaults]")[0])
    with start(host, "--push", "node1", gate_takes="6") as running:
        running.communicate(timeout=120)
    assert is_arriving(set(host.nodes[0].engine.ids()))
    pruned = host.run("nodes", "prune", "tiny", "--nodes", "node1", "--yes")
    assert pruned.code == 0, pruned.err
    assert not host.nodes[0].engine.ids()


def test_nodes_that_fail_do_not_fail_the_build(host: Host, lane: Path) -> None:
    path = host.nodes[1].bin / "docker"
    path.write_text("#!/bin/sh\necho permission denied >&2; exit 1\n")
    path.chmod(0o755)
    done = build(host, "--push", NODES)
    assert done.code == 8, done.out + done.err
    assert done.report["outcome"] == "built"
    states = {one["node"]: one["state"] for one in done.report["push"]["nodes"]}
    assert states == {"node1": "pushed", "node2": "failed"}
    assert len(host.receipts()) == 1
