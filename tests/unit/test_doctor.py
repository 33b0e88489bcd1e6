"""What a machine lacks, and which command then fails."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

import builder
from builder.model.values import EngineInfo
from builder.pipeline.doctor import OPTIONAL, Check, doctor
from builder.tools.docker_cli import not_installed
from tests.unit.test_endings import EVERY, Run, run

__all__ = ["run"]
ON_PATH = tuple(one for one in OPTIONAL if one.name != "pip")  # which is of our Python
PROGRAMS = {"git": "git version 2.39.5", "rsync": "rsync  version 3.2.7  protocol version 31"}


class Engine:
    def describe(self) -> EngineInfo:
        return EngineInfo("26.1.5", "classic", "linux/amd64", None)


class NoEngine:
    def describe(self) -> EngineInfo:
        raise not_installed()


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder where programs are; there are all of them."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("git", *(one.name for one in ON_PATH)):
        says(folder, name, PROGRAMS.get(name, f"{name} 9.9"))
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr("builder.pipeline.doctor.OPTIONAL", ON_PATH)
    return folder


def says(folder: Path, name: str, text: str, code: int = 0) -> None:
    (folder / name).write_text(f"#!/bin/sh\necho '{text}'\nexit {code}\n")
    (folder / name).chmod(0o755)


def seen(path: Path, engine: Any = Engine) -> dict[str, Check]:
    return {one.name: one for one in doctor(engine=engine(), cache=path.parent / "cache")}


def test_all_is_there(path: Path) -> None:
    found = seen(path)
    assert [one.name for one in found.values() if not one.passed] == []
    assert found["rsync"].seen == PROGRAMS["rsync"]
    assert all(one.uses for one in found.values())
    assert all(one.hint for one in found.values() if one.name != "cache")


@pytest.mark.parametrize(
    ("name", "command"),
    [("rsync", "nodes cache push"), ("flock", "nodes cache pull"), ("sha256sum", "nodes cache"),
     ("ssh", "push"), ("ssh", "nodes"), ("zstd", "uncompressed"), ("apt-get", "[debs]"),
     ("setpriv", "killed")],
)  # fmt: skip
def test_a_program_that_only_some_commands_need(
    path: Path, run: Run, name: str, command: str
) -> None:
    (path / name).unlink()
    missing = seen(path)[name]
    assert (missing.passed, missing.is_optional) == (False, True)
    assert missing.seen == f"{name} is not installed"
    assert command in missing.without
    code, out, _ = run("doctor")
    assert code == 10  # there is no engine
    text = out.decode()
    assert re.search(rf"^warning  {name} +{name} is not installed$", text, re.MULTILINE)
    assert f"         without it: {missing.without}\n         hint: {missing.hint}\n" in text
    rows = {row["name"]: row for row in json.loads(run("doctor", "--json")[1])}
    assert rows[name]["without"] == missing.without


def test_the_exit_code_is_of_what_every_build_needs(
    path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builder.cli.wiring.engine", Engine)
    for one in ON_PATH:
        (path / one.name).unlink()
    assert run("doctor")[0] == 0
    monkeypatch.setattr("builder.cli.wiring.engine", NoEngine)
    assert run("doctor")[0] == 10
    monkeypatch.setattr("builder.cli.wiring.engine", Engine)
    (path / "git").unlink()
    code, out, _ = run("doctor")
    assert code == 10
    assert out.decode().startswith("MISSING  git ")


@pytest.mark.parametrize(
    ("name", "text", "code", "what"),
    [("git", "git version 2.30.2", 0, "git is 2.30, 2.38 is the oldest that serves"),
     ("rsync", "rsync  version 2.6.9", 0, "rsync is 2.6, 3.1 is the oldest that serves"),
     ("zstd", "broken", 3, "zstd ended with code 3: broken")],
)  # fmt: skip
def test_a_program_that_does_not_serve(
    path: Path, name: str, text: str, code: int, what: str
) -> None:
    says(path, name, text, code)
    assert (seen(path)[name].passed, seen(path)[name].seen) == (False, what)


@pytest.mark.parametrize("text", ["git version", "git version next", "", "git version 3.GIT"])
def test_versions_that_are_no_number(path: Path, text: str) -> None:
    says(path, "git", text)
    assert seen(path)["git"].passed


def test_our_own_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (pip,) = set(OPTIONAL) - set(ON_PATH)
    monkeypatch.setattr("builder.pipeline.doctor.OPTIONAL", (pip,))
    assert seen(tmp_path / "bin")["pip"].seen.startswith("pip ")


def test_an_engine_that_is_not_there(path: Path) -> None:
    found = seen(path, NoEngine)["docker"]
    assert (found.passed, found.is_optional) == (False, False)
    assert found.without == "build, gate, inspect, push, patch extract fail"
    assert "apt-get install docker.io" in found.hint


def test_commands_that_are_named_are_there(path: Path) -> None:
    names = {" ".join(words) for words in EVERY} | {"nodes", "patch"}
    for one in seen(path).values():
        first = re.split(r" (?:at|over|of|with|--)", one.uses)[0]
        for word in re.split(r", | and ", first):
            assert word in names | {"all sources", "sources"}, one


def test_every_program_that_tools_start_is_looked_for() -> None:
    """Where its name is written in the call; `sh` is everywhere."""
    started = set()
    for path in sorted((Path(builder.__file__).parent / "tools").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    func=ast.Attribute(ast.Name("process"), "run" | "started"),
                    args=[ast.List([ast.Constant(word), *_]) | ast.Tuple([ast.Constant(word), *_]),
                          *_],
                ):  # fmt: skip
                    started.add(word)
    assert {"git", "zstd", "docker", "sh"} <= started
    assert started <= {"git", "docker", "sh", *(one.name for one in OPTIONAL)}
