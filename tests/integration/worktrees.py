"""git in a work tree, for tests of the project's own repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.integration.repositories import ENV


def git(folder: Path, *words: str) -> str:
    """Run git with fixed authors and no setting of the machine; what it printed."""
    done = subprocess.run(("git", *words), cwd=folder, env=ENV, capture_output=True, text=True,
                          check=False, timeout=60)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
