"""Find the commit at which a patch stopped to apply, by halves, in a repository with history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from builder.model.values import CommitInfo
from builder.ports import PatchIndex
from builder.tools import git_patch


def first_bad(
    before: CommitInfo,
    commits: Sequence[CommitInfo],
    applies: Callable[[PatchIndex], bool],
    git_dir: Path,
) -> CommitInfo | None:
    """The first of `commits` (oldest first, after `before`) to which the patch does not apply.

    They are taken to be good, then bad. A patch that stands on another one applies to none, and
    the newest commit is then the likeliest. None without commits, or when all are good.
    """
    if not commits or _applies(commits[-1], applies, git_dir):
        return None
    good, bad = -1, len(commits) - 1
    while bad - good > 1:
        middle = (good + bad) // 2
        if _applies(commits[middle], applies, git_dir):
            good = middle
        else:
            bad = middle
    known = good >= 0 or _applies(before, applies, git_dir)
    return commits[bad] if known else commits[-1]


def _applies(commit: CommitInfo, applies: Callable[[PatchIndex], bool], git_dir: Path) -> bool:
    with git_patch.patching(git_dir, commit.tree, git_dir.parent / "tmp") as index:
        return applies(index)
