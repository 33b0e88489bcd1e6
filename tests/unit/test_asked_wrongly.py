"""Arguments that cannot be meant: refused before anything is looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.cli import app
from builder.errors import UsageError
from builder.model.ids import is_name


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
