"""`scripts/test` ends as what it ran did. Only its parts are replaced here."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/test"
PARTS = (
    *("scripts/setup", "scripts/demo-sources", "scripts/demo-base"),
    *(f".venv/bin/{tool}" for tool in ("ruff", "mypy", "lint-imports")),
)
# Both runs of pytest go through the engine; the scenarios' is told by its argument.
ENGINE = """#!/bin/sh
case "$*" in
*--ignore*) echo the rest; exit {rest} ;;
*) echo the scenarios; sleep {slow}; exit {scenarios} ;;
esac
"""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("rest", "scenarios", "slow", "code"),
    [(0, 0, 0, 0), (0, 0, 0.5, 0), (1, 0, 0, 1), (0, 1, 0, 1), (0, 1, 0.5, 1), (2, 0, 0.5, 2)],
)
def test_the_exit_code_is_that_of_the_tests(
    tmp_path: Path, rest: int, scenarios: int, slow: float, code: int
) -> None:
    tools = tmp_path / "tools"  # so that the script finds nothing to install
    for tool in ("ip", "tc", "ss", "sshd", "ssh", "rsync", "zstd", "docker-registry", "openssl"):
        write(tools / tool, "#!/bin/sh\n")
    root = tmp_path / "project"
    for part in PARTS:
        write(root / part, "#!/bin/sh\n")
    write(root / "scripts/engine", ENGINE.format(rest=rest, scenarios=scenarios, slow=slow))
    shutil.copy(SCRIPT, root / "scripts/test")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = subprocess.run(
        ["scripts/test"], cwd=root, capture_output=True, text=True, timeout=60,
        env={"PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(root), "TMPDIR": str(scratch)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (code, "the rest\nthe scenarios\n"), done.stderr
    assert not list(scratch.iterdir())
