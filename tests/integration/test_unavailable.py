"""What cannot be had is said with its source, its place, and a command that works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.repositories import Repo

IMGBUILD = Path(sys.executable).with_name("imgbuild")
LANE = """\
schema = 1
image = "plain"
repository = "plain"
platforms = ["linux/arm64"]
[build]
cuda-arch-list = "12.1a"
[sources.alpha]
url = "./sources/alpha.git"
"""


class Project:
    """A project with a lane `plain` of one source `alpha`, run with a home of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("locks", "docker-images/plain", "home", "sources"):
            (root / folder).mkdir(parents=True)
        (root / "docker-images/plain/Dockerfile").write_text("FROM scratch\n")
        self.alpha = Repo(root / "sources/alpha.git")

    def lane(self, *more: str) -> None:
        (self.root / "locks/plain.toml").write_text(LANE + "\n".join(more) + "\n")

    def run(self, *argv: str) -> tuple[int, str]:
        env = {
            "PATH": os.environ["PATH"], "HOME": str(self.root / "home"), "NO_PROXY": "127.0.0.1",
            "IMGBUILD_CACHE": str(self.root / "cache"), "IMGBUILD_STATE": str(self.root / "state"),
        }  # fmt: skip
        done = subprocess.run(
            argv if argv[0] == "git" else (IMGBUILD, *argv),
            cwd=self.root, env=env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stderr

    def forget(self) -> None:
        shutil.rmtree(self.root / "cache")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def hint(said: str) -> str:
    return said.partition("  hint: ")[2]


def test_a_commit_that_nobody_has(project: Project) -> None:
    """Without track the pin is not moved by a command; with it, by one with the real names."""
    project.alpha.commit({"a": "1\n"})
    gone = "1" * 40
    project.lane(f'commit = "{gone}"')
    code, said = project.run("lock", "plain")
    assert (code, "--> locks/plain.toml:7" in said) == (4, True), said
    assert "mirrors of alpha" in hint(said)
    assert "--update" not in hint(said)
    project.lane(f'commit = "{gone}"', 'track = { branch = "main" }', 'unreachable = "test"')
    code, said = project.run("lock", "plain")
    assert "imgbuild lock plain --update alpha" in hint(said)


def test_a_locked_commit_that_nobody_has(project: Project) -> None:
    project.alpha.commit({"a": "1\n"})
    project.lane('track = { branch = "main" }')
    assert project.run("lock", "plain")[0] == 0
    project.forget()
    shutil.rmtree(project.alpha.path)
    code, said = project.run("fetch", "plain")
    assert (code, "check the address of alpha in the lane" in said) == (4, True), said
    assert re.search(r"--> locks/plain\.lock:\d+\n", said)


def test_a_ref_that_is_gone_names_its_source(project: Project) -> None:
    project.alpha.commit({"a": "1\n"})
    project.lane('track = { branch = "mian" }')
    code, said = project.run("lock", "plain")
    assert (code, "error[source-unavailable]: alpha: " in said) == (4, True), said
    assert "--> locks/plain.toml:7" in said


def test_a_submodule_that_cannot_be_had(project: Project) -> None:
    """The lane's mirrors are not asked for it: the hint's command is, and works."""
    sub = Repo(project.root / "elsewhere/sub.git")
    inner = sub.commit({"s": "1\n"})
    address = f"{project.root}/gone/sub.git"
    modules = f'[submodule "sub"]\n\tpath = sub\n\turl = {address}\n'
    project.alpha.commit({".gitmodules": modules, "sub": ("160000", inner)})
    project.lane('track = { branch = "main" }')
    code, said = project.run("lock", "plain")
    assert (code, "alpha/sub: commit" in said, "mirrors" in said) == (4, True, False), said
    assert "--> locks/plain.toml:7" in said
    command = re.search(r'git config --global (url\."<another address>"\.insteadOf) "(.*)"', said)
    assert command is not None
    assert command[2] == address
    key = command[1].replace('"', "").replace("<another address>", str(sub.path))
    assert project.run("git", "config", "--global", key, command[2])[0] == 0
    code, said = project.run("lock", "plain")
    assert code == 0, said


def test_a_deleted_pull_request(project: Project) -> None:
    """What the hint says to write into the lane locks again."""
    base = project.alpha.commit({"a": "1\n"})
    project.alpha.git("update-ref", "refs/heads/work", base)
    head = project.alpha.commit({"a": "1\n", "b": "2\n"}, branch="work")
    project.alpha.git("update-ref", "refs/pull/1/head", head)
    project.alpha.git("update-ref", "-d", "refs/heads/work")
    track = 'track = { branch = "main" }'
    project.lane(track, "compose = [{ pull = 1 }]")
    code, said = project.run("lock", "plain")
    assert code == 0, said
    project.alpha.git("update-ref", "-d", "refs/pull/1/head")
    code, said = project.run("lock", "plain", "--update", "alpha")
    assert (code, "alpha: " in said) == (4, True), said
    assert "--> locks/plain.toml:" in said
    entry = f'{{ pull = 1, head = "{head}" }}'
    assert entry in hint(said)
    project.lane(track, f"compose = [{entry}]")
    code, said = project.run("lock", "plain", "--update", "alpha")
    assert code == 0, said


def test_the_address_that_git_asks_is_said(project: Project) -> None:
    """Of insteadOf a person has forgotten: the lane's address alone would mislead."""
    commit = project.alpha.commit({"a": "1\n"})
    key = f"url.{project.root}/mirror/.insteadOf"
    assert project.run("git", "config", "--global", key, "https://git.invalid/")[0] == 0
    lane = f'commit = "{commit}"'
    project.lane(lane)
    path = project.root / "locks/plain.toml"
    text = path.read_text().replace("./sources/alpha.git", "https://git.invalid/alpha.git")
    path.write_text(text)
    code, said = project.run("lock", "plain")
    assert code == 4
    asked = f"asked at {project.root}/mirror/alpha.git (url.insteadOf of git)"
    assert f"cannot be had from https://git.invalid/alpha.git, {asked}" in said
    path.write_text(text.replace(lane, 'track = { branch = "main" }'))
    code, said = project.run("lock", "plain")
    assert (code, f"https://git.invalid/alpha.git, {asked}" in said) == (4, True), said


def test_words_that_are_almost_right(project: Project) -> None:
    """A short commit, and a name that ends in a hyphen: each with its cause and its way."""
    project.lane('commit = "1234abcd"')
    code, said = project.run("lock", "plain")
    assert code == 3
    assert "hint: git rev-parse 1234abcd prints it" in said
    assert "imgbuild lock plain finds its commit" in said
    project.lane('track = { branch = "main" }', "[sources.beta-]", 'url = "./x.git"')
    code, said = project.run("lock", "plain")
    assert (code, "the first and the last a letter or a digit, not 'beta-'" in said) == (3, True), (
        said
    )
    (project.root / "x.lock").write_text("{}")
    code, said = project.run("import", "x.lock", "--lane", "mine-")
    assert (code, "the first and the last a letter or a digit" in said) == (2, True), said
