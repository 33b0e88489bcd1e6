"""Real git repositories for tests, with fixed authors and dates, so that ids are known."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "LC_ALL": "C",
    "TZ": "UTC",
    "GIT_AUTHOR_NAME": "A. Author",
    "GIT_AUTHOR_EMAIL": "author@example.invalid",
    "GIT_COMMITTER_NAME": "C. Committer",
    "GIT_COMMITTER_EMAIL": "committer@example.invalid",
}
FIRST = 1_700_000_000

Content = str | bytes | tuple[str, str | bytes]
"""A file's text, or (mode, text); a gitlink is ("160000", commit)."""


class Repo:
    """A bare repository whose commits are made straight from trees."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.count = 0
        self.git("init", "-q", "--bare", "-b", "main", ".")

    @property
    def url(self) -> str:
        return str(self.path)

    def git(self, *words: str, data: bytes = b"", **env: str) -> str:
        done = subprocess.run(
            ("git", *words), cwd=self.path, env={**ENV, **env}, input=data, capture_output=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()

    def tree(self, files: Mapping[str, Content]) -> str:
        """A tree of any entries, hostile ones too: nested folders become trees of their own."""
        here: dict[str, tuple[str, str]] = {}
        below: dict[str, dict[str, Content]] = {}
        for path, content in files.items():
            first, slash, rest = path.partition("/")
            if slash and not path.startswith("//"):
                below.setdefault(first, {})[rest] = content
                continue
            mode, text = content if isinstance(content, tuple) else ("100644", content)
            data = text if isinstance(text, bytes) else text.encode()
            name = data.decode() if mode == "160000" else self.blob(data)
            here[path] = (mode, name)
        for folder, inside in below.items():
            here[folder] = ("40000", self.tree(inside))
        return self.raw_tree(here)

    def raw_tree(
        self, entries: Mapping[str, tuple[str, str]] | Mapping[bytes, tuple[str, str]]
    ) -> str:
        names = {k if isinstance(k, bytes) else k.encode(): v for k, v in entries.items()}

        def order(item: tuple[bytes, tuple[str, str]]) -> bytes:
            return item[0] + (b"/" if item[1][0] == "40000" else b"")

        raw = b"".join(
            mode.encode() + b" " + name + b"\0" + bytes.fromhex(oid)
            for name, (mode, oid) in sorted(names.items(), key=order)
        )
        return self.git("hash-object", "-t", "tree", "-w", "--literally", "--stdin", data=raw)

    def blob(self, data: bytes) -> str:
        return self.git("hash-object", "-w", "--stdin", data=data)

    def commit(self, files: Mapping[str, Content], *, branch: str = "main") -> str:
        return self.commit_tree(self.tree(files), branch=branch)

    def commit_tree(self, tree: str, *, branch: str = "main") -> str:
        self.count += 1
        date = f"{FIRST + self.count * 60} +0000"
        known = self.git("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")
        parents = ("-p", known) if known else ()
        words = ("commit-tree", "-m", f"commit {self.count}", *parents, tree)
        commit = self.git(*words, GIT_AUTHOR_DATE=date, GIT_COMMITTER_DATE=date)
        self.git("update-ref", f"refs/heads/{branch}", commit)
        return commit


def kern(root: Path, name: str = "kern") -> tuple[Repo, str]:
    """A small repository with one of everything that is allowed; its commit."""
    repo = Repo(root / f"{name}.git")
    repo.commit({"README.md": "kern\n"})
    commit = repo.commit(
        {
            "README.md": "kern\n",
            "csrc/kern.h": "int axpy(void);\n",
            "csrc/axpy.cu": "".join(f"line {i}\n" for i in range(1, 31)),
            "tools/run": ("100755", "#!/bin/sh\n"),
            "docs/latest": ("120000", "../README.md"),
            "docs/übersicht.md": "x\n",
            "a.txt": "1\n",
            "a/b.txt": "2\n",
            "deep/" + "/".join(["folder" * 4] * 5) + "/file.py": "pass\n",
        }
    )
    return repo, commit


def quiet(_: str) -> None:
    """Says nothing."""
