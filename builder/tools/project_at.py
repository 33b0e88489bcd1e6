"""The files of the project at a git revision; the work tree is not touched.

git runs with the fixed environment of git_env and an explicit GIT_DIR: no discovery, no
hook, no filter, no setting of the repository that starts a program when objects are read.
"""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path

from builder.errors import LaneError, Place, UsageError
from builder.model.ids import is_ref
from builder.tools import git_env, process
from builder.tools.project import dropping

_LIMIT_S = 60.0


class RevisionUnknown(UsageError):
    code = "revision-unknown"


class ProjectAt:
    """Implements ports.Project, for reading; `root` shows the revision: `HEAD~1:locks/…`."""

    def __init__(self, folder: Path, revision: str) -> None:
        top, git_dir = repository(folder)
        self._env = git_env.local(git_dir)
        self._prefix = "" if folder == top else folder.relative_to(top).as_posix() + "/"
        self.commit = self._commit(revision)
        self.root = Path(f"{revision}:{self._prefix}")

    def read(self, path: str) -> bytes | None:
        mode, blob = self._listed.get(path, ("", ""))
        if mode not in ("100644", "100755"):
            return None
        done = self._git("cat-file", "blob", blob)
        return done.stdout

    def write(self, path: str, data: bytes) -> None:  # noqa: ARG002
        raise UsageError(f"{self.root}: a revision cannot be written to")

    def files(self, folder: str) -> tuple[tuple[str, bool], ...] | None:
        inside = f"{folder}/"
        held = {p[len(inside) :]: m for p, (m, _) in self._listed.items() if p.startswith(inside)}
        if not held:
            return None
        kept = {p: m for p, m in held.items() if not any(map(dropping, p.split("/")))}
        for path, mode in kept.items():
            if mode not in ("100644", "100755"):
                place = Place(self.root / inside / path)
                raise LaneError(f"{path} is no regular file", place=place)
        return tuple(sorted((path, mode == "100755") for path, mode in kept.items()))

    @functools.cached_property
    def _listed(self) -> dict[str, tuple[str, str]]:
        """Mode and object of every file below the project's root."""
        tree = f"{self.commit}:{self._prefix}" if self._prefix else self.commit
        done = self._git("ls-tree", "-r", "-z", "--full-tree", tree)
        found = {}
        for entry in done.stdout.decode("utf-8", "surrogateescape").split("\0"):
            if entry:
                words, _, path = entry.partition("\t")
                mode, _, blob = words.split()
                found[path] = (mode, blob)
        return found

    def _commit(self, revision: str) -> str:
        plain = revision.rstrip("~^0123456789") or revision
        if is_ref(plain) and is_ref(revision.replace("~", "-").replace("^", "-")):
            wanted = f"{revision}^{{commit}}"
            done = self._git(
                "rev-parse", "--verify", "--quiet", "--end-of-options", wanted, check=False
            )
            if done.returncode == 0:
                return done.text.strip()
        raise RevisionUnknown(
            f"{revision!r} names no commit of this project",
            hint="a branch, a tag, a commit id, HEAD~1 …; a shallow clone may lack it",
        )

    def _git(self, *words: str, check: bool = True) -> process.Completed:
        return process.run(("git", *words), env=self._env, timeout_s=_LIMIT_S, check=check)


def repository(folder: Path) -> tuple[Path, Path]:
    """The work tree that a folder lies in, and its git folder."""
    for top in (folder, *folder.parents):
        there = top / ".git"
        if there.is_dir():
            return top, there
        if there.is_file():  # a linked work tree
            with contextlib.suppress(OSError, UnicodeDecodeError):
                named = there.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
                return top, (top / named).resolve()
    raise RevisionUnknown(
        f"{folder} lies in no git repository, so it has no revisions",
        hint="compare two lanes instead: imgbuild diff A B",
    )
