"""`imgbuild push --fanout chain`: the image leaves this host once, and goes from node to node."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.conftest import KB, TAG, Host, Ran, layers_of
from tests.fleet.images import Layer
from tests.fleet.machine import naming, until

pytestmark = pytest.mark.fleet
BASE = (Layer(6000 * KB, 201), Layer(200 * KB, 202))
OLD, NEW = Layer(3000 * KB, 203), Layer(3000 * KB, 204)
HOP = "StrictHostKeyChecking=yes -o ForwardAgent=no"  # in the command line of a hop
SLACK = 400 * KB  # of four ssh connections and the probes


def served(done: Ran) -> dict[str, tuple[str, str]]:
    assert done.code == 0, done.out + done.err
    return {one["node"]: (one["transport"], one["via"]) for one in done.report["nodes"]}


def note(done: Ran, node: str) -> Any:
    return next(one["note"] for one in done.report["nodes"] if one["node"] == node)


def hops() -> list[int]:
    """The ssh clients that run on nodes; this host's name the same words within one word."""
    found = []
    for pid in naming(HOP):
        with contextlib.suppress(OSError):
            if b"\0-T\0" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def test_the_image_leaves_this_host_once(host: Host) -> None:
    host.fleet.introduce(*host.nodes)
    chained = {"node1": ("load", ""), "node2": ("chain", "node1"), "node3": ("chain", "node2"),
               "node4": ("chain", "node3")}  # fmt: skip
    config = host.has(*BASE, OLD)
    size = sum(layer.size for layer in (*BASE, OLD))
    before = host.fleet.network.host_sent()
    first = host.push("node1,node2,node3,node4", "--fanout", "chain", "--compress", "none")
    assert served(first) == chained
    assert host.fleet.network.host_sent() - before < 1.05 * size + SLACK
    assert [one["sent"] > 0 for one in first.report["nodes"]] == [True, False, False, False]
    assert {layers_of(n) for n in host.nodes} == {source_layers(host)}
    former = [n.engine.ids()[TAG] for n in host.nodes]
    assert former[0] == former[2] == config

    host.has(*BASE, NEW, day=13)
    before = host.fleet.network.host_sent()
    second = host.push("node1,node2,node3,node4", "--fanout", "chain", "--compress", "zstd")
    assert served(second) == chained
    assert host.fleet.network.host_sent() - before < 1.05 * NEW.size + SLACK
    assert {layers_of(n) for n in host.nodes} == {source_layers(host)}
    assert [n.engine.ids()[f"{TAG}-previous"] for n in host.nodes] == former
    assert all(set(n.engine.ids()) == {TAG, f"{TAG}-previous"} for n in host.nodes)
    ids = [n.engine.ids()[TAG] for n in host.nodes]
    for node in host.nodes:
        node.engine.empty()
    assert host.push().code == 0
    assert [n.engine.ids()[TAG] for n in host.nodes] == ids  # a star gives the same names
    assert not hops()


def test_nodes_that_do_not_know_each_other_are_sent_to(host: Host) -> None:
    """Host keys and logins are the nodes' own; and a name must lead to the node itself."""
    host.has(*BASE)
    host.fleet.introduce(host.nodes[0], host.nodes[2])
    done = host.push("node1,node2,node3,node4", "--fanout", "chain")
    ways = served(done)
    assert ways["node2"] == ("chain", "node1")
    assert ways["node3"] == ("load", "")
    assert ways["node4"] == ("pull", "")
    assert note(done, "node3").startswith("no chain: no ssh to it from node2: ")

    for node in host.nodes:
        node.engine.empty()
    host.fleet.introduce(*host.nodes)
    nodes = host.folder / "nodes.toml"
    nodes.write_text(nodes.read_text().replace("[nodes.node3]", '[nodes.node3]\npeer = "node4"'))
    done = host.push("node1,node3", "--fanout", "chain")
    assert served(done) == {"node1": ("load", ""), "node3": ("load", "")}
    assert "node4 is another machine there" in note(done, "node3")
    assert not host.nodes[3].engine.ids()


def test_a_hop_that_breaks(host: Host) -> None:
    """Who is behind it is served from here, and keeps the layers that it has committed."""
    host.fleet.introduce(*host.nodes)
    host.has(OLD)
    assert host.push("node1,node3").code == 0
    former = host.nodes[2].engine.ids()[TAG]
    layers = [Layer(3000 * KB, 210 + i) for i in range(5)]
    config = host.has(*layers, day=14)
    running = host.start("push", "--nodes", "node1,node3", "--json", "--fanout", "chain",
                         "--limit-rate", "4 MB", "--compress", "none",
                         IMGBUILD_PUSH_BATCH="1")  # fmt: skip
    until(lambda: "imgbuild-transfer" in str(host.nodes[2].engine.ids()), "no layer came")
    assert host.nodes[2].engine.ids()[TAG] == former
    end = time.monotonic() + 2  # a load takes 0.75 s: one of the next is hit for certain
    while time.monotonic() < end:
        for pid in hops():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    out, err = running.communicate(timeout=120)
    done = Ran(running.returncode, out, err)
    assert served(done) == {"node1": ("load", ""), "node3": ("load", "")}
    assert note(done, "node3").startswith("the chain broke, from here: ")
    assert not note(done, "node1")
    sent = {one["node"]: one["sent"] for one in done.report["nodes"]}
    assert 0 < sent["node3"] <= 4 * (layers[0].size + 20 * KB)  # the first came by the chain
    for node in (host.nodes[0], host.nodes[2]):
        assert node.engine.ids()[TAG] == config
        assert set(node.engine.ids()) == {TAG, f"{TAG}-previous"}
    assert not hops()


def test_a_node_in_the_chain_without_room(host: Host) -> None:
    """Its engine refuses: it alone fails, those behind it get the image."""
    host.fleet.introduce(*host.nodes)
    host.has(*BASE)
    node = host.nodes[1]
    real = node.engine.prefix / "usr/bin/docker"
    path = node.bin / "docker"
    full = "echo no space left on device >&2; exit 1"
    path.write_text(f'#!/bin/sh\ncase $1 in load|pull) {full};; esac\nexec {real} "$@"\n')
    path.chmod(0o755)
    done = host.push("node1,node2,node3,node4", "--fanout", "chain")
    assert done.codes == {"node2": "no-space"}
    assert [done.states[f"node{i}"] for i in (1, 3, 4)] == ["pushed"] * 3
    assert TAG not in node.engine.ids()


def test_a_node_in_the_chain_that_takes_no_more(host: Host) -> None:
    """It alone fails, and its load is ended there, behind the node that passes on to it."""
    host.fleet.introduce(*host.nodes)
    host.has(*BASE)
    node, hung = host.nodes[2], "sleep 65432"
    real = node.engine.prefix / "usr/bin/docker"
    path = node.bin / "docker"
    path.write_text(f'#!/bin/sh\ncase $1 in load) exec {hung};; esac\nexec {real} "$@"\n')
    path.chmod(0o755)
    done = host.push("node1,node3", "--fanout", "chain", "--transport", "load",
                     IMGBUILD_PUSH_STALL="3")  # fmt: skip
    assert done.codes == {"node3": "stalled"}, done.out + done.err
    assert done.states["node1"] == "pushed"
    until(lambda: not naming(hung) and not hops(), "it hangs there still")


def test_a_dry_run_says_who_passes_on(host: Host) -> None:
    host.fleet.introduce(*host.nodes)
    host.has(*BASE)
    done = host.push("node1,node3", "--fanout", "chain", "--dry-run")
    assert served(done) == {"node1": ("load", ""), "node3": ("chain", "node1")}
    text = host.run("push", "--nodes", "node1,node3", "--fanout", "chain", "--dry-run")
    assert "node3: from node1\n" in text.out
    assert not any(n.engine.ids() for n in host.nodes)


def test_a_slow_uplink_makes_a_chain(host: Host) -> None:
    host.fleet.introduce(*host.nodes)
    host.has(Layer(60_000 * KB, 220))
    host.fleet.network.uplink(60)
    try:
        before = host.fleet.network.host_sent()
        done = host.push("node1,node3")
        assert served(done)["node3"] == ("chain", "node1")
        probes = 3 * (8 << 20)
        assert host.fleet.network.host_sent() - before < 0.6 * 60_000 * KB + 1.05 * probes + SLACK
    finally:
        host.fleet.network.uplink(None)


def source_layers(host: Host) -> str:
    return host.fleet.source.docker("image", "inspect", "-f", "{{json .RootFS.Layers}}", TAG)
