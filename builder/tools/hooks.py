"""Commands that people hang before and after a build or a push."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NoReturn

from builder.errors import BuildError, DistributionError, ImgbuildError, ToolFailed, ToolMissing
from builder.tools import process

_HOOK_S = 600.0
HINT = "mend it, or take it out of [hooks] in nodes.toml"


class HookFailed(DistributionError):
    """A command of [hooks] ended badly; what comes after it was not done."""

    code = "hook-failed"


class BuildHookFailed(BuildError):
    """before-build or after-build of [hooks] ended badly."""

    code = "build-hook-failed"


def variables(lane: str, build_id: str, image: str) -> dict[str, str]:
    """What a hook is told in its environment."""
    return {"IMGBUILD_LANE": lane, "IMGBUILD_BUILD_ID": build_id, "IMGBUILD_IMAGE": image}


def run_all(commands: Sequence[Sequence[str]], when: str, about: Mapping[str, str]) -> None:
    """Run them on this host, in order. Raises: HookFailed, BuildHookFailed."""
    env = process.environment("SSH_AUTH_SOCK", "DOCKER_*", **about)
    for words in commands:
        try:
            done = process.run(list(words), env=env, timeout_s=_HOOK_S, check=False)
        except (ToolFailed, ToolMissing) as error:  # no end in time, no such program
            _fail(when, str(error), error.findings[0].detail)
        except (OSError, ValueError, IndexError) as error:  # no program, or words that none takes
            _fail(when, f"{' '.join(words) or 'an empty command'} cannot be started: {error}", "")
        if done.returncode:
            said = b"\n".join(text.strip() for text in (done.stdout, done.stderr) if text.strip())
            ended = f"{words[0]} ended with code {done.returncode}"
            _fail(when, ended, said.decode("utf-8", "replace")[-3000:])


@contextmanager
def righted(after: Callable[[str], None]) -> Iterator[None]:
    """When the block fails or is interrupted, `after("failed")` puts right what was changed before;
    the block's own error stays the first."""
    try:
        yield
    except BaseException as error:
        try:
            after("failed")
        except ImgbuildError as also:
            if isinstance(error, ImgbuildError):
                error.findings = (*error.findings, *also.findings)
        raise


def told(about: Mapping[str, str], result: str) -> dict[str, str]:
    """What a hook is told that runs at an end: `result` is ok or failed."""
    return {**about, "IMGBUILD_RESULT": result}


def _fail(when: str, what: str, detail: str) -> NoReturn:
    kind = BuildHookFailed if when.endswith("-build") else HookFailed
    raise kind(f"{when}: {what}", hint=HINT, detail=detail)
