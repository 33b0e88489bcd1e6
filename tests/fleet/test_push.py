"""`imgbuild push` to four nodes, on both stores, with real ssh and engines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fleet.conftest import KB, TAG, Host, layers_of
from tests.fleet.images import GOOD, Layer
from tests.fleet.machine import until

pytestmark = pytest.mark.fleet
BASE = (Layer(3000 * KB, 1), Layer(200 * KB, 2))
OLD, NEW = Layer(2000 * KB, 3), Layer(2000 * KB, 4)
TOP = Layer(50 * KB, 5)
SLACK = 120 * KB  # of ssh and the probes, for one node and push


@pytest.mark.parametrize("way", ["direct", "save"])
def test_first_then_changed_then_nothing(host: Host, way: str) -> None:
    env = {"IMGBUILD_PUSH_SAVE": "1"} if way == "save" else {}
    config = host.has(*BASE, OLD, TOP)
    first = host.push(**env)
    assert first.code == 0, first.err
    assert set(first.states.values()) == {"pushed"}
    assert {layers_of(n) for n in host.nodes} == {layers_of_source(host)}
    assert [n.engine.ids()[TAG] == config for n in host.nodes] == [True, False, True, False]
    ids = [n.engine.ids()[TAG] for n in host.nodes]
    assert ids[1] == ids[3]

    changed = host.has(*BASE, NEW, TOP, day=13)
    before = [host.fleet.network.sent(n.number) for n in host.nodes]
    second = host.push(**env)
    assert second.code == 0, second.err
    for node, start in zip(host.nodes, before, strict=True):
        moved = host.fleet.network.sent(node.number) - start
        assert moved <= 1.05 * (NEW.size + TOP.size) + SLACK
        assert node.engine.ids()[f"{TAG}-previous"] == ids[node.number - 1]
        assert set(node.engine.ids()) == {TAG, f"{TAG}-previous"}  # nothing else is left
    assert {host.nodes[i].engine.ids()[TAG] for i in (0, 2)} == {changed}

    before = [host.fleet.network.sent(n.number) for n in host.nodes]
    third = host.push(**env)
    assert set(third.states.values()) == {"present"}
    for node, start in zip(host.nodes, before, strict=True):
        assert host.fleet.network.sent(node.number) - start < SLACK
    assert [r["config"] for r in host.receipts()] == [config, changed, changed]
    assert not any(n.docker("container", "ls", "-aq") for n in host.nodes)


def test_the_same_from_a_save_and_a_pull(host: Host) -> None:
    """Whatever the way, the engines answer with the same ids."""
    host.has(*BASE, OLD)
    ids = []
    for words in (("--transport", "load"), ("--transport", "pull"), ("--compress", "zstd")):
        done = host.push("all", *words)
        assert done.code == 0, done.err
        ids.append([n.engine.ids()[TAG] for n in host.nodes])
        for node in host.nodes:
            node.engine.empty()
    assert ids[0] == ids[1] == ids[2]


def test_layers_that_repeat_and_are_empty(host: Host) -> None:
    empty = Layer(0, 7)
    host.has(OLD, empty, BASE[1], empty, OLD)
    assert host.push().code == 0
    host.has(OLD, empty, BASE[1], empty, OLD, BASE[1], day=14)
    done = host.push()
    assert done.code == 0, done.err
    assert {layers_of(n) for n in host.nodes} == {layers_of_source(host)}


def test_only_the_labels_change(host: Host) -> None:
    """No layer is missing: the config alone goes, to one node beside others that lack more."""
    host.has(*BASE)
    assert host.push("node1,node2").code == 0
    config = host.has(*BASE, labels={**GOOD, "about": "new"})
    done = host.push()
    assert done.code == 0, done.err
    sent = {one["node"]: one["sent"] for one in done.report["nodes"]}
    assert max(sent["node1"], sent["node2"]) < 10 * KB
    assert host.nodes[0].engine.ids()[TAG] == host.nodes[2].engine.ids()[TAG] == config
    assert host.nodes[1].engine.ids()[TAG] == host.nodes[3].engine.ids()[TAG]


def test_a_layer_of_each_load_is_kept(host: Host) -> None:
    """With a load for each layer, prefix images hold them until the end, and go then."""
    config = host.has(*BASE, OLD, TOP)
    done = host.push("classics", "--transport", "load", IMGBUILD_PUSH_BATCH="1")
    assert done.code == 0, done.err
    assert host.nodes[0].engine.ids() == {TAG: config}


def test_hooks(host: Host) -> None:
    """Before and after the push here and on each node; a failing one stops what follows."""
    host.has(*BASE)
    nodes, said = host.folder / "nodes.toml", host.folder / "said"
    text = nodes.read_text()
    nodes.write_text(
        f"""{text}[hooks]
before-push = [["sh", "-c", "env | grep ^IMGBUILD_IMAGE= > {said}"]]
before-node = [["test", "-e", "{said}"], ["test", "!", "-e", "/run/imgbuild-fleet-no"]]
after-node = [["sh", "-c", "echo $IMGBUILD_NODE $IMGBUILD_LANE >> {said}"]]
after-push = [["sh", "-c", "echo over $IMGBUILD_RESULT; exit 3"]]
"""
    )
    done = host.push("classics")
    assert done.code == 8
    assert set(done.states.values()) == {"pushed"}  # the report is no less whole
    (found,) = done.report["findings"]
    assert (found["what"], found["detail"]) == ("after-push: sh ended with code 3", "over ok")
    first, *rest = said.read_text().splitlines()
    assert first == f"IMGBUILD_IMAGE={TAG}"
    assert sorted(rest) == ["node1 fleet", "node3 fleet"]
    nodes.write_text(f'{text}[hooks]\nbefore-node = [["sh", "-c", "echo busy; exit 1"]]\n')
    failed = host.push("containerds")
    assert failed.codes == {"node2": "hook-failed", "node4": "hook-failed"}
    assert "busy" in failed.out
    assert not host.nodes[1].engine.ids()
    nodes.write_text(f'{text}[hooks]\nafter-node = [["false"]]\n')
    failed = host.push("node2")
    assert failed.codes == {"node2": "hook-failed"}
    (outcome,) = host.receipts()[-1]["nodes"]  # the image is there all the same
    assert (outcome["tags"], TAG in host.nodes[1].engine.ids()) == ([TAG], True)


def test_an_image_that_did_not_pass_its_gates(host: Host) -> None:
    host.has(OLD, labels={**GOOD, "io.imgbuild.gates": "2 of 3"})
    refused = host.push("classics")
    assert refused.code == 8
    assert refused.report["findings"][0]["code"] == "ungated"
    assert not host.nodes[0].engine.ids()
    forced = host.push("classics", "--force")
    assert forced.code == 0, forced.err
    assert host.receipts()[-1]["forced"] is True


def test_dry_run_changes_nothing(host: Host) -> None:
    host.has(*BASE)
    done = host.push("all", "--dry-run")
    assert set(done.states.values()) == {"planned"}
    assert not any(n.engine.ids() for n in host.nodes)
    assert not host.receipts()


def test_a_limit_holds(host: Host) -> None:
    host.has(Layer(4000 * KB, 9))
    done = host.push("node1,node2", "--limit-rate", "2 MB", "--compress", "none")
    assert done.code == 0, done.err
    assert done.report["seconds"] > 3.5


def test_two_pushes_at_once(host: Host) -> None:
    config = host.has(*BASE, OLD, TOP)
    both = [host.start("push", "--nodes", "all", "--json") for _ in range(2)]
    for running in both:
        out, err = running.communicate(timeout=120)
        assert running.returncode == 0, out + err
    for node in host.nodes:
        assert set(node.engine.ids()) == {TAG}
        assert layers_of(node) == layers_of_source(host)
    assert host.nodes[0].engine.ids()[TAG] == config


@pytest.mark.parametrize("rates", [(2, 6), (3, 2)])  # the second ends first, or the first
def test_two_pushes_of_different_images_at_once(host: Host, rates: tuple[int, int]) -> None:
    """Of one lane, with the same tags: the former image of one is the other, whoever ends first,
    and what one left there is no ground for the other."""
    host.has(BASE[1])
    assert host.push().code == 0
    former = [n.engine.ids()[TAG] for n in host.nodes]
    images, running = [], []
    for i, rate in enumerate(rates):
        own = [Layer(1500 * KB, 300 + 10 * i + j) for j in range(5)]
        host.has(BASE[1], *own, day=13 + i, labels={**GOOD, "number": str(i)})
        images.append(layers_of_source(host))
        running.append(host.start("push", "--nodes", "all", "--json", "--limit-rate", f"{rate} MB",
                                  "--compress", "none", IMGBUILD_PUSH_BATCH="1"))  # fmt: skip
        until(lambda: "imgbuild-transfer" in str(host.nodes[0].engine.ids()), "nothing moves")
        assert running[0].poll() is None
    for one in running:
        out, err = one.communicate(timeout=120)
        assert one.returncode == 0, out + err
    for node, old in zip(host.nodes, former, strict=True):
        ids = node.engine.ids()
        assert set(ids) - {"<none>:<none>"} == {TAG, f"{TAG}-previous"}
        assert {layers_of(node), layers_of(node, f"{TAG}-previous")} == set(images)
        assert old not in (ids[TAG], ids[f"{TAG}-previous"])
        assert not node.docker("container", "ls", "-aq")
    assert not list(host.fleet.folder.glob(".imgbuild-transfer*"))
    assert not list(Path.home().glob(".imgbuild-transfer*"))


def layers_of_source(host: Host) -> str:
    return host.fleet.source.docker("image", "inspect", "-f", "{{json .RootFS.Layers}}", TAG)
