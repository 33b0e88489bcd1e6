"""Chains: who passes on to whom, when it is worth it, and the script that does it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from builder.model.distribution import NodePlan, Plan, Transport
from builder.model.nodes import Node
from builder.steps.distribution import chain
from builder.tools.ssh_guard import GUARD
from tests.unit.test_distribution import IMAGE, facts

DATA = os.urandom(300_000)


def plan(name: str, *missing: int, transport: Transport = "load") -> NodePlan:
    return NodePlan(Node(name, name), facts(), transport, missing)


def shown(found: Plan) -> list[str]:
    return [f"{n.node.name} {n.transport} {n.via} {n.reach}".strip() for n in found.nodes]


def test_who_lacks_the_same_layers_passes_them_on() -> None:
    nodes = (plan("a", 1, 2), plan("b", 2), plan("c", 1, 2), plan("d", 1, 2, transport="pull"),
             plan("e"))  # fmt: skip
    found = Plan(IMAGE, nodes)
    assert [[n.node.name for n in group] for group in chain.groups(found)] == [["a", "c", "d"]]
    linked = chain.linked(found, {("a", "c"): "x@c", ("c", "d"): "d"})
    assert shown(linked) == ["a load", "b load", "c chain a x@c", "d chain c d", "e load"]
    names = [[n.node.name for n in route] for route in chain.routes(linked)]
    assert names == [["a", "c", "d"], ["b"], ["e"]]
    # Where ssh does not go on, this host sends, as it would have.
    assert shown(chain.linked(found, {("a", "c"): "c"}))[3] == "d pull"
    assert shown(chain.linked(found, {("c", "d"): "d"})) == shown(found)


@pytest.mark.parametrize(
    ("alone", "together", "limit", "worth"),
    [
        (50e6, 12e6, None, True),  # 400 Mbit shared by four
        (50e6, 45e6, None, False),  # each node's own link is as slow
        (1200e6, 300e6, None, False),  # the nodes' loads are slower than that
        (1200e6, 300e6, 50e6, True),  # --limit-rate
    ],
)
def test_when_a_chain_is_worth_it(
    alone: float, together: float, limit: float | None, worth: bool
) -> None:
    assert chain.is_worth(alone, together, 4, limit) is worth


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    """Programs of nodes: docker keeps what it reads, ssh runs the words in a shell here."""
    programs = {
        "docker": '[ "$1 $2" = "load -q" ] || exit 9; cat >"$OUT/$1.$$"; [ ! -e "$OUT/full" ]',
        "fail": 'head -c 1000 >/dev/null; echo no space left on device >&2; exit 1',
        "ssh": 'for it; do :; done; case $* in *" nowhere "*) exit 255;; esac; exec sh -c "$it"',
    }  # fmt: skip
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("second", "to", "said", "copies"),
    [
        ("docker", "n2", ["ok n1", "ok n2", "ok n3"], 3),
        ("fail", "n2", ["ok n1", "ok n3"], 2),  # it passes on what it cannot take
        ("docker", "nowhere", ["ok n1"], 1),
    ],
)
def test_each_node_says_what_it_has(
    nodes: Path, second: str, to: str, said: list[str], copies: int
) -> None:
    route = [
        replace(plan(name, 0), reach=reach,
                facts=replace(facts(), docker=("env", f"OUT={nodes}", docker)))
        for name, reach, docker in (
            ("n1", "", "docker"), ("n2", to, second), ("n3", "n3", "docker"),
        )
    ]  # fmt: skip
    assert "'" not in chain.SCRIPT + GUARD
    env = {"PATH": f"{nodes}:{os.environ['PATH']}", "TMPDIR": str(nodes)}
    before = set(nodes.iterdir())
    done = subprocess.run(
        ["sh", "-c", chain.command(route, "cat", GUARD, 3)], env=env, input=DATA,
        capture_output=True, timeout=20, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.decode().splitlines()) == said
    made = set(nodes.iterdir()) - before
    assert [path.read_bytes() == DATA for path in made] == [True] * copies  # and nothing else


def test_a_first_node_that_takes_nothing(nodes: Path) -> None:
    route = [plan("n1", 0), replace(plan("n2", 0), reach="n2")]
    (nodes / "full").touch()
    env = {"PATH": f"{nodes}:{os.environ['PATH']}", "OUT": str(nodes), "TMPDIR": str(nodes)}
    for count in (1, 2):
        done = subprocess.run(["sh", "-c", chain.command(route, "cat", GUARD, count)], env=env,
                              input=DATA, capture_output=True, timeout=20, check=False)  # fmt: skip
        assert done.returncode == 1
