"""The docker command: how it is started, and what its complaints mean."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from subprocess import PIPE, Popen

from builder.errors import ImgbuildError, ToolFailed, ToolMissing
from builder.tools import process
from builder.tools.process import Completed

_OWN = (
    "an engine of our own (Debian 12 or 13, root): scripts/engine start, "
    'then eval "$(scripts/engine env)"'
)
_NOBODY = re.compile(
    r"Cannot connect to the Docker daemon|error during connect|[Ii]s the docker daemon running"
    r"|no such host|connection refused|context .* not found|failed to connect to the docker API"
)
_DENIED = re.compile(r"permission denied while trying to connect|dial unix .*permission denied")


class EngineMissing(ToolMissing):
    """There is no Docker engine that this user can use."""

    code = "engine-missing"


class BuildxMissing(ToolMissing):
    code = "buildx-missing"


def environment() -> dict[str, str]:
    """The user's choice of an engine holds: DOCKER_HOST, DOCKER_CONTEXT, DOCKER_CONFIG, ssh."""
    return process.environment("DOCKER_*", "BUILDX_CONFIG", "SSH_AUTH_SOCK")


def run(
    *words: str | Path, timeout_s: float = 60, stdin: bytes = b"", check: bool = True
) -> Completed:
    """Run `docker WORDS…` to its end. Raises: EngineMissing, ToolFailed."""
    try:
        done = process.run(
            ["docker", *words], env=environment(), timeout_s=timeout_s, stdin=stdin, check=False
        )
    except ToolMissing as missing:
        raise not_installed() from missing
    if done.returncode and check:
        raise understood(done)
    return done


def started(
    words: Sequence[str | Path], *, stdin: int = PIPE
) -> AbstractContextManager[Popen[bytes]]:
    """A running `docker WORDS…` with pipes. Raises: ToolMissing.

    It is told to end when we are killed: a build would go on without us.
    """
    bound = ("setpriv", "--pdeathsig", "TERM") if shutil.which("setpriv") else ()
    return process.started([*bound, "docker", *words], env=environment(), stdin=stdin)


def understood(done: Completed) -> ImgbuildError:
    """The error for a docker command that ended badly."""
    return engine_error(done.complaint) or process.failed(done)


def engine_error(complaint: str) -> EngineMissing | None:
    """The error, if docker complains that it reaches no engine."""
    if _DENIED.search(complaint):
        return EngineMissing(
            "this user may not use the Docker engine's socket",
            hint='sudo usermod -aG docker "$USER", then log in again',
            detail=complaint,
        )
    if _NOBODY.search(complaint):
        return EngineMissing(
            "no Docker engine answers",
            hint=f"start it: sudo systemctl start docker; or {_OWN}",
            detail=complaint,
        )
    return None


def not_installed() -> EngineMissing:
    return EngineMissing(
        "the docker command is not installed",
        hint=f"apt-get install docker.io docker-cli docker-buildx; or {_OWN}",
    )


def failed(what: str, complaint: str) -> ImgbuildError:
    """The error for a command whose output was streamed."""
    return engine_error(complaint) or ToolFailed(what, detail=complaint[-4000:])
