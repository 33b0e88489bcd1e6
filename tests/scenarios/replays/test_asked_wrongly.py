"""Commands that are asked for what is not there, and locks that were edited: one clear answer."""

from __future__ import annotations

import json

import pytest

from tests.scenarios.conftest import repository
from tests.scenarios.replays.conftest import Replay
from tests.scenarios.replays.test_before_the_build import LOCK, locked_value

DEMO = "sketch"
NOWHERE = {"DOCKER_HOST": "unix:///nonexistent/docker.sock"}


def test_a_path_for_a_lane(replay: Replay) -> None:
    for words in (("build", "locks/demo.toml"), ("check", "./locks/demo.lock")):
        done = replay.place.run(*words)
        assert done.code == 3
        assert "did you mean demo?" in done.out + done.err


def test_no_lock_is_one_finding(replay: Replay) -> None:
    (replay.place.root / LOCK).unlink()
    for words in (("check", "demo"), ("verify-lock", "demo")):
        done = replay.place.run(*words)
        told = done.out + done.err
        assert done.code == 3
        assert told.count("error[") == told.count("hint:") == told.count("imgbuild lock demo") == 1
        assert "  | sources.kern lacks: tree" in told


def test_a_plan_of_a_lock_that_was_edited(replay: Replay) -> None:
    """It says what a build would say, and announces none."""
    assert replay.place.run("plan", "demo").code == 0
    good = (replay.place.root / LOCK).read_text()
    locked_value("tree", "7" * 40)(replay.place)
    done = replay.place.run("plan", "demo")
    assert (done.code, done.out) == (4, "")
    assert "error[tree-mismatch]" in done.err
    (replay.place.root / LOCK).write_text(good)
    locked_value("time", "1")(replay.place)
    text = (replay.place.root / LOCK).read_text().replace('time = "1"', "time = 1")
    (replay.place.root / LOCK).write_text(text)
    assert replay.place.run("plan", "demo").code == replay.place.run("check", "demo").code == 4


def test_without_an_engine_check_says_what_it_left(replay: Replay) -> None:
    replay.place.env.update(NOWHERE)
    done = replay.place.run("check", "demo")
    assert done.code == 0
    assert "not checked: the engine: its version, platform and free disk (" in done.err


@pytest.mark.docker
def test_with_an_engine_check_looks_at_it(replay: Replay) -> None:
    (with_engine,) = json.loads(replay.place.good("check", "demo", "--json").out)
    assert with_engine["unchecked"] == []
    replay.place.env.update(NOWHERE)
    (without,) = json.loads(replay.place.good("check", "demo", "--json").out)
    assert with_engine["checks"] > without["checks"]


@pytest.mark.docker
def test_the_name_of_a_lane_for_an_image(replay: Replay) -> None:
    image = f"{repository(replay.place)}:local"
    for word in ("demo", "dmo", "locks/demo.toml"):
        done = replay.place.run("inspect", word)
        assert done.code == 2
        assert f"did you mean {image}, of lane demo?" in done.err
    assert "docker images lists" in replay.place.run("inspect", "nothing-like-it").err
