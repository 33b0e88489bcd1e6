"""Folders to and from a node by rsync, through the connection that is open to it."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from builder.errors import DistributionError, ToolMissing
from builder.node_ports import Connection, Moved
from builder.tools import process
from builder.tools.ssh import environment

_SILENT_S = 60  # without a byte: the other end hangs
_COUNT = re.compile(rb"\r\s*(\d{1,18})\s+\d+%")  # a node can write such a line too
_OPTIONS = (
    "--recursive", "--links", "--perms", "--times", "--checksum", "--whole-file",
    "--protect-args", "--no-inc-recursive", "--no-human-readable", "--info=progress2",
    f"--timeout={_SILENT_S}",
)  # fmt: skip


class NoSpace(DistributionError):
    """A disk was full before all of a cache was there."""

    code = "no-space"


@dataclass(frozen=True)
class Rsync:
    """Implements node_ports.Copier. `limit` is in bytes a second, for each copy."""

    limit: float | None = None

    def fetch(
        self, link: Connection, paths: Sequence[str], into: str, *, basis: str, moved: Moved
    ) -> int:
        return self._copy(link, [_there(path) for path in paths], f"{into}/", basis, moved)

    def send(
        self, link: Connection, paths: Sequence[str], into: str, *, basis: str, moved: Moved
    ) -> int:
        return self._copy(link, list(paths), f"{_there(into)}/", basis, moved)

    def _copy(
        self, link: Connection, paths: Sequence[str], into: str, basis: str, moved: Moved
    ) -> int:
        limit = (f"--bwlimit={max(1, round(self.limit / 1024))}",) if self.limit else ()
        argv = ["rsync", *_OPTIONS, *limit, f"--copy-dest={basis}",
                f"--rsh={shlex.join(link.words)}", "--", *paths, into]  # fmt: skip
        said, count = b"", 0
        try:
            with process.started(argv, env=environment(), stderr=subprocess.STDOUT) as running:
                assert running.stdout is not None
                while data := running.stdout.read1(1 << 16):  # type: ignore[attr-defined]
                    said = said[-8000:] + data
                    if marks := _COUNT.findall(said):
                        moved(max(0, int(marks[-1]) - count))
                        count = max(count, int(marks[-1]))
                code = running.wait()
        except ToolMissing as missing:
            raise ToolMissing("rsync is not installed here", hint="apt-get install rsync") from (
                missing
            )
        if code:
            self._fail(link, _COUNT.sub(b"", said).decode("utf-8", "replace").strip())
        return count

    def _fail(self, link: Connection, complaint: str) -> None:
        if "No space left on device" in complaint:
            raise NoSpace(
                f"{link.node.name}: a disk was full in the middle: here or there",
                hint="free space, then the same command", detail=complaint[-2000:],
            )  # fmt: skip
        raise link.failed(complaint)


def _there(path: str) -> str:
    """A path on the node. rsync puts what stands before the colon in front of its own command,
    behind the words of `--rsh`, which name the node already: `env rsync --server …`."""
    return f"env:{path}"
