"""Rollback: on all nodes or on none, whatever comes between."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from builder.model.nodes import Node
from builder.pipeline.nodes_fleet import RollbackUndone, rollback
from builder.steps.distribution import fleet, probe
from builder.steps.labels import LANE
from builder.tools.ssh_words import NodeFailed

OLD, NEW = (f"sha256:{digit * 64}" for digit in "ab")
INFO = {"ServerVersion": "26", "Architecture": "x86_64", "DriverStatus": []}


class Machine:
    """A node with two images of the lane demo, whose tags can be swapped, or not."""

    def __init__(self, name: str, *wrong: BaseException | None) -> None:
        self.node = Node(name, name)
        self.tags = {"d:local": NEW, "d:local-previous": OLD}
        self.wrong = list(wrong)  # of each swap in turn

    def script(self, text: str, *words: str, timeout_s: float) -> str:
        if text == probe.SCRIPT:
            images = [
                json.dumps({"Id": i, "RepoTags": [t for t, at in self.tags.items() if at == i],
                            "Config": {"Labels": {LANE: "demo"}}})
                for i in (OLD, NEW)
            ]  # fmt: skip
            said = [f"/d\n{json.dumps(INFO)}", "", "\n".join(images), ""]
            names = ("info", "space", "images", "end")
            return "-- docker\ndocker\n" + "\n".join(
                f"-- {name}\n{part}" for name, part in zip(names, said, strict=True)
            )
        assert text == fleet.SWAP
        if self.wrong and (error := self.wrong.pop(0)):
            raise error
        self.tags |= dict(zip(words[1::2], words[2::2], strict=True))
        return ""


class Machines:
    """Connections to them."""

    folder = Path()

    def __init__(self, *machines: Machine) -> None:
        self.machines = {machine.node.name: machine for machine in machines}

    @contextlib.contextmanager
    def open(self, nodes: Sequence[Node]) -> Iterator[Any]:
        yield self

    def connect(self, node: Node) -> Any:
        return self.machines[node.name]


def run(*machines: Machine) -> None:
    connections: Any = Machines(*machines)
    rollback("demo", [machine.node for machine in machines], connections=connections)


def test_all_go_back() -> None:
    one, two = Machine("one"), Machine("two")
    run(one, two)
    assert one.tags == two.tags == {"d:local": OLD, "d:local-previous": NEW}


@pytest.mark.parametrize("error", [NodeFailed("two: no"), KeyboardInterrupt()])
def test_one_that_fails_or_is_interrupted_undoes_all(error: BaseException) -> None:
    one, two = Machine("one"), Machine("two", error)
    before = dict(one.tags)
    with pytest.raises((RollbackUndone, KeyboardInterrupt)):
        run(one, two)
    assert one.tags == two.tags == before


def test_what_could_not_be_undone_is_named() -> None:
    one = Machine("one", None, NodeFailed("one: gone"))
    with pytest.raises(RollbackUndone, match="not undone on one") as caught:
        run(one, Machine("two", NodeFailed("two: no")))
    assert "imgbuild nodes status" in caught.value.findings[0].hint
