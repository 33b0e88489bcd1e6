"""Fetch the history of some tips, deeper at each step; what is here is never fetched again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from builder.model.values import GitPin
from builder.ports import Say
from builder.tools import git_env, git_fetch, git_quarantine, git_words, process
from builder.tools.git_fetch import Attempt, Fetching, SourceUnavailable
from builder.tools.git_words import Why

BOUND = 4096  # commits from the tip; questions with a bound stop there
WHOLE = 2**31 - 1  # git's own word for all of it

_DEPTHS = (64, 256, 1024, BOUND, WHOLE)
_TIPS = "refs/imgbuild/tip"
_DEEP = "imgbuild-deep"  # file: how deep the last fetch went


class Deepening:
    """Fetches into one bare repository."""

    def __init__(
        self,
        folder: Path,
        urls: Sequence[str],
        store: Path,
        own: Callable[[], Sequence[git_env.Setting]],
    ) -> None:
        self._folder = folder
        self._urls = urls
        self._store = store
        self._own = own
        self._boundary: frozenset[str] | None = None
        self._depth = 0  # how often `held` was entered

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes out; may be entered again inside."""
        if self._depth:
            yield
            return
        with git_quarantine.locked(self._folder):
            if not (self._folder / "HEAD").exists():
                git_quarantine.make_bare(self._folder)
            (self._folder / "shallow.lock").unlink(missing_ok=True)  # of a process that was killed
            self._boundary = None
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1

    def steps(self, tips: Sequence[GitPin], bound: int, say: Say) -> Iterator[None]:
        """First with what is here, when all tips are; then after each deeper fetch."""
        if all(self._is_here(tip.commit) for tip in tips):
            yield
        reached = self._reached()
        for depth in _DEPTHS:
            if reached <= depth <= bound:
                self._fetch(tips, depth, say)
                yield

    def boundary(self) -> frozenset[str]:
        """The commits whose parents are not here."""
        if self._boundary is None:
            try:
                text = (self._folder / "shallow").read_text()
            except FileNotFoundError:
                text = ""
            self._boundary = frozenset(text.split())
        return self._boundary

    def _fetch(self, tips: Sequence[GitPin], depth: int, say: Say) -> None:
        self._seed(tips)
        attempts: list[Attempt] = []
        missing = list(dict.fromkeys((tip.commit, tip.ref) for tip in tips))
        for url in self._urls:
            missing = self._from(url, missing, depth, attempts, say)
            if not missing:
                break
        self._boundary = None
        if missing:
            tip = next(tip for tip in tips if tip.commit == missing[0][0])
            raise SourceUnavailable(
                f"{tip.name}: the history of {tip.commit:.12} cannot be had",
                hint=git_fetch.hint(tip, attempts),
                detail=git_fetch.told(attempts, self._own()),
                place=tip.place,
            )
        git_quarantine.write(self._folder / _DEEP, f"{depth}\n")

    def _from(
        self,
        url: str,
        tips: list[tuple[str, str | None]],
        depth: int,
        attempts: list[Attempt],
        say: Say,
    ) -> list[tuple[str, str | None]]:
        """Fetch the tips from one place: all by their ids, else one by one, by id and ref."""
        deep = "whole" if depth == WHOLE else f"{depth} commits deep"
        way = f"history, {deep}"
        into = [f"{commit}:{_TIPS}/{commit}" for commit, _ in tips]
        done = self._transfer(url, into, depth, say)
        if not done.returncode:
            return []
        attempts.append(git_fetch.failure(url, way, done))
        if attempts[-1].why not in (Why.REFUSED, Why.OTHER):
            return tips
        return [tip for tip in tips if not self._alone(url, tip, depth, attempts, say)]

    def _alone(
        self,
        url: str,
        tip: tuple[str, str | None],
        depth: int,
        attempts: list[Attempt],
        say: Say,
    ) -> bool:
        commit, ref = tip
        done = self._transfer(url, [f"{commit}:{_TIPS}/{commit}"], depth, say)
        if not done.returncode:
            return True
        if ref is None:
            attempts.append(git_fetch.failure(url, f"{commit:.12} by id", done))
            return False
        done = self._transfer(url, [f"{ref}:{_TIPS}/{commit}"], depth, say)
        if done.returncode:
            attempts.append(git_fetch.failure(url, f"by {ref}", done))
            return False
        if not self._is_here(commit):
            words = f"commit {commit:.12} is not in the history of {ref}"
            attempts.append(Attempt(url, f"by {ref}", Why.REFUSED, words))
            return False
        git_quarantine.write(self._folder / _TIPS / commit, f"{commit}\n")
        return True

    def _seed(self, tips: Sequence[GitPin]) -> None:
        """Take from the store what it has of the tips, so that no server sends it again."""
        new = [
            tip.commit
            for tip in tips
            if git_quarantine.is_pinned(self._store, tip.commit) and not self._is_here(tip.commit)
        ]
        if new:
            into = [f"{commit}:{_TIPS}/{commit}" for commit in dict.fromkeys(new)]
            self._transfer(str(self._store), into, 1, lambda _: None)

    def _transfer(
        self, url: str, refspecs: Sequence[str], depth: int, say: Say
    ) -> process.Completed:
        def progress(size: int) -> None:
            say(f"history of {git_words.shown(url)}, {size / 1e6:.1f} MB")

        at = Fetching(self._folder, self._own(), progress)
        return git_fetch.transfer(url, refspecs, depth, at)

    def _reached(self) -> int:
        with contextlib.suppress(OSError, ValueError):
            return int((self._folder / _DEEP).read_text())
        return 0

    def _is_here(self, commit: str) -> bool:
        done = process.run(
            ("git", "cat-file", "-e", f"{commit}^{{commit}}"),
            env=git_env.local(self._folder), timeout_s=60, cwd=self._folder, check=False,
        )  # fmt: skip
        return done.returncode == 0
