"""What is printed arrives under every encoding, and annotations name files as GitHub does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from builder.cli.findings import annotation
from builder.errors import Finding, Place
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
