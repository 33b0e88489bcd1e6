"""What a push decides: what is missing where, by which way, and what proves an image."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import replace

import pytest

from builder.errors import Finding
from builder.model.distribution import (
    Blob,
    NodeFacts,
    NodeImage,
    Outcome,
    SourceImage,
    Store,
    chain_ids,
)
from builder.model.label_names import CREATED as CREATED_LABEL
from builder.model.label_names import GATES, PROVEN
from builder.model.nodes import Node
from builder.model.proven import digest
from builder.steps.distribution import archives, arrive, fleet, plan, probe, said

LABELS = {
    "io.imgbuild.lane": "demo", "io.imgbuild.build-id": "ab" * 32, "io.imgbuild.gates": "2 of 2",
}  # fmt: skip
IDS = tuple(f"sha256:{i:064x}" for i in range(9))
CREATED = "2025-09-12T18:40:00Z"
IMAGE = SourceImage(IDS[8], IDS[:4], ("demo:local",), LABELS, "arm64", CREATED, 4_000_000_000)
DIGEST = digest(IDS[:4], ["A=b"], (), ("sh",), "")
NODE = Node("n", "n")


def node_image(
    layers: tuple[str, ...], *tags: str, id_: str = IDS[7], created: str = CREATED,
    labels: Mapping[str, str] = LABELS,
) -> NodeImage:  # fmt: skip
    return NodeImage(id_, layers, tags, labels, "arm64", created, 1)


def facts(*images: NodeImage, store: Store = "classic", free: int | None = 10**12,
          arch: str = "arm64") -> NodeFacts:  # fmt: skip
    return NodeFacts(("docker",), "26", store, arch, free, frozenset({"zstd"}), images)


def planned(about: NodeFacts, *, fast: bool = False, pulls: bool = True) -> plan.NodePlan:
    found = plan.plan(
        IMAGE, IDS[8], {NODE: about}, tags=["demo:local"], can_pull=pulls, always_pull=False,
        is_fast=fast,
    )  # fmt: skip
    assert not found.refused
    return found.nodes[0]


def test_chain_ids() -> None:
    """As the OCI image-spec defines it: the hash of the chain below, a space, the diff id."""
    a, b = chain_ids(("sha256:" + "a" * 64, "sha256:" + "b" * 64))
    assert a == "sha256:" + "a" * 64
    assert b == "sha256:ccd722928bd92476ba1745586fed6e45a102504185ad88cd89e01ff116fd146c"


def test_layers_are_missing_from_where_the_chains_part() -> None:
    assert plan.missing_layers(IMAGE, facts()) == (0, 1, 2, 3)
    assert plan.missing_layers(IMAGE, facts(node_image(IDS[:2]))) == (2, 3)
    # The same diff id above another layer is another layer.
    assert plan.missing_layers(IMAGE, facts(node_image((IDS[0], IDS[5], IDS[2])))) == (1, 2, 3)


def test_the_way_follows_store_state_and_link() -> None:
    assert planned(facts(), fast=True).transport == "pull"
    assert planned(facts(), fast=False).transport == "load"
    assert planned(facts(node_image(IDS[:2])), fast=True).transport == "load"
    assert planned(facts(store="containerd")).transport == "pull"
    assert planned(facts(store="containerd"), pulls=False).transport == "load"


def test_an_image_that_is_there_moves_nothing() -> None:
    there = node_image(IDS[:4], "demo:local", id_=IDS[8])
    assert planned(facts(there)).is_settled
    found = planned(facts(node_image(IDS[:4], "demo:old", id_=IDS[8])))
    assert (found.transport, found.moves, found.is_settled) == (None, ("demo:local",), False)
    # A containerd store calls it otherwise, and is asked again whether its content is there.
    other = planned(facts(node_image(IDS[:4], "demo:local", id_=IDS[3]), store="containerd"))
    assert (other.transport, other.present, other.is_settled) == (None, IDS[3], False)
    # What arrived and was not proved is not there.
    assert (
        planned(facts(node_image(IDS[:4], "imgbuild-transfer:x", id_=IDS[8]))).transport == "load"
    )
    # Same layers, another config: it is another image.
    assert planned(facts(node_image(IDS[:4], "demo:local", labels={}))).missing == ()


def test_what_cannot_work_is_refused_before_anything_moves() -> None:
    def code(about: NodeFacts, node: Node = NODE) -> str | None:
        found = plan.refusal(IMAGE, node, about, is_there=False)
        return found.code if found else None

    assert code(facts(arch="amd64")) == "wrong-architecture"
    assert code(facts(), Node("n", "n", "amd64")) == "wrong-architecture"
    assert code(facts(free=10**9)) == "no-space"
    assert code(facts(node_image(IDS[:3]), free=10**9)) is None
    assert code(facts(free=None)) is None


@pytest.mark.parametrize(
    ("sizes", "needs", "expected"),
    [
        ([1, 1, 1, 1], [(0, 1, 2, 3)], ((0, 1, 2, 3),)),
        ([9, 1, 1, 9], [(0, 1, 2, 3)], ((0,), (1, 2), (3,))),
        ([1, 1, 1, 1], [(0, 1, 2, 3), (2, 3)], ((0, 1), (2, 3))),
        ([1, 1, 1, 1], [(3,), ()], ((3,),)),
        ([1, 1], [()], ()),
    ],
)
def test_batches(
    sizes: list[int], needs: list[tuple[int, ...]], expected: tuple[tuple[int, ...], ...]
) -> None:
    assert plan.batches(sizes, needs, smallest=5) == expected


def test_gates() -> None:
    assert plan.passed_gates(IMAGE)
    for labels in ({}, {**LABELS, GATES: "1 of 2"}, {**LABELS, GATES: "all"}):
        assert not plan.passed_gates(replace(IMAGE, labels=labels))


def test_an_image_that_inherits_its_labels_is_not_the_one_that_the_gates_saw() -> None:
    proven = replace(IMAGE, labels={**LABELS, PROVEN: DIGEST}, digest=DIGEST)
    older = replace(IMAGE, labels={**LABELS, CREATED_LABEL: CREATED},
                    created="2025-09-12T18:40:00.000000000Z")  # fmt: skip
    assert plan.passed_gates(proven)
    assert plan.passed_gates(older)
    derived = (
        replace(proven, digest=digest(IDS[:5], ["A=b"], (), ("sh",), "")),
        replace(proven, digest=digest(IDS[:4], ["A=c"], (), ("sh",), "")),
        replace(older, created="2026-01-01T00:00:00.123456789Z"),
    )
    for image in derived:
        assert not plan.passed_gates(image)
        with pytest.raises(plan.Ungated, match=r"is derived from build [0-9a-f]{12}, and no gate"):
            plan.check_gates(image, force=False)
        plan.check_gates(image, force=True)


def test_tags_that_move() -> None:
    names = ("a:local", "a:local-previous", "imgbuild-transfer:x", f"a:{'ab' * 6}")
    image = SourceImage(IDS[8], IDS[:1], names, LABELS, "arm64", CREATED, 1)
    assert plan.tags_to_move(image) == (f"a:{'ab' * 6}", "a:local")


def test_an_archive_names_its_layers_and_its_manifest() -> None:
    config = json.dumps({"rootfs": {"diff_ids": IDS[:2]}, "architecture": "arm64"}).encode()
    blobs = [Blob(i, 3) for i in IDS[:2]]
    oci = archives.manifest(config, blobs)
    data = archives.member(IDS[1], 3) + b"abc" + archives.padding(3)
    data += archives.tail(config, IDS[:2], "imgbuild-transfer:x", oci)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        names = tar.getnames()
        listed = json.load(tar.extractfile("manifest.json"))  # type: ignore[arg-type]
        index = json.load(tar.extractfile("index.json"))  # type: ignore[arg-type]
    assert names[0] == f"blobs/sha256/{IDS[1][7:]}"
    assert listed[0]["Layers"] == [f"blobs/sha256/{i[7:]}" for i in IDS[:2]]
    assert index["manifests"][0]["digest"] == archives.digest(oci)
    assert json.loads(archives.prefix_config(config, 1))["rootfs"]["diff_ids"] == [IDS[0]]


def arrived(image: NodeImage | None, **changes: object) -> arrive.Arrived:
    values: dict[str, object] = {"listed": True, "creatable": True, "image": image, "moved": {}}
    return arrive.Arrived(**{**values, **changes})  # type: ignore[arg-type]


def test_only_the_image_itself_is_proof() -> None:
    good = node_image(IDS[:4], id_=IDS[8])
    words = {"want": IDS[8], "config": IDS[8], "manifest": ""}
    assert arrive.judge("n", arrived(good), IMAGE, **words) == "config digest and diff ids"
    for wrong in (arrived(None), arrived(good, listed=False), arrived(good, creatable=False)):
        with pytest.raises(arrive.NotArrived):
            arrive.judge("n", wrong, IMAGE, **words)
    for image in (node_image(IDS[:3], id_=IDS[8]), node_image(IDS[:4], id_=IDS[6])):
        with pytest.raises(arrive.OtherImage):
            arrive.judge("n", arrived(image), IMAGE, **words)
    with pytest.raises(arrive.NotArrived):
        arrive.read("n", "-- listed\n")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("motd\n-- nodocker\n", probe.NoDocker),
        ("-- silent\npermission denied while trying to connect\n", probe.DockerDenied),
        ("-- silent\nCannot connect to the Docker daemon\n", probe.EngineSilent),
        ("Welcome!\n", probe.ProbeGarbled),
        ("-- docker\ndocker\n-- info\n/d\nnot json\n-- images\n", probe.ProbeGarbled),
    ],
)
def test_answers_that_are_none(answer: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        probe.read("n", answer)


@pytest.mark.parametrize(
    "image",
    ['{"Id": "x", "Config": "str"}', '{"Id": "x", "RootFS": [1]}', '{"Id": "x", "Size": 1e999}',
     '{"Id": "x", "Config": {"Labels": [1]}}', '{"Id": ' + "[" * 100_000, '{"RepoTags": [1]}'],
)  # fmt: skip
def test_a_node_that_answers_nonsense_fails_alone(image: str) -> None:
    info = '{"ServerVersion": "26", "Architecture": "x86_64", "DriverStatus": []}'
    answer = f"-- docker\ndocker\n-- info\n/d\n{info}\n-- space\n\n-- images\n"
    assert probe.read("n", answer + "-- end\n").images == ()
    with pytest.raises(probe.ProbeGarbled):
        probe.read("n", f"{answer}{image}\n-- end\n")


@pytest.mark.parametrize(
    ("what", "line"),
    [("n: its disk is full", "its disk is full"), ("n has 1 GB free", "has 1 GB free"),
     ("nn has none", "nn has none")],
)  # fmt: skip
def test_a_line_names_its_node_once(what: str, line: str) -> None:
    outcome = Outcome("n", "failed", 0, 0, 0, finding=Finding("x", what))
    assert said.ended(outcome) == line


def test_what_to_type_names_the_node() -> None:
    with pytest.raises(probe.ProbeGarbled) as garbled:
        probe.read("dgx7", "hello")
    assert "ssh dgx7 docker info" in garbled.value.findings[0].hint


def test_what_may_be_pruned() -> None:
    def build(n: int, *tags: str) -> NodeImage:
        labels = {**LABELS, fleet.BUILD_ID: f"{n:012x}" + "0" * 52}
        return node_image(IDS[:1], *tags, id_=IDS[n], created=f"2025-09-0{n}", labels=labels)

    images = (
        build(1, "a:000000000001"), build(2, "a:000000000002", "other:x"),
        build(3, "a:000000000003"), build(4, "a:local-previous"), build(5, "a:local"),
        node_image(IDS[:2], f"{plan.transfer_names(LABELS)}x-2", id_=IDS[6], labels={}),
        node_image(IDS[:3], f"{plan.transfer_names(LABELS)}x-3", "b:1", id_=IDS[7], labels={}),
        node_image(IDS[:3], f"{plan.transfer_names({})}x-3", id_=IDS[7], labels={}),
    )  # fmt: skip
    found = fleet.prunable(facts(*images), "demo", frozenset({IDS[3]}), keep=1)
    assert [image.id for image in found] == [IDS[6], IDS[1]]
