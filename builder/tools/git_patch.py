"""Patches on a temporary index: no work tree, no fuzz, nothing written outside the store."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from builder.tools import git_env, git_words, process

PATCH_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class TemporaryIndex:
    """An index of the store's git; implements PatchIndex."""

    env: dict[str, str]
    folder: Path

    def check(self, patch: bytes, *, strip: int, reverse: bool = False) -> str:
        """Empty when it applies cleanly, else git's own words."""
        argv = (*_apply(strip), "--check", *(("-R",) if reverse else ()), "-")
        done = self._git(argv, patch, check=False)
        return git_words.shown(done.complaint) if done.returncode else ""

    def apply(self, patch: bytes, *, strip: int) -> str:
        """Apply what was checked; the id of the tree that results."""
        self._git((*_apply(strip), "-"), patch)
        return self._git(("git", "write-tree")).text.strip()

    def _git(
        self, argv: tuple[str, ...], stdin: bytes = b"", *, check: bool = True
    ) -> process.Completed:
        return process.run(
            argv, env=self.env, timeout_s=PATCH_LIMIT_S, stdin=stdin, cwd=self.folder, check=check
        )


@contextlib.contextmanager
def patching(git_dir: Path, tree: str, tmp: Path) -> Iterator[TemporaryIndex]:
    """An index that holds `tree`; it is gone after the block, the trees it wrote stay."""
    tmp.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="index-", dir=tmp) as folder:
        env = git_env.local(git_dir, GIT_INDEX_FILE=str(Path(folder, "index")))
        index = TemporaryIndex(env, Path(folder))
        index._git(("git", "read-tree", tree))
        yield index


def _apply(strip: int) -> tuple[str, ...]:
    return ("git", "apply", "--cached", "--whitespace=nowarn", f"-p{strip}")
