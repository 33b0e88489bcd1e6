"""Ask a server which commit a ref names now."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from builder.errors import ToolFailed
from builder.model.values import GitPin
from builder.ports import RefGone
from builder.tools import git_env, git_words, process
from builder.tools.git_fetch import Attempt, SourceUnavailable, hint, retried, told
from builder.tools.git_words import Why

LIMIT_S = 120.0


class _RefUnavailable(SourceUnavailable, RefGone):
    pass


def resolve(urls: Sequence[str], ref: str, *, own: Sequence[git_env.Setting], store: Path) -> str:
    """The commit of a full ref name or HEAD; an annotated tag is peeled.

    Raises: SourceUnavailable.
    """
    attempts: list[Attempt] = []
    for url in urls:
        done = _ls_remote(url, (ref, f"{ref}^{{}}"), own, store)
        if done.returncode:
            words = done.complaint
            why = git_words.why(words)
            attempts.append(Attempt(url, f"ask for {ref}", why, git_words.last_words(words)))
            continue
        refs = _refs(done)
        commit = refs.get(f"{ref}^{{}}") or refs.get(ref)
        if commit:
            return commit
        attempts.append(Attempt(url, f"ask for {ref}", Why.NOT_FOUND, _near(url, ref, own, store)))
    gone = all(attempt.words.startswith("no such ref") for attempt in attempts)
    raise (_RefUnavailable if gone else SourceUnavailable)(
        f"{git_words.shown(urls[0])}: {ref} cannot be resolved",
        hint=f"the branch or tag was renamed or deleted: correct it in the lane ({ref})" if gone
        else hint(GitPin("this source", tuple(urls), ""), attempts),
        detail=told(attempts, own),
    )  # fmt: skip


def _ls_remote(
    url: str, patterns: Sequence[str], own: Sequence[git_env.Setting], store: Path
) -> process.Completed:
    argv = ("git", "ls-remote", "--", url, *patterns)
    env = git_env.network(store, url, own)

    def call() -> process.Completed:
        try:
            return process.run(argv, env=env, timeout_s=LIMIT_S, cwd=store, check=False)
        except ToolFailed as slow:
            return process.Completed(argv, 1, b"", str(slow).encode())

    return retried(call)


def _refs(done: process.Completed) -> dict[str, str]:
    pairs = (line.split("\t", 1) for line in done.text.splitlines() if "\t" in line)
    return {name: commit for commit, name in pairs}


def _near(url: str, ref: str, own: Sequence[git_env.Setting], store: Path) -> str:
    """Which refs of the same kind are like the one that is not there."""
    folder = ref.rpartition("/")[0] if ref.startswith("refs/") else "refs/heads"
    kind = "/".join(folder.split("/")[:2])
    listed = _refs(_ls_remote(url, (f"{kind}/*",), own, store))
    known = [name.removeprefix(f"{kind}/") for name in listed if not name.endswith("^{}")]
    near = difflib.get_close_matches(ref.removeprefix(f"{kind}/"), known, n=3, cutoff=0.7)
    return git_words.shown(f"no such ref; near: {', '.join(near)}" if near else "no such ref")
