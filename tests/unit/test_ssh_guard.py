"""A command on a node ends, with all that it started, when its session does; nothing else there."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from builder.tools.ssh_guard import GUARD, guarded

SHELLS = [path for name in ("dash", "bash") if (path := shutil.which(name))]


def started(shell: str, *words: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen([shell, "-c", GUARD, "sh", *words], stdin=pipe, stdout=pipe,
                            stderr=pipe)  # fmt: skip


def alive(mark: str) -> list[str]:
    """Processes with this word among theirs."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if mark.encode() in words:
            found.append(path.parent.name)
    return found


@pytest.mark.parametrize("docker", ["docker", "sudo -n docker"])
@pytest.mark.parametrize("shell", SHELLS)
def test_what_hangs_ends_with_the_session(shell: str, docker: str, tmp_path: Path) -> None:
    (tmp_path / "sudo").write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/said\n')
    (tmp_path / "sudo").chmod(0o755)
    quick = GUARD.replace("sleep 5", "sleep 0.2")
    hung, other = "600.125", "600.25"
    text = f"trap '' TERM; sleep {hung} & sleep {hung}; sleep {hung}"
    neighbour = started(shell, "sleep", other)
    pipe = subprocess.PIPE
    running = subprocess.Popen(
        [shell, "-c", quick, "sh", "sh", "-c", text, "sh", GUARD, docker],  # as chains pass it on
        stdin=pipe, stdout=pipe, stderr=pipe, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )  # fmt: skip
    try:
        end = time.monotonic() + 5
        while len(alive(hung)) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        assert len(alive(hung)) == 2
        for one in (running.stdin, running.stdout, running.stderr):
            assert one is not None
            one.close()  # as sshd does when the connection is gone
        while alive(hung) and time.monotonic() < end + 5:
            time.sleep(0.05)
        assert not alive(hung)
        assert len(alive(other)) >= 1
        assert (tmp_path / "said").exists() == (docker != "docker")  # root's, sudo must end
    finally:
        running.wait(10)
        for pid in alive(other):
            subprocess.run(["kill", pid], check=False)
        neighbour.communicate(timeout=10)


@pytest.mark.parametrize("shell", SHELLS)
def test_else_it_is_as_without(shell: str) -> None:
    """Input, output, complaints and code; and the session ends at once."""
    began = time.monotonic()
    running = started(shell, "sh", "-s", "--", "a b", "c")
    out, err = running.communicate(b'echo "$1|$2"; echo no >&2; exit 7', timeout=10)
    assert (running.returncode, out, err) == (7, b"a b|c\n", b"no\n")
    running = started(shell, "wc", "-c")
    assert running.communicate(bytes(3_000_000), timeout=10) == (b"3000000\n", b"")
    assert time.monotonic() - began < 4


def test_without_its_programs_it_does_not_watch(tmp_path: Path) -> None:
    """And floods nobody."""
    for name in ("sh", "setsid"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
        done = subprocess.run(
            ["/bin/sh", "-c", GUARD, "sh", "sh", "-c", "read x; exit 3"], input=b"x\n",
            env={"PATH": str(tmp_path)}, capture_output=True, timeout=10, check=False,
        )  # fmt: skip
        assert (done.returncode, len(done.stderr) < 200) == (3, True)


def test_words_stay_words() -> None:
    done = subprocess.run(["sh", "-c", guarded(["printf", "<%s>", "a'b", "$x  *"])], check=True,
                          capture_output=True, timeout=10)  # fmt: skip
    assert done.stdout == b"<a'b><$x  *>"
    assert "\n" not in GUARD
