"""What goes wrong on one node stays there: reason and cure in the table, the others served."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from typing import Any

import pytest

from tests.fleet.conftest import KB, TAG, Host, layers_of
from tests.fleet.fleet import Node
from tests.fleet.images import GOOD, Layer
from tests.fleet.machine import call, naming, until

pytestmark = pytest.mark.fleet
LAYERS = tuple(Layer(size * KB, seed) for seed, size in enumerate((4000, 90, 3000, 5000, 400), 20))


def fails_alone(host: Host, node: Node, code: str, **env: str) -> dict[str, Any]:
    """Push: this node fails with this code, the others get the image; its finding."""
    done = host.push(**env)
    assert done.code == 8, done.out + done.err
    assert done.codes == {node.name: code}, done.err
    others = [n for n in host.nodes if n is not node]
    assert all(done.states[n.name] in ("pushed", "present") for n in others)
    assert {layers_of(n) for n in others} == {source_layers(host)}
    found = next(o["finding"] for o in done.report["nodes"] if o["node"] == node.name)
    assert found["hint"]
    return dict(found)


def source_layers(host: Host) -> str:
    return host.fleet.source.docker("image", "inspect", "-f", "{{json .RootFS.Layers}}", TAG)


def stand_in(node: Node, name: str, text: str) -> None:
    """A program that a session on the node finds first."""
    path = node.bin / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    (node.bin / "docker.real").symlink_to(node.engine.prefix / "usr/bin/docker")


def test_a_changed_host_key(host: Host) -> None:
    host.has(*LAYERS)
    node = host.nodes[0]
    kept = {p: p.read_bytes() for p in node.folder.glob("host_key*")}
    node.stop_sshd()
    node.new_host_key()
    node.start_sshd()
    wait_for(node)
    try:
        found = fails_alone(host, node, "host-key-changed")
        assert found["line"] == 1
        assert "known_hosts" in found["file"]
        host.fleet.ssh_config.with_name("known_hosts").write_text("")
        assert host.push("node1").codes == {"node1": "host-key-unknown"}
    finally:
        node.stop_sshd()
        for path, data in kept.items():
            path.write_bytes(data)
            path.chmod(0o600)
        host.fleet.trust()
        node.start_sshd()
        wait_for(node)
    assert host.push().code == 0


def test_a_wrong_architecture(host: Host) -> None:
    host.has(*LAYERS, architecture="arm64")
    done = host.push()
    assert done.code == 8
    assert set(done.codes.values()) == {"wrong-architecture"}
    host.has(*LAYERS)
    nodes = host.folder / "nodes.toml"
    nodes.write_text(nodes.read_text().replace("[nodes.node2]", '[nodes.node2]\narch = "arm64"'))
    fails_alone(host, host.nodes[1], "wrong-architecture")


def test_no_permission_for_docker(host: Host) -> None:
    host.has(*LAYERS)
    node = host.nodes[2]
    stand_in(node, "docker", "echo 'permission denied while trying to connect' >&2; exit 1")
    found = fails_alone(host, node, "docker-denied")
    assert "usermod" in found["hint"]
    # With sudo it works: what it starts sees a docker that is allowed to.
    (node.bin / "docker").unlink()
    allowed = '[ "$SUDO" ] || { echo permission denied >&2; exit 1; }'
    stand = f'{allowed}; exec {node.bin}/docker.real "$@"'
    (node.bin / "docker.real").unlink()
    stand_in(node, "docker", stand)
    sudo = node.bin / "sudo"
    sudo.write_text('#!/bin/sh\nshift; SUDO=1 exec "$@"\n')
    sudo.chmod(0o755)
    done = host.push()
    assert done.code == 0, done.err
    assert done.states["node3"] == "pushed"


def test_a_node_without_docker(host: Host) -> None:
    host.has(*LAYERS)
    node = host.nodes[0]
    only = host.folder / "only"
    only.mkdir()
    (only / "sh").symlink_to("/bin/sh")
    (node.bin / "sh").write_text(f'#!/bin/sh\nPATH={only} exec /bin/sh "$@"\n')
    (node.bin / "sh").chmod(0o755)
    fails_alone(host, node, "no-docker")


@pytest.mark.parametrize("number", [0, 1])
def test_a_node_that_lies(host: Host, number: int) -> None:
    """Its engine says that it has another image: no tag is moved there."""
    host.has(LAYERS[0])
    assert host.push().code == 0
    node = host.nodes[number]
    former = node.engine.ids()[TAG]
    host.has(*LAYERS, day=13)
    lie = (
        f'case "$1 $2" in "image inspect") {node.bin}/docker.real "$@" | '
        f'sed \'s/[0-9a-f]\\{{8\\}}","sha256:/00000000","sha256:/g\';; '
        f'*) exec {node.bin}/docker.real "$@";; esac'
    )
    stand_in(node, "docker", lie)
    fails_alone(host, node, "other-image")
    assert node.engine.ids()[TAG] == former


def test_a_full_disk(host: Host) -> None:
    """A node whose engine's disk is a small file system."""
    node = host.nodes[0]
    host.has(LAYERS[0])
    node.engine.process.terminate()  # type: ignore[union-attr]
    node.engine.process.wait(20)  # type: ignore[union-attr]
    call("mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", node.engine.data)
    try:
        node.engine.launch()
        node.engine.wait()
        found = fails_alone(host, node, "no-space")  # refused before anything moves
        assert "free" in found["what"]
        stand_in(node, "df", "echo x; echo /dev/x 9 9 99999999 1% /")
        (node.bin / "docker.real").unlink()
        big = Layer(30_000 * KB, 60)
        host.has(*LAYERS, big, day=13)
        fails_alone(host, node, "no-space")  # the engine says so in the middle
        assert TAG not in node.engine.ids()
    finally:
        node.engine.process.terminate()  # type: ignore[union-attr]
        node.engine.process.wait(20)  # type: ignore[union-attr]
        call("umount", node.engine.data)
        node.engine.launch()
        node.engine.wait()
    assert host.push().code == 0


def test_an_unreachable_node(host: Host) -> None:
    host.has(*LAYERS)
    node = host.nodes[3]
    node.stop_sshd()
    try:
        fails_alone(host, node, "unreachable")
    finally:
        node.start_sshd()
        wait_for(node)
    assert host.push().code == 0


HUNG = "sleep 54321"
HANGS = f'case $1 in load|pull) exec {HUNG};; esac; exec "$0.real" "$@"'


@pytest.mark.parametrize("number", [0, 1])
def test_a_node_that_takes_no_more(host: Host, number: int) -> None:
    """A load here, a pull there: it is given up, and what hung there is ended."""
    node = host.nodes[number]
    host.has(*LAYERS)
    stand_in(node, "docker", HANGS)
    found = fails_alone(host, node, "stalled", IMGBUILD_PUSH_STALL="3")
    assert f"{node.name}: takes no more bytes for " in found["what"]
    assert not node.engine.ids()
    until(lambda: not naming(HUNG), "it hangs there still")
    (node.bin / "docker").unlink()
    assert host.push().code == 0


def test_what_hangs_there_ends_with_the_push(host: Host) -> None:
    """Also when the push is killed; the sessions of another push go on."""
    host.has(*LAYERS)
    node = host.nodes[0]
    stand_in(node, "docker", f'case $1 in info) exec {HUNG};; esac; exec "$0.real" "$@"')
    running = host.start("push", "--nodes", "all", "--json")
    until(lambda: bool(naming(HUNG)), "it does not hang")
    (node.bin / "docker").unlink()
    slow = host.start("push", "--nodes", "node1", "--json", "--limit-rate", "1 MB",
                      "--compress", "none")  # fmt: skip
    os.kill(running.pid, signal.SIGKILL)
    running.communicate(timeout=20)
    until(lambda: not naming(HUNG), "it hangs there still")
    out, err = slow.communicate(timeout=60)
    assert slow.returncode == 0, out + err


CUTS = int(os.environ.get("IMGBUILD_CUTS", "0"))
SERVED = "all" if CUTS else "node1,node2"  # a few cuts always: one node of each store


@pytest.mark.parametrize("number", range(CUTS or 4))
def test_cut_at_a_random_moment(host: Host, number: int) -> None:
    """ssh, an engine, the source or the link ends in the middle: the next push completes, sends
    no committed layer again, and no wrong tag is ever seen."""
    chance = random.Random(f"{number} {os.environ.get('IMGBUILD_CUTS_SEED', '')}")
    how = ("ssh", "engine", "source", "link")[number % 4]
    nodes = host.nodes if CUTS else host.nodes[:2]
    layers = [Layer(chance.randrange(100, 3000) * KB, 1000 * number + i) for i in range(6)]
    host.has(*layers[:2])
    assert host.push(SERVED).code == 0
    former = {n.name: n.engine.ids()[TAG] for n in nodes}
    wanted = host.has(*layers, labels={**GOOD, "cut": str(number)}, day=13)
    node = chance.choice(nodes)
    running = host.start("push", "--nodes", SERVED, "--json", "--limit-rate", "16 MB",
                         "--compress", "none", IMGBUILD_PUSH_BATCH="1")  # fmt: skip
    time.sleep(chance.uniform(0.3, 3.0))
    cut(host, node, how, running)
    out, err = running.communicate(timeout=120)
    mend(host, node, how)
    for one in nodes:
        seen = one.engine.ids().get(TAG)
        assert seen == former[one.name] or layers_of(one) == source_layers(host), (how, out, err)
    done = host.push(SERVED, "--compress", "none")
    assert done.code == 0, (how, done.out, done.err)
    for outcome in done.report["nodes"]:  # no layer that was there goes again
        missing = sum(layer.size + 20 * KB for layer in layers[6 - outcome["layers"] :])
        assert outcome["sent"] <= missing + 20 * KB  # its config
    for one in nodes:
        assert layers_of(one) == source_layers(host)
        assert set(one.engine.ids()) - {"<none>:<none>"} == {TAG, f"{TAG}-previous"}, how
        assert one.engine.ids()[f"{TAG}-previous"] == former[one.name]
        assert not one.docker("container", "ls", "-aq")
    assert host.nodes[0].engine.ids()[TAG] == wanted
    assert not leftovers(host)


def test_what_a_killed_push_left_goes_with_the_next(host: Host) -> None:
    """Killed between the making of its probe and the removal, it leaves a container there."""
    node = host.nodes[0]
    host.has(Layer(100 * KB, 1))
    assert host.push(node.name).code == 0
    node.docker("create", "--name", "imgbuild-push-1", "--label", "io.imgbuild.temporary=push",
                TAG, "-")  # fmt: skip
    kept = node.docker("create", TAG, "-")
    host.has(Layer(100 * KB, 1), Layer(100 * KB, 2), day=13)
    assert host.push(node.name).code == 0
    assert node.docker("container", "ls", "-aq", "--no-trunc") == kept
    node.docker("rm", kept)


def cut(host: Host, node: Node, how: str, running: subprocess.Popen[str]) -> None:
    match how:
        case "ssh":
            node.cut()
        case "engine":
            node.engine.kill()
        case "source":
            os.kill(running.pid, signal.SIGKILL)
        case _:
            host.fleet.network.up(node.number, is_up=False)


def mend(host: Host, node: Node, how: str) -> None:
    match how:
        case "engine":
            node.engine.launch()
            node.engine.wait()
        case "link":
            host.fleet.network.up(node.number, is_up=True)
            node.cut()  # sshd finds out by itself much later
        case _:
            time.sleep(0.5)


def leftovers(host: Host) -> list[str]:
    """Processes and sockets of pushes that have ended."""
    lines = call("ps", "-eo", "pid,args").splitlines()
    folders = [str(path) for path in host.fleet.folder.glob("imgbuild-ssh-*")]
    return [line for line in lines if str(host.fleet.ssh_config) in line] + folders


def wait_for(node: Node) -> None:
    for _ in range(100):
        words = ("nsenter", f"--net=/run/netns/{node.space}", "ss", "-ltnH", "sport = :22")
        if call(*words, check=False).strip():
            return
        time.sleep(0.05)
    raise TimeoutError(f"{node.name}: sshd")
