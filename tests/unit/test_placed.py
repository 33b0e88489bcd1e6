"""What a tool cannot know of a failure (lane, entry, place) is filled in by who knows it."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from builder.cli.options import lane_named
from builder.errors import Place, SourceError, ToolFailed
from builder.model.values import GitPin
from builder.steps.placed import placed
from builder.tools import git_words
from builder.tools.git_words import Why
from builder.tools.packages import PackageUnavailable, again

PLACE = Place(Path("locks/demo.lock"), key=("python", "infer"))


def test_place_lane_and_entry() -> None:
    with pytest.raises(PackageUnavailable) as caught, placed("infer", PLACE):
        raise PackageUnavailable("flash-infer: no such wheel", hint=again())
    (found,) = caught.value.findings
    assert (found.what, found.place) == ("infer: flash-infer: no such wheel", PLACE)
    assert found.hint.startswith("if git diff locks/demo.lock shows an edit: git checkout -- ")
    assert found.hint.endswith("if another version is wanted: imgbuild lock demo --update infer")


def test_a_place_that_is_known_better_stays() -> None:
    at = Place(Path("locks/other.toml"), 3)
    with pytest.raises(SourceError) as caught, placed("infer", PLACE):
        raise SourceError("x", hint="imgbuild fetch LANE", place=at)
    assert caught.value.findings[0].place == at


def test_hints_name_the_lane_of_the_command() -> None:
    @click.command()
    @click.argument("lane")
    def command(lane: str) -> None:
        with lane_named():
            raise ToolFailed("x", hint="imgbuild nodes prune LANE --nodes a; PLANES stay")

    with pytest.raises(ToolFailed) as caught:
        command.main(["demo"], standalone_mode=False)
    assert caught.value.findings[0].hint == "imgbuild nodes prune demo --nodes a; PLANES stay"


@pytest.mark.parametrize(
    ("pin", "says"),
    [
        (GitPin("k", ("u",), "1", "refs/heads/main", PLACE), "imgbuild lock demo --update infer"),
        (GitPin("k", ("u",), "1", "refs/heads/main"), "imgbuild lock LANE --update k"),
        (GitPin("k/pull/7", ("u",), "1", "refs/pull/7/head"), "mirrors of k in the lane"),
        (GitPin("k", ("u",), "1"), "or name another commit there"),
        (GitPin("k/third_party/x", ("https://h/x",), "1"), 'insteadOf "https://h/x"'),
    ],
)
def test_cures(pin: GitPin, says: str) -> None:
    assert says in git_words.cure(pin, {Why.REFUSED})
    assert ("--update" in git_words.cure(pin, {Why.REFUSED})) == (pin.ref is not None)


@pytest.mark.parametrize("why", [Why.DAMAGED, Why.NOT_FOUND, Why.UNREACHABLE, Why.TRANSIENT])
def test_mirrors_are_not_advised_for_submodules(why: Why) -> None:
    def said(name: str) -> str:
        return git_words.cure(GitPin(name, ("https://h/x",), "1"), {why})

    assert ("insteadOf" in said("k/x"), "mirrors" in said("k/x")) == (True, False)
    assert "insteadOf" not in said("k")
