"""What is printed arrives under every encoding, and annotations name files as GitHub does."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from builder.cli import app, endings
from builder.cli.findings import annotation
from builder.errors import Finding, LaneError, Place
from builder.model.counts import plural
from builder.steps.lanes import LockInvalid, read_lane, read_lock
from builder.tools.project import ProjectFolder
from tests.unit.test_lanes import LANE, project

__all__ = ["project"]
IMGBUILD = Path(sys.executable).with_name("imgbuild")
ENCODINGS = [
    {"PYTHONIOENCODING": "latin-1"}, {"PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "utf-8"},
]  # fmt: skip


def run(folder: Path, env: dict[str, str], *argv: str) -> tuple[int, bytes, bytes]:
    known = {"PATH": os.environ["PATH"], "HOME": str(folder), **env}
    done = subprocess.run(
        [IMGBUILD, *argv], cwd=folder, env=known, capture_output=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("env", ENCODINGS)
def test_output_survives_every_encoding(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "locks").mkdir()
    name = "wörld-→-😀"
    lock = {"format": "x", "wörld-→-😀": 1}
    (tmp_path / "a.json").write_text(json.dumps(lock, ensure_ascii=False))
    for argv in (("import", "a.json", "--lane", "x"), ("import", "a.json", "--lane", name)):
        code, _, err = run(tmp_path, env, *argv)
        assert (code in (2, 3), b"Traceback" in err, b"bug" in err) == (True, False, False), err
    if "LC_ALL" not in env:  # there its own arguments cannot be read either
        code, out, _ = run(tmp_path, env, "import", "a.json", "--lane", name, "--json")
        assert name in json.loads(out)["findings"][0]["what"]


@pytest.mark.parametrize("env", ENCODINGS)
def test_arrows_survive_every_encoding(
    project: object, tmp_path: Path, env: dict[str, str]
) -> None:
    (tmp_path / "locks/other.toml").write_text(LANE.replace("12.1a", "12.0a"))
    code, out, err = run(tmp_path, env, "diff", "demo", "other")
    assert (b"bug" in err, code) == (False, 0), (out, err)
    code, out, err = run(tmp_path, env, "verify-lock", "--offline")
    assert (b"bug" in err, code) == (False, 3), (out, err)


@pytest.mark.parametrize("json_too", [(), ("--json",)])
@pytest.mark.parametrize(
    "words",
    [
        ("--nodes", "a", "--via", "registry", "https://me:s3cret@host:5000/x"),
        ("--nodes", "a", "--via", "registry", "me:s3cret@host"),
        ("--nodes", "me:s3cret@host"),
        ("--nodes", "a,ssh://me:s3cret@host:22"),
    ],
)
def test_no_password_is_printed(
    tmp_path: Path, words: tuple[str, ...], json_too: tuple[str, ...]
) -> None:
    (tmp_path / "nodes.toml").write_text("schema = 1\n[nodes.a]\n")
    env = {"IMGBUILD_NODES": str(tmp_path / "nodes.toml")}
    code, out, err = run(tmp_path, env, "push", *words, *json_too)
    assert (code, b"s3cret" in out + err) == (2, False), err
    assert b"docker login host" in err or b"ssh-copy-id me@host" in err


def test_no_password_is_kept_with_a_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("IMGBUILD_STATE", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["imgbuild", "--nodes", "me:s3cret@h", "https://s3cret@h/x"])
    endings.end(ValueError("of https://me:s3cret@h/x"), as_json=True)
    assert "s3cret" not in "".join(capfd.readouterr())
    (kept,) = (tmp_path / "bugs").iterdir()
    assert "--nodes" in kept.read_text()
    assert "s3cret" not in kept.read_text()


def annotated(path: Path) -> str:
    return annotation(Finding("x", "y", place=Place(path, 3))).split("file=")[1].split(",")[0]


def test_annotations_are_relative_to_what_was_checked_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it is run, with -C or in the project's folder; elsewhere to the working folder."""
    locks = tmp_path / "checkout/images/locks"
    locks.mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to("checkout")
    for workspace in (tmp_path / "checkout", link):
        monkeypatch.setenv("GITHUB_WORKSPACE", str(workspace))
        for folder in (tmp_path, tmp_path / "checkout", locks):
            monkeypatch.chdir(folder)
            assert annotated(locks / "x.lock") == "images/locks/x.lock"
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path / "other"))
    assert annotated(locks / "x.lock") == "x.lock"
    monkeypatch.delenv("GITHUB_WORKSPACE")
    assert annotated(locks / "x.lock") == "x.lock"


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("IMGBUILD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("IMGBUILD_STATE", str(tmp_path / "state"))
    return tmp_path


@pytest.mark.parametrize(
    ("number", "where", "says"),
    [
        (errno.ENOSPC, "cache/files/x", "IMGBUILD_CACHE"),
        (errno.ENOSPC, None, "IMGBUILD_CACHE"),
        (errno.EACCES, "state/runs", "IMGBUILD_STATE"),
        (errno.ENOSPC, "locks/x.lock", "free space on its disk"),
        (errno.EROFS, "locks/x.lock", "who may read and write it"),
        (errno.EISDIR, "locks/x.lock", "what lies there"),
    ],
)
def test_what_the_system_refuses(own: Path, number: int, where: str | None, says: str) -> None:
    """imgbuild's own folders can be others; the project's cannot."""
    error = OSError(number, os.strerror(number), str(own / where) if where else None)
    hint = endings.refused(error).hint
    assert says in hint
    assert ("IMGBUILD" in hint) == ("IMGBUILD" in says)


def test_a_full_disk_names_the_file_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left") as caught:
        ProjectFolder(tmp_path).write("locks/x.lock", b"")
    assert caught.value.filename == str(tmp_path / "locks/x.lock")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_a_lock_that_is_no_file(project: ProjectFolder, kind: str) -> None:
    path = project.root / "locks/demo.lock"
    path.mkdir() if kind == "folder" else os.mkfifo(path)
    lane = read_lane("demo", project=project).lane
    for where in (None, project):
        with pytest.raises(LockInvalid, match=r"demo\.lock is no regular file") as caught:
            read_lock(lane, project=where)
        assert "imgbuild lock demo" in caught.value.findings[0].hint


def test_a_lock_that_is_a_link(project: ProjectFolder) -> None:
    (project.root / "locks/demo.lock").symlink_to("other.lock")
    with pytest.raises(LaneError) as caught:
        project.files("locks")
    assert "put the file itself here" in caught.value.findings[0].hint
    assert "image folder" not in caught.value.findings[0].hint


@pytest.mark.parametrize(
    ("count", "word", "said"),
    [(0, "patch", "0 patches"), (1, "patch", "1 patch"), (1, "commit", "1 commit"),
     (2, "dep", "2 deps")],
)  # fmt: skip
def test_counts(count: int, word: str, said: str) -> None:
    assert plural(count, word) == said


def test_no_count_is_worded_without_its_plural() -> None:
    """`{len(found)} commits` says "1 commits" one day."""
    word = r"(?:commit|tree|dep|patche|source|gate|check|finding|layer|package|archive|run|dep)s\b"
    pattern = re.compile(r"\{[^{}]*(?:\)|count|checks|missing|new|found)\} (?:more )?" + word)
    package = Path(app.__file__).parents[1]
    assert {str(p) for p in package.rglob("*.py") if pattern.search(p.read_text())} == set()
