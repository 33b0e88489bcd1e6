"""This host, where the same scripts run as on a node."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator

from builder.model.nodes import Node
from builder.tools import process
from builder.tools.ssh_words import NodeFailed


class Here:
    """Implements node_ports.Shell."""

    node = Node("this host", "")

    def script(
        self,
        text: str,
        *words: str,
        timeout_s: float,
        lives_on: bool = False,  # noqa: ARG002
        is_alive: Callable[[], bool] | None = None,
    ) -> str:
        done = process.run(
            ["sh", "-s", "--", *words], env=process.environment(), timeout_s=timeout_s,
            stdin=text.encode(), check=False, is_alive=is_alive,
        )  # fmt: skip
        if done.returncode:
            last = (done.complaint.splitlines() or ["no output"])[-1]
            raise NodeFailed(f"this host: {last}", detail=done.complaint[-3000:])
        return done.text

    @contextlib.contextmanager
    def stream(
        self,
        command: str,
        *,
        lives_on: bool = False,  # noqa: ARG002
        timeout_s: float | None = None,
    ) -> Iterator[subprocess.Popen[bytes]]:
        env = process.environment()
        with process.started(["sh", "-c", command], env=env, timeout_s=timeout_s) as running:
            yield running
