"""Tell a project's git of the merge driver for locks: `.gitattributes` and its own config."""

from __future__ import annotations

import shlex
from pathlib import Path

from builder.tools import git_env, process

DRIVER = "imgbuild-lock"
ATTRIBUTES = f"locks/*.lock merge={DRIVER}"


def install(root: Path, program: Path, git_dir: Path) -> tuple[str, ...]:
    """Write the attribute and the driver; what was written, nothing when all was there."""
    done = []
    file = root / ".gitattributes"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    if ATTRIBUTES not in text.splitlines():
        ended = "\n" if text and not text.endswith("\n") else ""
        file.write_text(f"{text}{ended}{ATTRIBUTES}\n", encoding="utf-8")
        done.append(f".gitattributes: {ATTRIBUTES}")
    for key, value in settings(program):
        if _get(git_dir, key) != value:
            _git(git_dir, "config", "--local", key, value)
            done.append(f"git config {key} {shlex.quote(value)}")
    return tuple(done)


def settings(program: Path) -> tuple[tuple[str, str], ...]:
    """The driver as git's configuration has it; git runs it by a shell."""
    command = f"{shlex.quote(str(program))} lock-merge %O %A %B %P"
    return (
        (f"merge.{DRIVER}.name", "merge imgbuild's locks entry by entry"),
        (f"merge.{DRIVER}.driver", command),
    )


def _get(git_dir: Path, key: str) -> str:
    return _git(git_dir, "config", "--local", "--get", key, check=False).text.rstrip("\n")


def _git(git_dir: Path, *words: str, check: bool = True) -> process.Completed:
    return process.run(("git", *words), env=git_env.local(git_dir), timeout_s=30, check=check)
