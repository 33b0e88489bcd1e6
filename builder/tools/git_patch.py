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

    def apply(self, patch: bytes, *, strip: int) -> tuple[str | None, str]:
        """Apply what was checked; the id of the tree that results, or None and git's words."""
        return self._applied((*_apply(strip), "-"), patch)

    def merge(self, patch: bytes, *, strip: int) -> tuple[str | None, str]:
        """Merge what does not apply as it stands; the index is as it was when it conflicts."""
        return self._applied((*_apply(strip), "--3way", "-"), patch)

    def put(self, path: str, data: bytes, *, executable: bool | None = None) -> str:
        """Write a file into the index, its mode kept unless it is given; the tree."""
        entry = self._git(("git", "ls-files", "--stage", "-z", "--", f":(literal){path}")).text
        mode = entry[:6] or "100644"
        if executable is not None:
            mode = "100755" if executable else "100644"
        blob = self._git(("git", "hash-object", "-w", "--stdin"), data).text.strip()
        line = f"{mode} {blob}\t{path}\0".encode("utf-8", "surrogateescape")
        self._git(("git", "update-index", "-z", "--add", "--index-info"), line)
        return self._git(("git", "write-tree")).text.strip()

    def drop(self, path: str) -> str:
        """Take a file out; the tree."""
        line = f"0 {'0' * 40}\t{path}\0".encode("utf-8", "surrogateescape")
        self._git(("git", "update-index", "-z", "--index-info"), line)
        return self._git(("git", "write-tree")).text.strip()

    def held(self, path: str) -> bytes | None:
        done = self._git(("git", "cat-file", "blob", f":{path}"), check=False)
        return None if done.returncode else done.stdout

    def _applied(self, argv: tuple[str, ...], patch: bytes) -> tuple[str | None, str]:
        """The tree after a patch, or git's words; it may find only now that one path would be a
        file and a folder at once."""
        before = self._git(("git", "write-tree")).text.strip()
        done = self._git(argv, patch, check=False)
        if not done.returncode:
            done = self._git(("git", "write-tree"), check=False)
        if not done.returncode:
            return done.text.strip(), ""
        self._git(("git", "read-tree", before))
        return None, git_words.shown(done.complaint)

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
