"""What ssh's complaints mean, and what cures them."""

from __future__ import annotations

import re
from pathlib import Path

from builder.errors import DistributionError, Place
from builder.model.nodes import Node

_OFFENDING = re.compile(r"Offending (?:\S+ )?key in ([^\n]+?):(\d+)")
_UNREACHABLE = re.compile(
    r"Could not resolve hostname|Connection refused|Connection timed out|No route to host"
    r"|Network is unreachable|Operation timed out|Connection closed|Connection reset"
    r"|banner exchange|stdio forwarding failed"
)


class HostKeyChanged(DistributionError):
    """The node shows another host key than the one that is known."""

    code = "host-key-changed"


class HostKeyUnknown(DistributionError):
    code = "host-key-unknown"


class LoginRefused(DistributionError):
    code = "login-refused"


class Unreachable(DistributionError):
    code = "unreachable"


class ConnectionLost(DistributionError):
    """The connection to a node ended in the middle."""

    code = "connection-lost"


class NodeFailed(DistributionError):
    """A command on a node ended badly."""

    code = "node-failed"


class NoTunnel(DistributionError):
    """The node's sshd does not forward ports."""

    code = "no-tunnel"


def understood(node: Node, complaint: str) -> DistributionError:
    """The error for a connection that could not be made."""
    detail = complaint.strip()[-3000:]
    last = (detail.splitlines() or ["ssh said nothing"])[-1]
    if "REMOTE HOST IDENTIFICATION HAS CHANGED" in complaint or "Offending" in complaint:
        return _changed(node, detail)
    if "Host key verification failed" in complaint or "host key is known" in complaint:
        return HostKeyUnknown(
            f"{node.name}: its host key is not known here", detail=detail,
            hint=f"connect once by hand and compare the fingerprint: ssh {node.destination}",
        )  # fmt: skip
    if "Permission denied" in complaint or "Too many authentication failures" in complaint:
        return LoginRefused(
            f"{node.name}: the login was refused", detail=detail,
            hint=f"nothing is asked during a push: ssh-add your key, ssh-copy-id "
            f"{node.destination}",
        )  # fmt: skip
    if _UNREACHABLE.search(complaint):
        return Unreachable(
            f"{node.name} cannot be reached: {last}", detail=detail,
            hint=f"try: ssh {node.destination} true",
        )  # fmt: skip
    return Unreachable(
        f"{node.name}: ssh could not connect: {last}", detail=detail,
        hint=f"try: ssh {node.destination} true",
    )  # fmt: skip


def lost(node: Node, complaint: str) -> ConnectionLost:
    last = ([line for line in complaint.splitlines() if line.strip()] or ["ssh ended"])[-1]
    return ConnectionLost(
        f"{node.name}: the connection was lost: {last}", detail=complaint.strip()[-2000:],
        hint="run the same command again: it goes on from the layers that arrived",
    )  # fmt: skip


def _changed(node: Node, detail: str) -> HostKeyChanged:
    match = _OFFENDING.search(detail)
    place = Place(Path(match[1]), int(match[2])) if match else None
    where = f" -f {match[1]}" if match else ""
    return HostKeyChanged(
        f"{node.name}: its host key has changed since it was last seen", detail=detail, place=place,
        hint="if the machine was set up anew, compare the new fingerprint on its console, then: "
        f"ssh-keygen -R {node.destination.rpartition('@')[2]}{where}; else somebody may be "
        "listening",
    )  # fmt: skip
