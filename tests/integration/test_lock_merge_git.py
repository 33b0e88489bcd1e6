"""Revisions and the merge driver with a real git.

IMGBUILD_PAIRS=1000 is the long run of random pairs.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from builder.errors import ImgbuildError
from builder.steps.lanes import lock_of
from builder.steps.lockmerge import entries
from builder.tools.project_at import ProjectAt
from builder.tools.toml import lock_text
from tests.integration.worktrees import git
from tests.unit.locks import OBJECTS, lock_table
from tests.unit.test_lock_merge import EDITS, edited

IMGBUILD = Path(sys.executable).with_name("imgbuild")
PATH = Path("locks/demo.lock")
PAIRS = int(os.environ.get("IMGBUILD_PAIRS", "8"))


def write(root: Path, *changes: tuple[str, str, str]) -> None:
    table = lock_table()
    for kind, name, commit in changes:
        table[kind][name]["commit"] = commit
    text = lock_text(lock_of(table, PATH, "demo"), "demo")
    (root / PATH).write_text(text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks/demo.toml").write_text("schema = 1\n")
    write(tmp_path)
    return tmp_path


def imgbuild(root: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(IMGBUILD), *argv], cwd=root, capture_output=True, text=True,
                          check=False, timeout=60)  # fmt: skip


def commit(root: Path, what: str) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-qm", what)


def merge(root: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@t",
           "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@t"}  # fmt: skip
    return subprocess.run(["git", "merge", "-q", "--no-edit", "theirs"], cwd=root, env=env,
                          capture_output=True, text=True, check=False, timeout=60)  # fmt: skip


def diverge(root: Path, ours: tuple[str, str, str], theirs: tuple[str, str, str]) -> None:
    done = imgbuild(root, "lock-merge", "--install")
    assert "merge=imgbuild-lock" in done.stdout
    assert imgbuild(root, "lock-merge", "--install").stdout == "nothing to do: it is there\n"
    commit(root, "base")
    git(root, "checkout", "-q", "-b", "theirs")
    write(root, theirs)
    commit(root, "theirs")
    git(root, "checkout", "-q", "main")
    write(root, ours)
    commit(root, "ours")


def test_git_merges_disjoint_edits(root: Path) -> None:
    # one line apart in the text: git's own merge would call it a conflict
    diverge(root, ("sources", "kern", OBJECTS[5]), ("sources", "loader", OBJECTS[6]))
    assert merge(root).returncode == 0
    lock = lock_of((root / PATH).read_bytes(), PATH, "demo")
    assert (lock.sources["kern"].commit, lock.sources["loader"].commit) == (OBJECTS[5], OBJECTS[6])


def test_git_stops_at_a_conflict_that_names_the_entry(root: Path) -> None:
    diverge(root, ("sources", "kern", OBJECTS[5]), ("sources", "kern", OBJECTS[6]))
    done = merge(root)
    assert done.returncode == 1
    assert "sources.kern was changed on both sides: commit" in done.stderr
    assert "imgbuild lock demo" in done.stderr
    assert git(root, "status", "--porcelain") == "UU locks/demo.lock"
    assert (root / PATH).read_text().count("<<<<<<<") == 1


def some(r: random.Random, side: int) -> str:
    """A lock after a few edits, as `imgbuild lock` writes it."""
    made = [
        (r.choice(EDITS), r.choice(["move", "remove", "touch"])) for _ in range(r.randint(1, 4))
    ]
    return lock_text(lock_of(edited(lock_table(), made, side), PATH, "demo"), "demo")


def sides(r: random.Random) -> tuple[str, str, str]:
    """Base, ours and theirs: three different ones, or git has nothing to merge."""
    base = lock_text(lock_of(lock_table(), PATH, "demo"), "demo")
    while True:
        ours, theirs = some(r, 2), some(r, 3)
        if len({base, ours, theirs}) == 3:
            return base, ours, theirs


@pytest.mark.timeout(0 if PAIRS > 100 else 900)
def test_random_pairs_through_git(root: Path) -> None:
    """It merges when no entry was changed twice, and what it leaves then is what both sides say."""
    assert imgbuild(root, "lock-merge", "--install").returncode == 0
    commit(root, "base")
    git(root, "branch", "base")
    r = random.Random(1)
    ends = set()
    for _ in range(PAIRS):
        base, ours, theirs = sides(r)
        for branch, text in (("theirs", theirs), ("main", ours)):
            git(root, "checkout", "-q", "-B", branch, "base")
            (root / PATH).write_text(text)
            commit(root, branch)
        done = merge(root)
        check((root / PATH).read_text(), done, *(tomllib.loads(t) for t in (base, ours, theirs)))
        ends.add(done.returncode)
        git(root, "reset", "-q", "--hard")
    assert ends == {0, 1}


def check(
    text: str, done: subprocess.CompletedProcess[str],
    base: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any],
) -> None:  # fmt: skip
    was, a, b = entries(base), entries(ours), entries(theirs)
    every = was.keys() | a.keys() | b.keys()
    twice = {k for k in every if was.get(k) not in (a.get(k), b.get(k)) and a.get(k) != b.get(k)}
    if done.returncode:
        assert done.returncode == 1, done.stderr
        assert twice
        assert "imgbuild lock demo" in done.stderr
        return
    lock_of(text.encode(), PATH, "demo")
    merged = entries(tomllib.loads(text))
    for key in merged.keys() | every:
        if key == ("deps-archive",) and not any(kind[0] == "deps" for kind in merged):
            continue  # of no deps there is none
        assert merged.get(key) in (a.get(key), b.get(key)), key
        if key not in twice and a.get(key) != b.get(key):
            assert merged.get(key) != was.get(key), key


def test_what_is_no_call_of_git_ends_with_a_usage_error(root: Path) -> None:
    assert imgbuild(root, "lock-merge").returncode == 2
    assert imgbuild(root, "lock-merge", "a", "b", "c").returncode == 2


def test_a_revision_is_read_without_the_work_tree(root: Path) -> None:
    (root / "docker-images/x/sub").mkdir(parents=True)
    (root / "docker-images/x/Dockerfile").write_text("FROM scratch\n")
    (root / "docker-images/x/sub/é").write_text("x")
    (root / "docker-images/x/sub/é").chmod(0o755)
    commit(root, "one")
    before = (root / "docker-images/x/Dockerfile").read_bytes()
    (root / "docker-images/x/Dockerfile").write_text("FROM other\n")
    (root / "docker-images/x/link").symlink_to("Dockerfile")
    commit(root, "two")
    there = ProjectAt(root, "HEAD~1")
    assert there.read("docker-images/x/Dockerfile") == before
    assert there.read("none") is None
    assert there.files("docker-images/x") == (("Dockerfile", False), ("sub/é", True))
    assert there.files("none") is None
    with pytest.raises(ImgbuildError, match="no regular file"):
        ProjectAt(root, "main").files("docker-images/x")
    assert (root / "docker-images/x/Dockerfile").read_text() == "FROM other\n"


@pytest.mark.parametrize("name", ["none", "-x", "--upload-pack=x", "HEAD~99", "a..b", "", "@{u}",
                                  "HEAD:locks", "a b", "HEAD^{tree}", ":/one"])  # fmt: skip
def test_what_is_no_revision(root: Path, name: str) -> None:
    commit(root, "one")
    with pytest.raises(ImgbuildError, match="names no commit"):
        ProjectAt(root, name)


def test_canaries_of_the_repository_do_not_fire(root: Path, tmp_path: Path) -> None:
    commit(root, "one")
    canary = tmp_path / "fired"
    for key in ("core.fsmonitor", "core.pager", "diff.external", "filter.x.smudge"):
        git(root, "config", key, f"touch {canary}")
    assert ProjectAt(root, "HEAD").read("locks/demo.toml") == b"schema = 1\n"
    assert not canary.exists()


def test_a_linked_work_tree_and_no_repository(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    commit(root, "one")
    other = tmp_path_factory.mktemp("other") / "tree"
    git(root, "worktree", "add", "-q", str(other), "HEAD")
    assert ProjectAt(other, "HEAD").read("locks/demo.toml") == b"schema = 1\n"
    with pytest.raises(ImgbuildError, match="lies in no git repository"):
        ProjectAt(tmp_path_factory.mktemp("none"), "HEAD")
