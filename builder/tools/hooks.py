"""Commands that people hang before and after a push."""

from __future__ import annotations

from collections.abc import Sequence

from builder.errors import DistributionError
from builder.tools import process

_HOOK_S = 600.0


class HookFailed(DistributionError):
    """A command of [hooks] ended badly; what comes after it was not done."""

    code = "hook-failed"


def run_all(commands: Sequence[Sequence[str]], when: str) -> None:
    """Run them on this host, in order. Raises: HookFailed, ToolMissing."""
    env = process.environment("SSH_AUTH_SOCK", "DOCKER_*")
    for words in commands:
        done = process.run(list(words), env=env, timeout_s=_HOOK_S, check=False)
        if done.returncode:
            raise HookFailed(
                f"{when}: {words[0]} ended with code {done.returncode}",
                hint="mend it, or take it out of [hooks] in nodes.toml", detail=done.complaint,
            )  # fmt: skip
