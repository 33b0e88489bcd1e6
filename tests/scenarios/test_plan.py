"""diff, explain and plan on the demo: what a build then does lies within what was said."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.integration.worktrees import git
from tests.scenarios.conftest import Workplace

pytestmark = pytest.mark.docker

PATCH = "patches/kern/gb10/0003-gb10-reduce-with-a-full-block.patch"
FILE = "docker-images/demo/Dockerfile"


def python_of_a_patch(place: Workplace) -> None:
    place.edit(PATCH, ("Say whether a kernel beats", "Say whether a kernel may beat"))


def native_of_a_patch(place: Workplace) -> None:
    place.edit(PATCH, ("<<<1, 1024>>>", "<<<1, 512>>>"))


def the_arch_list(place: Workplace) -> None:
    place.edit("locks/demo.toml", ('cuda-arch-list = "12.1a"', 'cuda-arch-list = "12.1a;12.0a"'))


def a_stage_of_the_dockerfile(place: Workplace) -> None:
    copied = "cp -r /src/loader /out/opt/demo/loader"
    place.edit(FILE, (copied, f"{copied} && touch /out/opt/demo/new"))


def a_remark_in_it(place: Workplace) -> None:
    place.edit(FILE, ("# The Python packages.", "# The packages of Python."))


def a_gate(place: Workplace) -> None:
    place.edit("locks/demo.toml", ('name = "liburing-dev"', 'name = "liburing2"'))


@pytest.mark.parametrize(
    ("change", "runs"),
    [
        (python_of_a_patch, {"minipkg", ""}),
        (native_of_a_patch, {"kern-cuda", ""}),
        (the_arch_list, {"kern-cuda", ""}),
        (a_stage_of_the_dockerfile, {"loader", ""}),
        (a_remark_in_it, {""}),
        (a_gate, {""}),
    ],
)
def test_a_build_does_no_more_than_the_plan_says(
    workplace: Workplace, change: Callable[[Workplace], None], runs: set[str]
) -> None:
    workplace.good("build", "demo")
    assert "nothing to do" in workplace.good("plan", "demo").out
    git(workplace.root, "init", "-q")
    git(workplace.root, "add", "-f", "locks", "patches", "docker-images")
    git(workplace.root, "commit", "-qm", "one")
    change(workplace)
    if change not in (the_arch_list, a_gate):  # these are the lane's own
        assert workplace.run("plan", "demo").code == 3
    workplace.good("lock", "demo")
    planned = json.loads(workplace.good("plan", "demo", "--json").out)["changes"]
    explained = json.loads(workplace.good("explain", "demo@HEAD", "demo", "--json").out)
    said = {_name(s["stage"]) for s in planned["dockerfile"] if s["runs"]}
    assert said == runs == {_name(s["stage"]) for s in explained["dockerfile"] if s["runs"]}
    record = json.loads(workplace.good("build", "demo", "--json").out)
    steps = [s for s in record["steps"] if not s["cached"] and not s["name"].startswith("FROM ")]
    ran = {step["stage"] for step in steps}
    ours = {s["stage"] for s in planned["dockerfile"]} | {""}
    assert ran & ours <= said


def test_without_an_engine_the_rest_is_told(workplace: Workplace) -> None:
    workplace.env["DOCKER_HOST"] = "unix:///nonexistent.sock"
    done = workplace.good("plan", "demo")
    assert "no Docker engine answers" in done.out
    assert "every stage runs" in done.out


def _name(stage: str) -> str:
    return "" if stage == "image" else stage
