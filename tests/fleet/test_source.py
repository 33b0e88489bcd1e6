"""What a push takes of its host: memory, temporary files, processes after Ctrl-C."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.fleet.conftest import KB, TAG, Host
from tests.fleet.images import Layer
from tests.fleet.machine import call

pytestmark = pytest.mark.fleet
MB = 1000 * KB


@pytest.mark.parametrize("way", ["direct", "save"])
def test_memory_and_disk_stay_small(host: Host, way: str) -> None:
    env = {"IMGBUILD_PUSH_SAVE": "1"} if way == "save" else {}
    host.has(*(Layer(50 * MB, 80 + i) for i in range(3)))
    running = host.start("push", "--nodes", "node1,node2", "--json", TMPDIR=str(host.folder), **env)
    peak = largest = 0
    while running.poll() is None:
        peak = max(peak, rss(running.pid))
        files = [p.stat().st_size for p in host.folder.rglob("*") if p.is_file()]
        largest = max([largest, *files])
        time.sleep(0.02)
    out, err = running.communicate()
    assert running.returncode == 0, out + err
    assert peak < 150 * MB
    assert largest < MB


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing(host: Host, how: signal.Signals) -> None:
    host.has(*(Layer(5 * MB, 90 + i) for i in range(4)))
    running = host.start("push", "--nodes", "all", "--limit-rate", "4 MB", "--compress", "none")
    time.sleep(2.5)
    began = time.monotonic()
    os.kill(running.pid, how)
    _, err = running.communicate(timeout=30)
    assert time.monotonic() - began < 8
    assert running.returncode == 130, err
    assert not list(host.fleet.folder.glob("imgbuild-ssh-*"))
    assert str(host.fleet.ssh_config) not in call("ps", "-eo", "args")
    assert not any(TAG in n.engine.ids() for n in host.nodes)


def rss(pid: int) -> int:
    """Bytes of memory that the process holds now."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
