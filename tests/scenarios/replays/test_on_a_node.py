"""Failures that only a push shows, on a real node: an engine of the other store behind ssh."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet import fleet as fleets
from tests.fleet import images
from tests.fleet.fleet import Fleet
from tests.fleet.images import GOOD, Layer
from tests.scenarios.conftest import Ran, Workplace
from tests.scenarios.replays.conftest import Replay

pytestmark = pytest.mark.fleet
LAYERS = (Layer(500_000, 1), Layer(20_000, 2))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    if lacking := fleets.missing():
        pytest.skip(lacking)
    with fleets.fleet(("containerd",), data=tmp_path_factory.mktemp("fleet")) as made:
        yield made


@pytest.fixture
def host(fleet: Fleet, tmp_path: Path) -> Replay:
    """The machine that pushes to node1; neither has an image yet."""
    for engine in (fleet.source, fleet.nodes[0].engine):
        engine.empty()
    (tmp_path / "project").mkdir()
    (tmp_path / "project/nodes.toml").write_text("schema = 1\n[nodes.node1]\n")
    own = {
        "IMGBUILD_SSH_CONFIG": str(fleet.ssh_config),
        "IMGBUILD_STATE": str(tmp_path / "state"),
        "IMGBUILD_CACHE": str(tmp_path / "cache"),
        "IMGBUILD_NODES": str(tmp_path / "project/nodes.toml"),
        "XDG_RUNTIME_DIR": str(fleet.folder),
    }
    return Replay(Workplace(tmp_path / "project", {**os.environ, **fleet.source.env, **own}))


def test_s9_a_node_that_names_the_image_anew(host: Replay, fleet: Fleet) -> None:
    """Its engine stamps another digest; the second push knows the image all the same."""
    images.load(fleet.source, images.archive(LAYERS, ["fleet:local"]))
    words = ("push", "fleet:local", "--nodes", "node1")
    assert host.place.run(*words).code == 0
    here, there = (e.ids()["fleet:local"] for e in (fleet.source, fleet.nodes[0].engine))
    assert here != there
    before = fleet.sent()
    again = host.place.run(*words)
    assert fleet.sent() - before < 200_000  # ssh and its questions: no layer went
    host.compare("S9-a-digest-that-was-stamped-anew", words, _table(again))


def test_s10_an_image_whose_inputs_are_lost(host: Replay, fleet: Fleet) -> None:
    """It carries no lock: `push` refuses it, and on a node it is told apart."""
    images.load(fleet.source, images.archive(LAYERS, ["fleet:r12"], {}))
    host.expect("S10-an-image-without-a-lock", "push", "fleet:r12", "--nodes", "node1")
    images.load(fleet.nodes[0].engine, images.archive(LAYERS, ["fleet:r12"], {}))
    images.load(fleet.nodes[0].engine, images.archive(LAYERS[:1], ["fleet:r13"], GOOD))
    words = ("nodes", "status", "node1")
    host.compare("S10-a-node-that-has-one", words, _table(host.place.run(*words)))


def _table(ran: Ran) -> Ran:
    """With every line of its report kept, as findings are."""
    out = re.sub(r"(?m)^(?=\S)", "        ", ran.out)
    return Ran(ran.code, out, ran.err)
