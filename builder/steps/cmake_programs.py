"""Statements of CMake files that fetch and are no FetchContent, and programs that do."""

from __future__ import annotations

import re
from collections.abc import Sequence

from builder.steps.cmake_content import Reading, declare
from builder.steps.cmake_lines import Command
from builder.steps.operands import operands

LEAVE = 'if the build never comes there, say why: leave-out = { "<file>" = "<reason>" }'

_PACKAGES = frozenset({"externalproject_add", "externaldata_add_target", "hunter_add_package",
                       "cpmaddpackage", "cpmfindpackage", "cpmusepackagelock",
                       "cpmdeclarepackage", "cpmgetpackage", "conan_cmake_run",
                       "conan_cmake_install"})  # fmt: skip
_FETCHERS = re.compile(r"(?:curl|wget|aria2c|hg|svn|rsync|scp)(?:\.exe)?")
_GIT = re.compile(r"git(?:\.exe)?")
_GIT_READS = frozenset({"rev-parse", "describe", "log", "show", "diff", "status", "ls-files",
                        "apply", "am", "config", "tag", "branch", "rev-list", "diff-index",
                        "symbolic-ref", "init", "add", "commit", "checkout", "reset"})  # fmt: skip
_GIT_FETCHES = frozenset({"clone", "submodule", "fetch", "pull", "ls-remote", "lfs"})
_WITH_VALUE = frozenset({"-C", "-c", "--git-dir", "--work-tree"})
_INSTALLERS = (
    (re.compile(r"pip[\d.]*"), ("install", "download", "wheel")),
    (re.compile(r"(?:npm|pnpm|yarn)"), ("install", "ci", "add")),
    (re.compile(r"(?:conda|mamba|conan|vcpkg|apt|apt-get|dnf|brew|gem)"), ("install",)),
    (re.compile(r"cargo"), ("fetch", "build", "install", "vendor")),
    (re.compile(r"uv"), ("pip", "sync", "add", "run")),
    (re.compile(r"go"), ("get", "mod", "install")),
)
_REFERENCE = re.compile(r"\$(?:ENV|CACHE)?\{[^}]*\}")


def other(command: Command, reading: Reading) -> None:
    """Report a statement that fetches."""
    words, name = command.words, command.name
    if name in _PACKAGES:
        about = words[0].lower() if words else ""
        reading.report(command, f"{name}({about} …) fetches at build time", declare(about), about)
    elif name == "file" and words[:1] == ("DOWNLOAD",):
        url = words[1] if len(words) > 1 else ""
        reading.report(command, f"file(DOWNLOAD {url})", LEAVE)
    elif name in ("execute_process", "add_custom_command", "add_custom_target"):
        known = [
            value or argument.text
            for argument in command.arguments
            for value in reading.scope.candidates(argument.text)
        ]
        if (found := fetching(words) or fetching(known)) is not None:
            reading.report(command, f"{name} runs {found}", LEAVE)


def fetching(arguments: Sequence[str]) -> str | None:
    """The first program among the arguments that fetches, with what it is told; or None.

    Also in the text that a shell is given.
    """
    words = [word for argument in arguments for word in _words(argument)]
    for i, word in enumerate(words):
        name, rest = word.rpartition("/")[2], words[i + 1 :]
        first = next(operands(rest, _WITH_VALUE), "")
        is_git = _GIT.fullmatch(name) is not None or "GIT_EXECUTABLE" in word
        if _FETCHERS.fullmatch(name):
            return f"{word} {first}".rstrip()
        if is_git and first not in _GIT_READS and first:
            return f"{word} {first}"
        if _REFERENCE.search(word) and first in _GIT_FETCHES:
            return f"{word} {first}"
        if any(p.fullmatch(name) and rest[:1] and first in told for p, told in _INSTALLERS):
            return f"{word} {first}"
    return None


def _words(argument: str) -> list[str]:
    return [word for word in re.split(r"[\s;&|()`\"'<>]+|\$(?=\()", argument) if word]
