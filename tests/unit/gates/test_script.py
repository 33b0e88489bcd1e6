"""The frame around probes, run by real shells; what a probe prints cannot break it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.steps.gates import script
from builder.steps.gates.gate import Answer, Probe

TOKEN = f"imgbuild-{os.getpid()}"
SHELLS = [
    pytest.param(
        words, id=words[0], marks=pytest.mark.skipif(not shutil.which(words[0]), reason="not here")
    )
    for words in (("dash",), ("bash", "--posix"), ("busybox", "sh"))
]


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    yield
    shutil.rmtree(f"/tmp/{TOKEN}", ignore_errors=True)


def run(shell: Sequence[str], *probes: Probe, path: str = "") -> tuple[Answer | None, ...]:
    text, limit = script.write(probes, token=TOKEN)
    env = {"PATH": path} if path else None
    done = subprocess.run(
        [shutil.which(shell[0]) or "", *shell[1:], "-s"],
        input=text.encode(), capture_output=True, timeout=limit, env=env,
    )  # fmt: skip
    assert done.stderr == b""
    return script.read(done.stdout, probes, token=TOKEN)


def known(answer: Answer | None) -> Answer:
    assert answer is not None
    return answer


@pytest.mark.parametrize("shell", SHELLS)
def test_code_and_both_streams(shell: Sequence[str]) -> None:
    first, second = run(
        shell, Probe("a", "echo out; echo err >&2; exit 3"), Probe("b", "printf 'it'\"'\"'s %s' 2")
    )
    assert (known(first).code, known(first).stdout, known(first).stderr) == (3, "out\n", "err\n")
    assert known(second).stdout == "it's 2"


@pytest.mark.parametrize("shell", SHELLS)
def test_what_a_probe_may_do(shell: Sequence[str]) -> None:
    """Print the frame's own lines, binary, no end of line; read stdin; kill its shell; cd."""
    answers = run(
        shell,
        Probe("frame", f"printf '{TOKEN} 1 0 0 0 0 0\\n{TOKEN} end\\n'"),
        Probe("binary", r"printf '\000\377\r\n\n'"),
        Probe("stdin", "cat; read -r x || echo nothing"),
        Probe("killed", "kill -9 $$"),
        Probe("folder", 'cd "$1" && echo x >y && ls'),
        Probe("fail", "set -eu; false; echo no"),
        Probe("last", "echo end"),
    )
    said = [(known(a).code, known(a).stdout) for a in answers]
    assert said == [
        (0, f"{TOKEN} 1 0 0 0 0 0\n{TOKEN} end\n"), (0, "\0\ufffd\r\n\n"), (0, "nothing\n"),
        (137, ""), (0, "y\n"), (1, ""), (0, "end\n"),
    ]  # fmt: skip


def test_much_output_is_cut() -> None:
    (answer,) = run(("dash",), Probe("a", "yes | head -c 3000000; echo end >&2"))
    assert len(known(answer).stdout) == 1 << 20
    assert known(answer).stderr == "end\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_probe_is_ended_in_its_time(shell: Sequence[str]) -> None:
    started = time.monotonic()
    slow, after = run(shell, Probe("a", "echo begun; sleep 30", 1), Probe("b", "echo after"))
    assert time.monotonic() - started < 8
    assert known(slow).timed_out
    assert known(slow).stdout == "begun\n"
    assert known(after).stdout == "after\n"


def test_a_code_of_124_is_not_a_timeout() -> None:
    (answer,) = run(("dash",), Probe("a", "exit 124"))
    assert (known(answer).code, known(answer).timed_out) == (124, False)


def test_without_timeout_there_is_only_the_whole_limit(tmp_path: object) -> None:
    for tool in ("mkdir", "head", "wc", "cat", "sh"):
        subprocess.run(["ln", "-s", shutil.which(tool) or "", f"{tmp_path}/{tool}"], check=True)
    (answer,) = run(("dash",), Probe("a", "echo x", 1), path=str(tmp_path))
    assert known(answer).stdout == "x\n"


@pytest.mark.parametrize(
    "lies",
    ["exit 0", "exit 7", "echo ran; exit 0", 'shift 3; "$@"; exit 0', "echo ran; exit 7",
     'shift 3; "$@" >/dev/null'],
)  # fmt: skip
def test_a_timeout_that_does_not_run_what_it_is_told(tmp_path: Path, lies: str) -> None:
    for tool in ("mkdir", "head", "wc", "cat", "sh"):
        (tmp_path / tool).symlink_to(shutil.which(tool) or "")
    (tmp_path / "timeout").write_text(f"#!/bin/sh\n{lies}\n")
    (tmp_path / "timeout").chmod(0o755)
    good, bad = run(("dash",), Probe("a", "echo x"), Probe("b", "exit 3"), path=str(tmp_path))
    assert (known(good).code, known(good).stdout) == (0, "x\n")
    assert known(bad).code == 3


WELL = f"{TOKEN} begin\n{TOKEN} 0 0 1.00 1.50 2 1\nabc{TOKEN} 1 7 2.0 2.0 0 0\n{TOKEN} end\n"
TWO = (Probe("a", "", 20), Probe("b", "", 20))


def test_the_answer_is_read_after_noise() -> None:
    first, second = script.read(b"motd\n" + WELL.encode(), TWO, token=TOKEN)
    assert first == Answer(0, 0.5, "ab", "c")
    assert second == Answer(7, 0.0, "", "")


@given(st.integers(0, len(WELL)), st.binary(max_size=3))
def test_a_broken_answer_is_none(cut: int, put: bytes) -> None:
    data = WELL.encode()
    for broken in (data[:cut], data[:cut] + put + data[cut:], data[:cut] + put):
        answers = script.read(broken, TWO, token=TOKEN)
        assert len(answers) == 2
        assert answers[1] is None or answers[0] is not None
