"""On a missing marker: the commit that took it away, when the history is on this machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from builder.model.values import GitPin
from builder.tools.git_store import Store

WHO = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in (("NAME", "Ann"), ("EMAIL", "ann@x"), ("DATE", "2026-01-01T00:00:00Z"))
}


def git(folder: Path, *words: str) -> str:
    env = {**os.environ, **WHO}
    done = subprocess.run(["git", *words], cwd=folder, env=env, capture_output=True, check=True)
    return done.stdout.decode().strip()


def test_the_commit_that_removed_a_text(tmp_path: Path) -> None:
    upstream = tmp_path / "upstream"
    upstream.mkdir()
    git(upstream, "init", "-q", "-b", "main")
    for text, subject in (
        ("B12X_PDL = 1\n", "Add PDL"),
        ("B12X_PDL = 1\nX = 2\n", "Add X"),
        ("_PREPARED = 1\nX = 2\n", "Prepare launchers"),
        ("_PREPARED = 1\nX = 3\n", "Change X"),
    ):
        (upstream / "a.py").write_text(text)
        git(upstream, "add", "a.py")
        git(upstream, "commit", "-qm", subject)
    tip = git(upstream, "rev-parse", "HEAD")
    first = git(upstream, "rev-list", "--max-parents=0", "HEAD")
    url = f"file://{upstream}"
    store = Store(tmp_path / "cache")
    history = store.history([url])
    assert history.last_change(tip, "a.py", "B12X_PDL") is None, "nothing is here yet"
    pin = GitPin("x", (url,), tip, "refs/heads/main")
    assert history.reaches(pin, first, say=lambda _: None)
    found = history.last_change(tip, "a.py", "B12X_PDL")
    assert found is not None
    assert (found.subject, found.author) == ("Prepare launchers", "Ann <ann@x>")
    assert history.last_change(tip, "a.py", "NEVER") is None
    assert history.last_change(tip, "*.py", "B12X_PDL") is None, "a path, not a pattern"
