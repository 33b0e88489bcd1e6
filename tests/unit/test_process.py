"""How programs that cannot start, or find no room, are told of."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from builder.errors import ToolFailed, ToolMissing
from builder.model.values import GitPin
from builder.tools import git_words, process
from builder.tools.packages import PackageUnavailable
from builder.tools.pip_index import PipIndex


def test_an_argument_that_is_too_long() -> None:
    with pytest.raises(ToolFailed, match="true: an argument of 200 kB is too long"):
        process.run(("true", "x" * 200_000), env=process.environment(), timeout_s=5)


def test_it_is_ended_when_it_shows_no_life() -> None:
    """Once what it was given and what it wrote go on."""
    script = "echo out; cat; sleep 1.5; echo more; exec sleep 30"
    lives = iter([True, True, False])
    began = time.monotonic()
    with pytest.raises(ToolFailed, match="no end"):
        process.run(("sh", "-c", script), env=process.environment(), timeout_s=20, stdin=b"in",
                    is_alive=lambda: next(lives))  # fmt: skip
    assert 2 < time.monotonic() - began < 10
    done = process.run(("sh", "-c", script.replace("30", "0")), env=process.environment(),
                       timeout_s=20, stdin=b"in", is_alive=lambda: True)  # fmt: skip
    assert done.stdout == b"out\ninmore\n"


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(ToolMissing, match="no-such-program is not installed"):
        process.run(("no-such-program",), env=process.environment(), timeout_s=5)


def listened(*argv: str, stdin: bytes = b"", timeout_s: float = 20) -> tuple[bytes, bytes, str]:
    with process.started(argv, env=process.environment()) as running:
        return process.listened(running, stdin, timeout_s=timeout_s, most=1 << 20)


def test_both_streams_of_a_program_that_takes_much() -> None:
    script = "wc -c >&2; echo out"
    assert listened("sh", "-c", script, stdin=bytes(3_000_000)) == (b"out\n", b"3000000\n", "")
    assert listened("sh", "-c", "exec <&-; echo out", stdin=bytes(3_000_000)) == (b"out\n", b"", "")


def test_a_program_that_writes_without_end_is_left_alone() -> None:
    out, err, why = listened("yes")
    assert why == "more than 1.0 MB of output"
    assert (1 << 20) < len(out) <= (1 << 20) + (1 << 16)
    assert err == b""


def test_what_was_written_before_the_time_was_over() -> None:
    script = "echo out; echo err >&2; exec sleep 60"
    assert listened("sh", "-c", script, timeout_s=1) == (b"out\n", b"err\n", "no end after 1 s")


def test_a_full_disk_is_told_with_what_to_do() -> None:
    script = "echo 'cp: error writing x: No space left on device' >&2; exit 1"
    with pytest.raises(ToolFailed) as caught:
        process.run(("sh", "-c", script), env=process.environment(), timeout_s=5)
    assert caught.value.findings[0].hint.startswith("free space, or name other folders")
    with pytest.raises(ToolFailed) as caught:
        process.run(("sh", "-c", "exit 1"), env=process.environment(), timeout_s=5)
    assert caught.value.findings[0].hint == ""
    assert git_words.cure(GitPin("kern", ("x",), "0" * 40), {git_words.Why.FULL}).startswith(
        "free space"
    )


def test_a_full_disk_under_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\necho 'ERROR: Could not install packages due to an OSError: [Errno 28] "
        "No space left on device' >&2; exit 1\n"
    )
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    with pytest.raises(PackageUnavailable, match="there is no room for it") as caught:
        PipIndex("3.11").resolve("x==1", "linux/amd64", tmp_path)
    assert caught.value.findings[0].hint.startswith("free space")
