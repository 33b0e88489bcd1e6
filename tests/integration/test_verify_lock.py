"""verify-lock as a program on a small project: stamps, what unproves, --deep, digests by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.worktrees import git

IMGBUILD = Path(sys.executable).with_name("imgbuild")


@dataclass(frozen=True)
class Place:
    root: Path
    env: dict[str, str]

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(IMGBUILD), *argv], cwd=self.root, env=self.env, capture_output=True, text=True,
            check=False, timeout=120,
        )  # fmt: skip

    def proof(self, *argv: str) -> dict[str, object]:
        done = self.run("verify-lock", "one", "--offline", "--json", *argv)
        (found,) = json.loads(done.stdout)
        assert done.returncode == found["exit"], done.stderr
        return dict(found)

    @property
    def lock(self) -> Path:
        return self.root / "locks/one.lock"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    root = tmp_path / "project"
    for name in ("k", "d"):
        folder = root / "sources" / name
        folder.mkdir(parents=True)
        git(folder, "init", "-q", "-b", "main")
        (folder / "csrc").mkdir()
        (folder / "csrc/a.cu").write_text(f"{name}\n")
        (folder / "b.py").write_text("1\n2\n3\n")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "one")
    for folder in ("locks", "docker-images/one", "patches/k/set"):
        (root / folder).mkdir(parents=True)
    (root / "docker-images/one/Dockerfile").write_text("FROM scratch\n")
    (root / "patches/k/set/series").write_text("a.patch\n")
    (root / "patches/k/set/a.patch").write_text(
        "--- a/b.py\n+++ b/b.py\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n"
    )
    (root / "locks/one.toml").write_text(
        'schema = 1\nimage = "one"\nrepository = "one"\nplatforms = ["linux/amd64"]\n'
        '[build]\ncuda-arch-list = "12.1a"\n'
        f'[base.runtime]\nref = "debian@sha256:{"ab" * 32}"\n'
        '[sources.k]\nurl = "./sources/k"\ntrack = { branch = "main" }\n'
        'patches = ["k/set"]\nnative = ["csrc"]\n'
        '[deps.d]\nurl = "./sources/d"\ntrack = { branch = "main" }\ninto = "d"\n'
    )
    env = {**os.environ, "IMGBUILD_CACHE": str(tmp_path / "cache"),
           "IMGBUILD_STATE": str(tmp_path / "state")}  # fmt: skip
    made = Place(root, env)
    done = made.run("lock", "one")
    assert done.returncode == 0, done.stderr
    return made


def test_a_proof_is_remembered_and_deep_looks_again(place: Place) -> None:
    first = place.proof()
    assert (first["ok"], first["proven-seconds-ago"]) == (True, None)
    again = place.proof()
    assert again["proven-seconds-ago"] is not None
    assert {**again, "proven-seconds-ago": None} == first
    assert place.proof("--deep")["proven-seconds-ago"] is None
    assert "(proven " in place.run("verify-lock", "one", "--offline").stdout


def append(path: str, text: str = "\n# x\n") -> Callable[[Place], None]:
    def change(place: Place) -> None:
        file = place.root / path
        file.write_text(file.read_text() + text)

    return change


def new_file(place: Place) -> None:
    (place.root / "docker-images/one/extra").write_text("x")


def executable(place: Place) -> None:
    (place.root / "docker-images/one/Dockerfile").chmod(0o755)


def no_refs(place: Place) -> None:
    pins = Path(place.env["IMGBUILD_CACHE"]) / "git/refs/imgbuild/pin"
    next(iter(sorted(pins.iterdir()))).unlink()


def damaged_pack(place: Place) -> None:
    pack = next(iter(sorted((Path(place.env["IMGBUILD_CACHE"]) / "git").rglob("*.pack"))))
    pack.chmod(0o644)
    pack.write_bytes(pack.read_bytes()[:-30])


@pytest.mark.parametrize(
    "change",
    [append("locks/one.toml"), append("locks/one.lock"), append("patches/k/set/a.patch", "x\n"),
     append("patches/k/set/series"), append("docker-images/one/Dockerfile"), new_file, executable,
     no_refs, damaged_pack],
)  # fmt: skip
def test_whatever_changes_unproves(place: Place, change: Callable[[Place], None]) -> None:
    assert place.proof()["ok"]
    change(place)
    assert place.proof()["proven-seconds-ago"] is None


def test_an_offline_proof_does_not_answer_for_registries(place: Place) -> None:
    place.proof()
    env = {**place.env, "PIP_INDEX_URL": "http://127.0.0.1:1/", "HTTPS_PROXY": "http://127.0.0.1:1"}
    online = Place(place.root, env).run("verify-lock", "one", "--json")
    (found,) = json.loads(online.stdout)
    assert found["proven-seconds-ago"] is None
    assert found["ok"]  # a registry that does not answer is no finding
    assert any("base runtime: registry-1.docker.io" in text for text in found["unchecked"])


@pytest.mark.parametrize("part", ["content", "native", "rest", "deps-archive"])
def test_digests_that_a_hand_wrote_are_found(place: Place, part: str) -> None:
    text = place.lock.read_text()
    table = "[deps-archive]" if part == "deps-archive" else "[sources.k.final]"
    key = "content" if part == "deps-archive" else part
    head, at, rest = text.partition(table)
    before, name, after = rest.partition(f'{key} = "sha256:')
    place.lock.write_text(f"{head}{at}{before}{name}{'0' * 64}{after[64:]}")
    found = place.proof()
    assert found["exit"] == 4
    (finding,) = found["findings"]  # type: ignore[misc]
    assert finding["code"] == "content-mismatch"
    assert finding["line"]
    assert not place.proof()["ok"]  # findings are never stamped


def test_a_damaged_stamp_is_no_stamp(place: Place) -> None:
    place.proof()
    (stamp,) = (Path(place.env["IMGBUILD_CACHE"]) / "proofs").iterdir()
    stamp.write_text(stamp.read_text()[:-5])
    assert place.proof()["proven-seconds-ago"] is None


def test_the_fast_answer_imports_little(place: Place) -> None:
    place.proof()
    code = (
        "import sys; from builder.cli.app import cli\n"
        "try: cli.main(['verify-lock', 'one', '--offline'])\n"
        "except SystemExit: pass\n"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=place.root, env=place.env,
                          capture_output=True, text=True, check=True)  # fmt: skip
    loaded = set(done.stderr.split())
    assert "(proven " in done.stdout
    assert not loaded & {"tomllib", "tomlkit", "git", "requests", "subprocess", "rich"}
    assert not {name for name in loaded if name.startswith("builder.steps")}


def test_offline_says_what_is_not_here(place: Place) -> None:
    elsewhere = Place(place.root, {**place.env, "IMGBUILD_CACHE": str(place.root / "empty")})
    found = elsewhere.proof()
    assert found["ok"] is True
    assert [what for what in found["unchecked"] if "commits" in what] == [  # type: ignore[union-attr]
        "sources.k: its commits are not on this machine: imgbuild fetch one",
        "deps.d: its commits are not on this machine: imgbuild fetch one",
    ]
    done = elsewhere.run("check", "one", "--offline")
    assert "sources.k: its commits are not on this machine" in done.stderr
    text = elsewhere.lock.read_text()
    elsewhere.lock.write_text(text.replace("refs/heads/main", "refs/heads/other"))
    assert elsewhere.proof()["exit"] == 3
    elsewhere.lock.write_text(text)
    assert elsewhere.run("verify-lock", "one").returncode == 0  # brings them
    assert not [what for what in elsewhere.proof()["unchecked"] if "commits" in what]  # type: ignore[attr-defined]


def test_a_lock_whose_lane_is_gone(place: Place) -> None:
    (place.root / "locks/gone.lock").write_text("lock-version = 1\n")
    done = place.run("verify-lock", "--offline")
    assert done.returncode == 3
    assert "locks/gone.lock belongs to no lane" in done.stderr


def test_a_pack_with_other_bytes_is_told_as_damage(place: Place) -> None:
    """Whichever byte it is: never a proof that is wrong, never a fault of imgbuild's own."""
    packs = sorted((Path(place.env["IMGBUILD_CACHE"]) / "git").rglob("*.pack"))
    ends = []
    for pack in packs:
        data = pack.read_bytes()
        pack.chmod(0o644)
        for at in range(12, len(data) - 20, max(1, len(data) // 4)):
            pack.write_bytes(data[:at] + bytes([data[at] ^ 0x5A]) + data[at + 1 :])
            found = place.proof("--deep")
            codes = {f["code"] for f in found["findings"]}  # type: ignore[attr-defined]
            ends.append(found["exit"])
            assert codes <= {"object-damaged", "tree-mismatch", "name-unreadable", "tree-unsafe"}
        pack.write_bytes(data)
    assert 4 in ends
    assert place.proof("--deep")["ok"] is True


def test_a_tag_that_moved_is_told_and_a_branch_is_not(place: Place) -> None:
    lane = place.root / "locks/one.toml"
    text = lane.read_text()
    source = place.root / "sources/d"
    git(source, "tag", "-a", "-m", "one", "v1")
    head, _, rest = text.rpartition('track = { branch = "main" }')
    lane.write_text(f'{head}track = {{ tag = "v1" }}{rest}')
    unserved = {"PIP_INDEX_URL": "http://127.0.0.1:1/", "HTTPS_PROXY": "http://127.0.0.1:1"}
    online = Place(place.root, {**place.env, **unserved})
    assert place.run("lock", "one").returncode == 0
    assert online.run("verify-lock", "one").returncode == 0
    for name in ("d", "k"):  # the branches move on
        git(place.root / "sources" / name, "commit", "-q", "--allow-empty", "-m", "two")
    stamps = Path(place.env["IMGBUILD_CACHE"]) / "proofs"
    next(stamps.iterdir()).unlink()
    assert online.run("verify-lock", "one").returncode == 0
    git(source, "tag", "-f", "-a", "-m", "two", "v1")
    next(stamps.iterdir()).unlink()
    assert place.proof()["ok"]  # offline
    done = online.run("verify-lock", "one", "--json")
    (found,) = json.loads(done.stdout)
    (finding,) = found["findings"]
    assert (done.returncode, finding["code"], finding["file"]) == (4, "tag-moved", "locks/one.lock")
    assert place.lock.read_text().splitlines()[finding["line"] - 1].startswith("commit = ")
    assert "imgbuild lock one --update d" in finding["hint"]
    deep = online.run("verify-lock", "one", "--deep").stderr
    assert deep.count("the tag v1 is at") == 1
    git(source, "tag", "-d", "v1")
    assert "the tag v1 is gone" in online.run("verify-lock", "one").stderr
    source.rename(place.root / "sources/away")
    done = online.run("verify-lock", "one")
    assert done.returncode == 0
    assert "not checked: d: where the tag v1 is now" in done.stderr
