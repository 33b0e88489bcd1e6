"""Programs that a fleet starts on this machine, and how all of it is taken down again."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

RUN = Path("/run")
PREFIX = "imgbuild-fleet-"


def call(*argv: str | Path, check: bool = True, env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(a) for a in argv], capture_output=True, text=True, check=False, timeout=120, env=env
    )
    if check and done.returncode:
        raise RuntimeError(f"{argv}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def spawn(argv: Sequence[str | Path], log: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """A daemon that ends with us, even when we are killed."""
    with log.open("ab") as out:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", *map(str, argv)], env=dict(env), stdout=out,
            stderr=out, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip


def until(holds: Callable[[], bool], what: str, timeout_s: float = 40) -> None:
    end = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.05)


def end(pid: int, how: signal.Signals, timeout_s: float) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, how)
    limit = time.monotonic() + timeout_s
    while time.monotonic() < limit:
        if not alive(pid):
            return True
        time.sleep(0.05)
    return False


def alive(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError, OSError):
        os.waitpid(pid, os.WNOHANG)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return _state(pid) != "Z"


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def naming(text: str) -> list[int]:
    """Processes whose command line holds `text`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if text in line and int(entry.name) != os.getpid():
                found.append(int(entry.name))
    return found


def mounts(below: str) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [line.split()[4] for line in lines]
    return sorted((p for p in points if p == below or p.startswith(f"{below}/")), reverse=True)


def clear(folders: Sequence[Path]) -> None:
    """End what lives in the folders, unmount what is mounted there, remove them."""
    for folder in folders:
        for how, wait in ((signal.SIGTERM, 8.0), (signal.SIGKILL, 5.0)):
            for pid in naming(f"{folder}/"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, how)
            limit = time.monotonic() + wait
            while any(alive(p) for p in naming(f"{folder}/")) and time.monotonic() < limit:
                time.sleep(0.1)
    for folder in folders:
        for point in mounts(str(folder)):
            subprocess.run(["umount", "-l", point], check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)
