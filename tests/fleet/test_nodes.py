"""`imgbuild nodes`: status, rollback, prune."""

from __future__ import annotations

import pytest

from tests.fleet.conftest import KB, TAG, Host
from tests.fleet.images import GOOD, Layer

pytestmark = pytest.mark.fleet
ONE, TWO, THREE = (Layer(300 * KB, seed) for seed in (40, 41, 42))


def build(number: int) -> dict[str, str]:
    return {**GOOD, "io.imgbuild.build-id": f"{number:064x}"[::-1]}


def test_status_rollback_and_prune(host: Host) -> None:
    for day, layer in enumerate((ONE, TWO, THREE), 1):
        labels = build(day)
        tag = f"fleet:{labels['io.imgbuild.build-id'][:12]}"
        host.has(layer, labels=labels, day=day)
        host.fleet.source.docker("tag", TAG, tag)
        done = host.push()
        assert done.code == 0, done.err
    third = [n.engine.ids()[TAG] for n in host.nodes]
    second = [n.engine.ids()[f"{TAG}-previous"] for n in host.nodes]

    shown = host.run("nodes", "status", "all", "--json").report
    assert shown["same"] is True
    assert {n["engine"]["store"] for n in shown["nodes"]} == {"classic", "containerd"}
    assert len(shown["nodes"][0]["images"]) == 3

    back = host.run("nodes", "rollback", "fleet", "--nodes", "all")
    assert back.code == 0, back.err
    assert [n.engine.ids()[TAG] for n in host.nodes] == second
    assert [n.engine.ids()[f"{TAG}-previous"] for n in host.nodes] == third

    host.nodes[3].docker("image", "rm", f"{TAG}-previous")
    refused = host.run("nodes", "rollback", "fleet", "--nodes", "all")
    assert refused.code == 8
    assert "node4 has no former image" in refused.err
    assert [n.engine.ids()[TAG] for n in host.nodes] == second

    host.nodes[0].docker(
        "create", "--name", "user", f"fleet:{build(1)['io.imgbuild.build-id'][:12]}"
    )
    words = ("nodes", "prune", "fleet", "--nodes", "all", "--keep", "2")
    planned = host.run(*words, "--json").report
    assert {n: len(some) for n, some in planned["nodes"].items()} == {
        "node1": 0, "node2": 1, "node3": 1, "node4": 1,
    }  # fmt: skip
    assert len(set(host.nodes[1].engine.ids().values())) == 3  # nothing went yet
    assert host.run(*words, "--yes").code == 0
    assert [len(set(n.engine.ids().values())) for n in host.nodes] == [3, 2, 2, 2]

    host.nodes[2].docker("tag", third[2], TAG)
    host.nodes[1].docker("tag", third[1], "fleet:stray")
    text = host.run("nodes", "status", "all").out
    assert "fleet:local: 2 different images" in text
    assert "fleet:stray: missing on node1, node3, node4" in text
    unknown = host.run("nodes", "rollback", "flet", "--nodes", "all")
    assert unknown.code == 2


def test_an_image_with_our_name_and_no_lock(host: Host) -> None:
    host.has(ONE)
    assert host.push("classics").code == 0
    host.has(TWO, labels={}, tag="fleet:r12")
    assert host.push("classics", "fleet:r12").code == 8  # it says of no gates that they passed
    done = host.run("push", "fleet:r12", "--nodes", "classics", "--force")
    assert done.code == 0, done.err
    assert "NO LOCK" in host.run("nodes", "status", "classics").out
