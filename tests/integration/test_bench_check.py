"""scripts/bench-check on a repository with Dockerfiles: what `imgbuild check` says of them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.integration.worktrees import git

ROOT = Path(__file__).parents[2]
SHAPES = ROOT / "tests/data/dockerfiles"


def test_the_findings_of_each_dockerfile(tmp_path: Path) -> None:
    work = tmp_path / "kern"
    (work / "docker").mkdir(parents=True)
    (work / "a.cu").write_text("x\n")
    shutil.copy(SHAPES / "clone-in-a-stage", work / "docker/Dockerfile.clone")
    shutil.copy(SHAPES / "no-gpu", work / "Dockerfile")
    (work / "Dockerfile.dockerignore").write_text("**\n")
    git(work, "init", "-q", "-b", "main")
    git(work, "add", "-A")
    git(work, "commit", "-qm", "one")
    bare = tmp_path / "owner+kern/repo"
    git(tmp_path, "clone", "-q", "--bare", str(work), str(bare))
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/bench-check"), str(bare), "--json"],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    rows = json.loads(done.stdout)["dockerfiles"]
    assert [(row["repository"], row["commit"]) for row in rows] == [
        ("kern", git(work, "rev-parse", "HEAD"))
    ] * 2
    said = {row["file"]: [(f["code"], f["line"]) for f in row["findings"]] for row in rows}
    assert said["Dockerfile"] == []
    assert ("arch-inherited", 32) in said["docker/Dockerfile.clone"]
    assert {code for code, _ in said["docker/Dockerfile.clone"]} == {
        "arch-inherited", "network-open",
    }  # fmt: skip
