"""What it means when an engine does not take an image."""

from __future__ import annotations

import re

from builder.errors import DistributionError, ImgbuildError
from builder.node_ports import Connection
from builder.tools.ssh_words import NodeFailed, lost

_SPACE = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
_NOBODY = re.compile(r"Cannot connect to the Docker daemon|error during connect|connection refused"
                     r"|unexpected EOF|EOF$", re.IGNORECASE)  # fmt: skip


class NoSpace(DistributionError):
    """A node's disk is full."""

    code = "no-space"


class EngineEnded(DistributionError):
    """A node's engine ended while it took the image."""

    code = "engine-ended"


def load_failed(link: Connection, complaint: str) -> ImgbuildError:
    """The error for a load or pull that ended badly, with the engine's own words."""
    node, detail = link.node, complaint.strip()[-3000:]
    last = (detail.splitlines() or ["no output"])[-1]
    if link.closed():
        return lost(node, complaint)
    if _SPACE.search(complaint):
        return NoSpace(
            f"{node.name}: its disk is full", detail=detail,
            hint=f"imgbuild nodes prune LANE --nodes {node.name}; or there: docker image prune; "
            "then run the same command again",
        )  # fmt: skip
    if _NOBODY.search(complaint):
        return EngineEnded(
            f"{node.name}: its engine ended while it took the image: {last}", detail=detail,
            hint="look at the engine there, then run the same command again: it goes on",
        )  # fmt: skip
    return NodeFailed(
        f"{node.name}: its engine did not take the image: {last}", detail=detail,
        hint="run the same command again; if it fails again, look at the engine's log there",
    )  # fmt: skip
