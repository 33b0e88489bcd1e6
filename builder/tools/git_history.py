"""The commit graph of one repository, in a bare repository of its own beside the store.

The store holds commits without parents (depth 1), which is all that a build reads. Whoever asks
for merge bases, for what lies between two pins or for the ref that reaches a commit needs
parents. They are fetched here, deeper and deeper until the answer is proven, and kept; what is
locked then needs no history again. Whole objects, never `--filter`: a partial repository would
fetch blobs on its own in the middle of a merge (docs/decisions/0007-history.md).

Proof. Let H be the commits at the boundary, whose parents are not here. Commits that are not
ancestors of a merge base that was found must hold none of H: all that lies behind the boundary
is then an ancestor of a merge base, and so is no merge base itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from builder.errors import SourceError, ToolFailed
from builder.model.merges import CommitRange, Merged
from builder.model.values import CommitInfo, GitPin
from builder.ports import PatchIndex, Say
from builder.tools import git_culprit, git_deepen, git_env, git_merge, git_patch, process
from builder.tools.git_deepen import BOUND, WHOLE

LIMIT_S = 600.0
_FORMAT = "%H%x00%T%x00%P%x00%ct%x00%an <%ae>%x00%s"
_FIELDS = 6


class HistoryFolder:
    """Implements ports.History; one process at a time uses the folder."""

    def __init__(
        self,
        folder: Path,
        urls: Sequence[str],
        store: Path,
        own: Callable[[], Sequence[git_env.Setting]],
    ) -> None:
        self.git_dir = folder
        self._urls = tuple(urls)
        self._store = store
        self._deep = git_deepen.Deepening(folder, tuple(urls), store, own)

    @property
    def urls(self) -> tuple[str, ...]:
        """This folder, when there is one, then the places that it is fetched from."""
        here = (str(self.git_dir),) if (self.git_dir / "HEAD").exists() else ()
        return (*here, *self._urls)

    def merge_bases(self, ours: Sequence[GitPin], theirs: GitPin, *, say: Say) -> tuple[str, ...]:
        """All merge bases, proven. Raises: SourceUnavailable."""
        names = [pin.commit for pin in ours]
        with self._deep.held():
            for _ in self._deep.steps([*ours, theirs], WHOLE, say):
                found = self._bases(names, theirs.commit)
                if found is not None:
                    return found
        raise ToolFailed("a whole history has a boundary", hint=f"remove {self.git_dir}")

    def merge(self, tree: str, ours: Sequence[GitPin], theirs: GitPin, *, say: Say) -> Merged:
        """Merge with the real graph; the result is brought into the store as a patch."""
        objects = self._store / "objects"
        with self._deep.held():
            self.merge_bases(ours, theirs, say=say)
            side = git_merge.add_commit(
                self.git_dir / "objects", tree, [pin.commit for pin in ours]
            )
            merged = git_merge.merge_commits(self.git_dir, side, theirs.commit, also=(objects,))
            if not merged.conflicts:
                delta = git_merge.diff(self.git_dir, tree, merged.tree, also=(objects,))
                self._bring(tree, delta, merged.tree)
        return merged

    def reaches(self, tip: GitPin, commit: str, *, say: Say) -> bool | None:
        """Whether the commit is in the tip's history; None when BOUND commits do not tell."""
        if tip.commit == commit:
            return True
        with self._deep.held():
            for _ in self._deep.steps([tip], BOUND, say):
                is_here = self._is_here(commit)
                if is_here and self._is_ancestor(commit, tip.commit):
                    return True
                if not self._hidden([tip.commit], [commit] if is_here else []):
                    return False
        return None

    def commits(self, old: GitPin, new: GitPin, *, limit: int, say: Say) -> CommitRange:
        """What `new` has and `old` has not."""
        with self._deep.held():
            complete = seen = False
            try:
                for _ in self._deep.steps([old, new], BOUND, say):
                    complete, seen = not self._hidden([new.commit], [old.commit]), True
                    if complete:
                        break
            except SourceError:
                if not seen:
                    raise
            rewritten = not self._is_ancestor(old.commit, new.commit)
            found = self._git("rev-list", "--count", new.commit, f"^{old.commit}").text
            words = ("log", "-z", f"--max-count={limit}", f"--format={_FORMAT}", "--no-mailmap")
            log = self._git(*words, "--encoding=UTF-8", new.commit, f"^{old.commit}").text
        return CommitRange(tuple(_infos(log)), int(found), complete, rewritten)

    def breaking(
        self, old: GitPin, new: GitPin, applies: Callable[[PatchIndex], bool],
        *, paths: Sequence[str], say: Say,
    ) -> CommitInfo | None:  # fmt: skip
        """The commit at which a patch applies no longer."""
        with self._deep.held():
            for _ in self._deep.steps([old, new], BOUND, say):
                if not self._hidden([new.commit], [old.commit]):
                    break
            words = ("--topo-order", "--reverse", f"--format={_FORMAT}", "--no-mailmap")
            between = (new.commit, f"^{old.commit}", "--", *(f":(literal){p}" for p in paths))
            log = self._git("log", "-z", *words, "--encoding=UTF-8", *between).text
            first = self._git("log", "-z", "-1", *words[2:], "--encoding=UTF-8", old.commit).text
            commits = list(_infos(log))
            (before,) = _infos(first)
            return git_culprit.first_bad(before, commits, applies, self.git_dir)

    def last_change(self, commit: str, path: str, text: str) -> CommitInfo | None:
        """The newest commit, of those here, that changed how often a text stands in a file.

        Nothing is fetched: None also says that the history around the commit is not here.
        """
        if not (self.git_dir / "HEAD").exists() or not self._is_here(commit):
            return None
        words = ("log", "-z", "-1", f"--format={_FORMAT}", "--no-mailmap", "--encoding=UTF-8")
        done = self._git(*words, f"-S{text}", commit, "--", f":(literal){path}", check=False)
        return next(_infos(done.text), None) if not done.returncode and done.text else None

    def _bases(self, ours: Sequence[str], theirs: str) -> tuple[str, ...] | None:
        """The merge bases, or None while the boundary may hide one.

        Several are merged with one another, in an order that git chooses, over their own merge
        bases: those must be known too.
        """
        done = self._git("merge-base", "--all", theirs, *ours, check=False)
        found = done.text.split()
        if self._hidden([theirs, *ours], found):
            return None
        for i, base in enumerate(found):
            others = [*found[:i], *found[i + 1 :]]
            if any(self._hidden([base], [other]) for other in others):
                return None  # one may be an ancestor of another, unseen
        for i in range(len(found) - 1, 0, -1):
            if self._bases(found[i:], found[i - 1]) is None:
                return None
        return tuple(found)

    def _hidden(self, tips: Sequence[str], bases: Sequence[str]) -> bool:
        """Whether the boundary cuts the history of the tips outside that of the bases."""
        boundary = self._deep.boundary()
        if not boundary:
            return False
        seen = self._git("rev-list", *tips, *(f"^{base}" for base in bases)).text.split()
        return not boundary.isdisjoint(seen)

    def _is_here(self, commit: str) -> bool:
        return not self._git("cat-file", "-e", f"{commit}^{{commit}}", check=False).returncode

    def _is_ancestor(self, commit: str, tip: str) -> bool:
        done = self._git("merge-base", "--is-ancestor", commit, tip, check=False)
        return done.returncode == 0

    def _bring(self, tree: str, delta: bytes, result: str) -> None:
        """Write the result's objects into the store itself: here they may lie in packs of ours."""
        found: str | None = tree
        if delta:
            with git_patch.patching(self._store, tree, self._store.parent / "tmp") as index:
                found, _ = index.apply(delta, strip=1)
        if found != result:
            raise ToolFailed(
                f"git's own patch gives tree {found or 'none':.12}, its merge gave {result:.12}",
                hint="report it, with the names of the commits",
            )

    def _git(self, *words: str, check: bool = True) -> process.Completed:
        env = git_env.local(self.git_dir)
        return process.run(
            ("git", *words), env=env, timeout_s=LIMIT_S, cwd=self.git_dir, check=check
        )


def _infos(log: str) -> Iterator[CommitInfo]:
    fields = log.split("\0")
    with contextlib.suppress(IndexError):
        for at in range(0, len(fields) - _FIELDS + 1, _FIELDS):
            commit, tree, parents, time, author, subject = fields[at : at + _FIELDS]
            yield CommitInfo(commit, tree, int(time), author, subject, tuple(parents.split()))
