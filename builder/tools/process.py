"""The one place where programs are started.

Never through a shell, always with an explicit environment and a time limit, each in a
session of its own so that the whole group can be ended.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
import selectors
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from builder.errors import ToolFailed, ToolMissing

_FULL = re.compile(r"(?i)no space left on device|disk quota exceeded|errno 28\b")
_KEPT = (
    "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "http_proxy", "https_proxy", "no_proxy",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
)  # fmt: skip


def environment(*keep: str, **settings: str) -> dict[str, str]:
    """The small environment that tools start with: a fixed locale, a few variables kept.

    `keep` names further variables to pass on; one that ends in `*` is a prefix.
    """
    names = set(_KEPT)
    for name in keep:
        if name.endswith("*"):
            names |= {n for n in os.environ if n.startswith(name[:-1])}
        else:
            names.add(name)
    kept = {name: os.environ[name] for name in sorted(names) if name in os.environ}
    return {**kept, "LC_ALL": "C.UTF-8", "LANGUAGE": "C", **settings}


@dataclass(frozen=True, slots=True)
class Completed:
    argv: tuple[str, ...]
    returncode: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        return self.stdout.decode("utf-8", "replace")

    @property
    def complaint(self) -> str:
        """What the program wrote to stderr, or to stdout when stderr is empty."""
        return (self.stderr.strip() or self.stdout.strip()).decode("utf-8", "replace")


def run(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str],
    timeout_s: float,
    stdin: bytes = b"",
    cwd: Path | None = None,
    check: bool = True,
    is_alive: Callable[[], bool] | None = None,
) -> Completed:
    """Run a program to its end and hold what it writes.

    Raises: ToolMissing; ToolFailed when it ends with another code than 0 (and `check`), or
    does not end within `timeout_s`, or while `is_alive` (its whole process group is then killed).
    """
    with started(argv, env=env, cwd=cwd) as process:
        try:
            out, err = _communicated(process, stdin, timeout_s, is_alive)
        except subprocess.TimeoutExpired as expired:
            raise ToolFailed(
                f"{argv[0]}: no end after {timeout_s:g} s",
                detail=_command(argv),
                hint="try again; if it hangs every time, run the command below by hand",
            ) from expired
    done = Completed(tuple(map(str, argv)), process.returncode, out, err)
    if check and done.returncode:
        raise failed(done)
    return done


def _communicated(
    process: subprocess.Popen[bytes],
    stdin: bytes,
    timeout_s: float,
    is_alive: Callable[[], bool] | None,
) -> tuple[bytes, bytes]:
    end = time.monotonic() + timeout_s
    while True:
        left = end - time.monotonic()
        try:
            return process.communicate(stdin, timeout=left if is_alive is None else min(left, 1))
        except subprocess.TimeoutExpired:
            if is_alive is None or left <= 0 or not is_alive():
                raise
            stdin = b""  # what is left of it goes on


@contextlib.contextmanager
def started(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    stderr: IO[bytes] | int = subprocess.PIPE,
    stdin: IO[bytes] | int = subprocess.PIPE,
    timeout_s: float | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A running program with pipes; its process group is ended when the block is left.

    With `timeout_s` the group is killed when the time is over, which ends its pipes.
    """
    words = [str(word) for word in argv]
    try:
        process = subprocess.Popen(
            words, env=dict(env), cwd=cwd, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr,
            start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError as missing:
        raise ToolMissing(
            f"{words[0]} is not installed", hint="imgbuild doctor says what is missing"
        ) from missing
    except OSError as refused:
        if refused.errno != errno.E2BIG:
            raise
        raise ToolFailed(
            f"{words[0]}: an argument of {max(map(len, words)) // 1000} kB is too long for this "
            "system",
            hint="something in a lane or a source is far longer than it should be",
        ) from refused
    timer = threading.Timer(timeout_s or 0, _end, (process, signal.SIGKILL))
    timer.daemon = True
    if timeout_s is not None:
        timer.start()
    try:
        yield process
    finally:
        timer.cancel()
        _stop(process)


def await_output(running: Sequence[subprocess.Popen[bytes]], *, timeout_s: float) -> None:
    """Until each has written or ended, or the time is over."""
    end = time.monotonic() + timeout_s
    for one in running:
        assert one.stdout is not None
        heard = select.poll()
        heard.register(one.stdout, select.POLLIN)
        heard.poll(max(0, end - time.monotonic()) * 1000)


def listened(
    process: subprocess.Popen[bytes], stdin: bytes, *, timeout_s: float, most: int
) -> tuple[bytes, bytes, str]:
    """Both streams, and why nobody listens any more; "" is its end.

    It goes on, if it was not its end: after `timeout_s`, or when a stream has more than `most`
    bytes. Of what it writes no more than that is held.
    """
    until = time.monotonic() + timeout_s
    assert process.stdin is not None
    out, err = bytearray(), bytearray()
    left = memoryview(stdin)
    with selectors.DefaultSelector() as waiting:
        for pipe, held in ((process.stdout, out), (process.stderr, err)):
            assert pipe is not None
            waiting.register(pipe, selectors.EVENT_READ, held)
        os.set_blocking(process.stdin.fileno(), False)
        waiting.register(process.stdin, selectors.EVENT_WRITE)
        while waiting.get_map():
            ready = waiting.select(max(until - time.monotonic(), 0))
            if time.monotonic() >= until:
                return bytes(out), bytes(err), f"no end after {timeout_s:g} s"
            for key, _ in ready:
                if key.fileobj is process.stdin:
                    left = _written(process.stdin, left)
                    if not left:
                        waiting.unregister(process.stdin)
                        process.stdin.close()
                elif data := os.read(key.fd, 1 << 16):
                    key.data.extend(data)
                    if len(key.data) > most:
                        return bytes(out), bytes(err), f"more than {most / 1e6:.1f} MB of output"
                else:
                    waiting.unregister(key.fileobj)
    return bytes(out), bytes(err), ""


def _written(pipe: IO[bytes], data: memoryview) -> memoryview:
    """What is left to write; nothing, where nobody reads."""
    try:
        return data[os.write(pipe.fileno(), data[: 1 << 16]) :]
    except BlockingIOError:
        return data
    except BrokenPipeError:
        return data[:0]


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a program that was `started`, with its group, at once."""
    _end(process, signal.SIGKILL)


def failed(done: Completed) -> ToolFailed:
    """The error for a program that ended badly, with its own words."""
    last = done.complaint.splitlines()[-1:] or ["no output"]
    return ToolFailed(
        f"{Path(done.argv[0]).name} ended with code {done.returncode}: {last[0]}",
        hint=full_disk(done.complaint),
        detail=f"{_command(done.argv)}\n{done.complaint[-4000:]}",
    )


def full_disk(complaint: str) -> str:
    """What to do when a program found no room; empty when it says nothing of that."""
    if not _FULL.search(complaint):
        return ""
    return "free space, or name other folders: IMGBUILD_CACHE, IMGBUILD_STATE, TMPDIR"


def _stop(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError, ValueError):
                pipe.close()
    if process.poll() is None:
        _end(process, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            _end(process, signal.SIGKILL)
            process.wait()


def _end(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, how)


def _command(argv: Sequence[str | Path]) -> str:
    return "$ " + shlex.join(map(str, argv))
