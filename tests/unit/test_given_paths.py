"""Paths on the command line are read from the folder that -C names, in every command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
import tomlkit

from builder.cli.commands import nodes_cache
from builder.cli.options import GivenPath
from builder.errors import ToolFailed
from builder.pipeline import caches
from tests.unit.importers.files import R31
from tests.unit.locks import lane_table, lock_table
from tests.unit.test_endings import EVERY, Run, report, run

__all__ = ["run"]


@pytest.fixture
def project(tmp_path: Path, run: Run) -> Path:
    """A project in `in/`, seen from the folder above it, with a lane that declares caches."""
    lane, lock = lane_table(), lock_table()
    lane |= {"gates": [], "imported": [], "base": {"runtime": lane["base"]["runtime"]}}
    lock["base"].pop("tools")
    (tmp_path / "in/locks").mkdir(parents=True)
    (tmp_path / "in/locks/demo.toml").write_text(tomlkit.dumps(lane))
    (tmp_path / "in/locks/demo.lock").write_text(tomlkit.dumps(lock))
    (tmp_path / "nodes.toml").write_text("schema = 1\n[nodes.dgx1]\n")
    return tmp_path


def test_every_path_is_read_that_way() -> None:
    params = [(words, param) for words, command in EVERY.items() for param in command.params
              if isinstance(param.type, click.Path)]  # fmt: skip
    assert {
        "nodes cache pull",
        "export",
        "gate",
        "build",
        "import",
        "lock-merge",
        "patch refresh",
    } == {" ".join(words) for words, _ in params}
    assert [param for _, param in params if not isinstance(param.type, GivenPath)] == []


def test_import_and_export(project: Path, run: Run) -> None:
    (project / "in/r31.json").write_bytes(R31.read_bytes())
    assert run("-C", "in", "import", "r31.json", "--lane", "r31")[0] == 0
    assert report(run("import", "r31.json", "--lane", "r31", "--json"), 2)["code"] == "usage"
    words = ("export", "r31", "--format", "source-lock", "-o")
    assert run("-C", "in", *words, "out")[0] == 0
    assert run("-C", "in", *words, str(project / "other"))[0] == 0
    (one,), (other,) = (project / "in/out").iterdir(), (project / "other").iterdir()
    assert one.read_bytes() == other.read_bytes() == R31.read_bytes()


PULL = ("nodes", "cache", "pull", "demo", "--from", "dgx1", "--to")


def test_where_a_cache_is_pulled_to(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def pull(*words: Any, **_: Any) -> None:
        asked.append(words[2])
        raise ToolFailed("not now")

    monkeypatch.setattr(caches, "pull", pull)
    for folder, to in (("in", "kept"), ("in", "./kept/"), ("in/locks", "../kept"),
                       ("in", str(project / "in/kept"))):  # fmt: skip
        assert run("-C", folder, *PULL, to)[0] == 9
    assert {path.resolve() for path in asked} == {project / "in/kept"}
    assert all(path.is_absolute() for path in asked)


@pytest.mark.parametrize(
    ("to", "says"),
    [("locks/demo.toml", "is a file"), ("locks", "is not empty"), ("..", "is not empty")],
)
def test_where_a_cache_cannot_be_pulled_to(project: Path, run: Run, to: str, says: str) -> None:
    found = report(run("-C", "in", *PULL, to, "--json"), 2)
    assert says in found["what"]
    assert found["hint"]


def test_the_folder_that_a_cache_is_pushed_from(project: Path, run: Run) -> None:
    words = ("nodes", "cache", "push", "demo", "--nodes", "dgx1", "--json", "--from")
    assert f"{project}/in/kept holds no cache" in report(
        run("-C", "in", *words, "./kept"), 2
    )["what"]  # fmt: skip
    (project / "in/kept").mkdir()
    (project / "in/kept" / nodes_cache.caches.scripts.KEY_FILE).write_text("{}")
    ended = run("-C", "in", *words, "./kept")
    assert json.loads(ended[1])["findings"][0]["code"] == "cache-damaged"
