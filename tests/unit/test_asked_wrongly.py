"""Arguments that cannot be meant: refused before anything is looked at."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from builder.cli import app
from builder.errors import UsageError
from builder.model.ids import is_name
from builder.model.values import Record, StageTime


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one run, of a lane that patterns and paths could reach."""
    monkeypatch.setenv("IMGBUILD_STATE", str(tmp_path / "state"))
    (tmp_path / "state/runs/demo/1").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize("lane", ["/etc", "*", "../runs", "[d]emo", "d?mo", ""])
def test_history_of_what_is_no_lane(lane: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="is no lane's name"):
        app.cli.main(["history", "--", lane], standalone_mode=False)
    assert capsys.readouterr().out == ""
    assert not is_name(lane)


def test_history_of_a_lane_without_builds(capsys: pytest.CaptureFixture[str]) -> None:
    app.cli.main(["history", "demo"], standalone_mode=False)
    assert capsys.readouterr().out == "no builds of demo yet\n"


@pytest.mark.parametrize("command", ["stage", "fetch", "check", "build"])
@pytest.mark.parametrize("platform", ["linux/foo", "windows/amd64", "amd64", ""])
def test_a_platform_that_there_is_not(command: str, platform: str) -> None:
    words = [command, "demo", "--platform", platform]
    with pytest.raises(Exception, match="is not one of 'linux/amd64', 'linux/arm64'"):
        app.cli.main(words, standalone_mode=False)


def test_a_candidate_that_is_gone_is_not_offered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run of which the gates failed, shown before and after the next one removed its image."""
    warned = {"code": "gate-candidate", "level": "warning", "what": "it is kept", "hint": "run it"}
    failed = {"code": "gate-marker", "level": "error", "what": "marker x", "hint": ""}
    error = {"code": "gate-failed", "exit": 7, "findings": [failed, warned]}
    row = Record("1", "demo", "b", "failed", "", 1.0, (), error=error)
    write(tmp_path, row)
    app.cli.main(["history", "--run", "1"], standalone_mode=False)
    out = capsys.readouterr().out
    assert "error[gate-marker]: marker x" in out
    assert "warning[gate-candidate]: it is kept" in out
    write(tmp_path, replace(row, id="2", stages=(StageTime("gates", 1.0, ""),)))
    app.cli.main(["history", "--run", "1"], standalone_mode=False)
    out = capsys.readouterr().out
    assert "gate-candidate" not in out
    assert "the candidate is gone" in out


def write(tmp_path: Path, record: Record) -> None:
    folder = tmp_path / "state/runs" / record.lane / record.id
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "record.json").write_text(json.dumps(asdict(record)))
