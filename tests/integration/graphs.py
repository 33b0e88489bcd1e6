"""Commit graphs for tests: any parents, fixed dates, pull request refs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.integration.repositories import FIRST, Content, Repo

Files = Mapping[str, Content]


class Graph(Repo):
    """A bare repository whose commits take any parents."""

    def add(self, files: Files, *parents: str, says: str = "", ref: str | None = None) -> str:
        self.count += 1
        date = f"{FIRST + self.count * 60} +0000"
        words = [word for parent in parents for word in ("-p", parent)]
        message = says or f"commit {self.count}"
        commit = self.git(
            "commit-tree", *words, "-m", message, self.tree(files),
            GIT_AUTHOR_DATE=date, GIT_COMMITTER_DATE=date,
        )  # fmt: skip
        if ref is not None:
            self.point(ref, commit)
        return commit

    def point(self, ref: str, commit: str) -> None:
        self.git("update-ref", ref, commit)

    def pull(self, number: int, commit: str) -> str:
        self.point(f"refs/pull/{number}/head", commit)
        return commit

    def forget(self, ref: str) -> None:
        """Delete a ref and everything that only it reached."""
        self.git("update-ref", "-d", ref)
        self.git("reflog", "expire", "--expire=now", "--all")
        self.git("gc", "-q", "--prune=now")

    def tree_of(self, commit: str) -> str:
        return self.git("rev-parse", f"{commit}^{{tree}}")

    def merged(self, *commits: str) -> str:
        """What git itself gives when it merges the commits one after another, as a tree."""
        ours, *others = commits
        tree = self.tree_of(ours)
        for theirs in others:
            tree = self.git("merge-tree", "--write-tree", ours, theirs)
            ours = self.git(
                "commit-tree", "-m", "merge", "-p", ours, "-p", theirs, tree,
                GIT_AUTHOR_DATE=f"{FIRST} +0000", GIT_COMMITTER_DATE=f"{FIRST} +0000",
            )  # fmt: skip
        return tree


def lines(*changed: tuple[int, str], count: int = 40) -> str:
    """A file of numbered lines, some of them replaced."""
    words = dict(changed)
    return "".join(f"{words.get(i, f'line {i}')}\n" for i in range(1, count + 1))


def graph(root: Path, name: str = "kern") -> Graph:
    return Graph(root / f"{name}.git")


def crossed(repo: Graph) -> tuple[str, str]:
    """Two commits with two merge bases, whose merge is clean only over both.

    One line was changed on the left, another on the right; each side took the other's change,
    then one side changed the left's line again.
    """
    start = repo.add({"a.txt": lines()}, ref="refs/heads/main")
    left = repo.add({"a.txt": lines((5, "left"))}, start)
    right = repo.add({"a.txt": lines((30, "right"))}, start)
    both = lines((5, "left"), (30, "right"))
    one = repo.add({"a.txt": both}, left, right)
    other = repo.add({"a.txt": both}, right, left)
    base = repo.add({"a.txt": lines((5, "left, again"), (30, "right"))}, one)
    head = repo.add({"a.txt": lines((5, "left"), (30, "right, again"))}, other)
    return base, head


def many(repo: Graph, count: int, *parents: str, file: str = "n.txt") -> str:
    """A line of commits, each with a number in one file."""
    tip: Sequence[str] = parents
    for number in range(count):
        tip = [repo.add({"a.txt": lines(), file: f"{number}\n"}, *tip)]
    return tip[0]
