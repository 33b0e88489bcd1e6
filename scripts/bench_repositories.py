"""Bare repositories on this disk as what benches measure with: their HEAD, whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def environment(**more: str) -> dict[str, str]:
    """What programs are given: nothing of the user's settings but where pip looks."""
    kept = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    pip = {key: value for key, value in os.environ.items() if key.startswith("PIP_")}
    fixed = {"LC_ALL": "C.UTF-8", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    return {**kept, **pip, **fixed, **more}


def run(folder: Path, *argv: str | Path, data: str = "", **env: str) -> str:
    """What a program prints; when it fails, this one ends with its words."""
    done = subprocess.run(
        [str(word) for word in argv], cwd=folder, env=environment(**env),
        input=data, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{argv[0]} {argv[1]}: {done.stderr[-800:] or done.stdout[-800:]}")
    return done.stdout


def name_of(repository: Path) -> str:
    folder = repository.parent.name if repository.name in ("repo", "git") else repository.name
    return folder.rpartition("+")[2].removesuffix(".git").lower()


def head(repository: Path) -> str:
    return run(repository, "git", "rev-parse", "HEAD").strip()


def gitlinks(repository: Path) -> list[str]:
    lines = run(repository, "git", "ls-tree", "-r", "HEAD").splitlines()
    return [line.partition("\t")[2] for line in lines if line.startswith("160000")]


def whole(repository: Path, tmp: Path) -> Path:
    """A repository with one commit without parents: HEAD's tree but for blobs that are lacking.

    west refuses a shallow history, and neither tool takes a repository that lacks a blob.
    """
    made = tmp / "repositories" / f"{name_of(repository)}.git"
    run(tmp, "git", "init", "-q", "--bare", "-b", "main", made)
    (made / "objects/info/alternates").write_text(f"{repository / 'objects'}\n")
    lines = run(made, "git", "ls-tree", "-r", head(repository)).splitlines()
    asked = "\n".join(line.split()[2] for line in lines)
    states = run(made, "git", "cat-file", "--batch-check", data=asked).splitlines()
    kept = [
        line for line, state in zip(lines, states, strict=True)
        if " commit " in line or not state.endswith("missing")
    ]  # fmt: skip
    index = {"GIT_INDEX_FILE": str(made / "index")}
    run(made, "git", "update-index", "--index-info", data="\n".join(kept) + "\n", **index)
    tree = run(made, "git", "write-tree", **index).strip()
    author = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")
    commit = run(made, "git", *author, "commit-tree", tree, "-m", "bench").strip()
    run(made, "git", "update-ref", "refs/heads/main", commit)
    return made
