"""Rules about the code itself."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from builder import errors

PACKAGE = Path(errors.__file__).parent
HEAVY = {"rich", "pydantic", "git", "python_on_whales", "requests", "tomlkit", "stamina"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imports(path: Path) -> set[str]:
    """The top-level packages that a module imports anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def users(package: str) -> list[str]:
    return [str(p.relative_to(PACKAGE)) for p in modules() if package in imports(p)]


def test_programs_start_in_one_module() -> None:
    """Elsewhere subprocess gives types and constants at most."""
    starters = {"run", "Popen", "call", "check_call", "check_output", "getoutput"}
    found = set()
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = ast.unparse(node.func.value)
                if owner == "subprocess" and node.func.attr in starters:
                    found.add(str(path.relative_to(PACKAGE)))
    assert found == {"tools/process.py"}


def test_gitpython_is_in_one_module() -> None:
    assert users("git") == ["tools/git_read.py"]


def test_only_the_command_line_renders() -> None:
    for package in ("rich", "click"):
        assert all(path.startswith("cli/") for path in users(package))


def test_nothing_goes_through_a_shell() -> None:
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                assert not any(k.arg == "shell" for k in node.keywords), path
                name = ast.unparse(node.func)
                assert name not in ("os.system", "os.popen", "eval", "exec"), path


@pytest.mark.parametrize("argv", [["--help"], ["build", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(argv: list[str]) -> None:
    code = (
        "import sys; from builder.cli.app import cli\n"
        f"try: cli.main({argv!r})\n"
        "except SystemExit: pass\n"
        "print(*sorted({m.partition('.')[0] for m in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    allowed = set() if argv == ["--help"] else {"tomlkit"}
    assert loaded & HEAVY <= allowed


def test_a_push_starts_without_lanes_and_locks() -> None:
    code = "import sys, builder.cli.commands.push; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {f"builder.model.{name}" for name in ("lane", "lock", "values")} & {
        *done.stdout.split()
    }


def families() -> dict[str, int]:
    return {
        kind.__name__: kind.exit_code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.ImgbuildError)
    }


def test_exit_codes() -> None:
    assert families() == {
        "ImgbuildError": 70,
        "UsageError": 2,
        "LaneError": 3,
        "SourceError": 4,
        "PatchError": 5,
        "BuildError": 6,
        "GateError": 7,
        "DistributionError": 8,
        "ToolFailed": 9,
        "ToolMissing": 10,
    }


def test_modules_stay_small() -> None:
    long = {str(p.relative_to(PACKAGE)): n for p in modules()
            if (n := len(p.read_text().splitlines())) > 300}  # fmt: skip
    assert long == {}
