"""Whatever ends a command: with --json there is one report on stdout, with the same exit code."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from builder.cli import app, nodes_wiring, wiring
from builder.cli.commands import lock as lock_command
from builder.errors import DistributionError, LaneError, Place, ToolFailed

IMGBUILD = Path(sys.executable).with_name("imgbuild")
Ended = tuple[int, bytes, str]
Run = Callable[..., Ended]


def commands(group: click.Group, *words: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, *words, name)
        else:
            yield (*words, name), command


def takes_json(command: click.Command) -> bool:
    return any("--json" in param.opts for param in command.params)


EVERY = dict(commands(app.cli))
REPORTING = {words: command for words, command in EVERY.items() if takes_json(command)}
each = pytest.mark.parametrize("words", REPORTING, ids=" ".join)


def whole(words: tuple[str, ...]) -> list[str]:
    """A command line with all that the command must be given."""
    line = list(words)
    for param in REPORTING[words].params:
        if param.required or (param.name == "asked" and words[0] == "nodes"):
            value = {"source": "x", "format_": "source-lock", "files": __file__}.get(
                param.name or "", "x"
            )
            line += [value] if isinstance(param, click.Argument) else [param.opts[0], value]
    return line


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Run:
    """In a folder that is no project, with folders of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IMGBUILD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("IMGBUILD_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("IMGBUILD_NODES", str(tmp_path / "nodes.toml"))

    def command(*words: str) -> Ended:
        monkeypatch.setattr("sys.argv", ["imgbuild", *words])
        with pytest.raises(SystemExit) as ended:
            app.main()
        out, err = capfdbinary.readouterr()
        return int(ended.value.code or 0), out, err.decode()

    return command


def report(ended: Ended, code: int) -> Any:
    """The one document on stdout; nothing stands before or behind it."""
    found = json.loads(ended[1])
    assert (ended[0], found["ok"], found["exit"]) == (code, False, code)
    (first, *_) = found["findings"]
    assert set(first) == {"code", "level", "what", "hint", "detail", "file", "line", "key"}
    assert first["what"]
    return first


def test_all_that_report_are_tried() -> None:
    silent = {" ".join(words) for words in EVERY.keys() - REPORTING.keys()}
    assert silent == {"fetch", "lock-merge"}
    assert {"nodes cache pull", "patch extract", "doctor"} <= {" ".join(w) for w in REPORTING}


@each
def test_words_that_do_not_read(run: Run, words: tuple[str, ...]) -> None:
    name = " ".join(words)
    found = report(run(*whole(words), "--json", "--no-such"), 2)
    assert found["code"] == "usage"
    assert "--no-such" in found["what"]
    assert found["hint"] == f"imgbuild {name} --help"
    code, out, err = run(*whole(words), "--no-such")
    assert (code, out) == (2, b"")
    assert err.startswith(f"Usage: imgbuild {name} ")
    assert "Error: No such option" in err
    if whole(words) != list(words):
        assert report(run(*words, "--json"), 2)["what"]


@pytest.mark.parametrize(
    "line", [("dpush", "--json"), ("nodes", "stat", "--json"), ("-C", "none", "doctor", "--json"),
             ("--json",), ("fetch", "demo", "--json"), ("check", "--explain", "none", "--json"),
             ("lock", "demo", "vllm", "--json")],
)  # fmt: skip
def test_commands_that_there_are_not(run: Run, line: tuple[str, ...]) -> None:
    assert report(run(*line), 2)["code"] == "usage"


def test_json_behind_the_options_is_a_name(run: Run) -> None:
    code, out, err = run("history", "--", "--json")
    assert (code, out) == (2, b"")
    assert "'--json' is no lane's name" in err


ERRORS = [
    (lambda: LaneError("no \x1b[31m https://u:hunter2@h/x"), 3, "lane", "https://…@h/x"),
    (lambda: DistributionError("away"), 8, "distribution", "away"),
    (lambda: ToolFailed("bad", place=Place(Path("x"), 3)), 9, "tool-failed", "bad"),
    (lambda: OSError(errno.ENOSPC, "No space left on device", "/x/y"), 9, "system", "No space"),
    (lambda: OSError("without a number"), 70, "bug", "OSError: without a number"),
    (lambda: ValueError("https://u:hunter2@h/x"), 70, "bug", "ValueError: https://…@h/x"),
    (lambda: RecursionError("deep"), 70, "bug", "RecursionError: deep"),
    (KeyboardInterrupt, 130, "interrupted", "interrupted"),
]


def without_times(text: str) -> str:
    """The file with a bug's trace is named by when it was written."""
    return re.sub(r"\d{8}-\d{6}", "WHEN", text)


@each
@pytest.mark.parametrize(("made", "code", "name", "says"), ERRORS)
def test_what_ends_it_in_the_middle(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...],
    made: Callable[[], BaseException], code: int, name: str, says: str,
) -> None:  # fmt: skip
    def fails(*_: object, **__: object) -> None:
        raise made()

    for where, which in ((wiring, "project"), (wiring, "records"), (wiring, "engine"),
                         (nodes_wiring, "known")):  # fmt: skip
        monkeypatch.setattr(where, which, fails)
    ended = run(*whole(words), "--json")
    found = report(ended, code)
    assert found["code"] == name
    assert says in found["what"]
    assert "hunter2" not in ended[1].decode() + ended[2]
    again = run(*whole(words))
    assert again[:2] == (code, b"")
    assert without_times(again[2]) == without_times(ended[2])
    assert says in again[2]


def test_where_the_trace_of_a_bug_lies(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ValueError("x")

    monkeypatch.setattr(lock_command, "lock", fails)
    Path("locks").mkdir()
    found = report(run("lock", "demo", "--json"), 70)
    assert "in fails" in Path(found["file"]).read_text()
    Path("state").rename("old")
    Path("state").write_text("no folder")
    found = report(run("lock", "demo", "--json"), 70)
    assert found["file"] is None
    assert "in fails" in found["detail"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal(tmp_path: Path, how: signal.Signals) -> None:
    pipe = tmp_path / "nodes.toml"
    os.mkfifo(pipe)
    with (
        subprocess.Popen(
            [IMGBUILD, "nodes", "status", "--json"], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env={**os.environ, "IMGBUILD_NODES": str(pipe)},
        ) as running,
        pipe.open("wb"),  # it waits for what will never be written
    ):  # fmt: skip
        running.send_signal(how)
        out, err = running.communicate(timeout=60)
    assert report((running.returncode, out, ""), 130)["code"] == "interrupted"
    assert err.decode().strip() == "interrupted; the same command goes on from here"


def test_a_report_that_cannot_be_written(tmp_path: Path) -> None:
    """The exit code stays that of the error."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([IMGBUILD, "plan", "x", "--json"], cwd=tmp_path, stdout=full,
                              stderr=subprocess.PIPE, check=False)  # fmt: skip
    assert (done.returncode, b"lies in no imgbuild project" in done.stderr) == (2, True)
    assert b"Exception" not in done.stderr
