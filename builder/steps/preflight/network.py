"""Stages that could use the network while they compile, or do use it.

What is fetched in a build is not in the lock: the same lock does not give the same build. And a
build is started with its network off: only `RUN --network=default` has one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from builder.errors import Finding, Place
from builder.steps.preflight.compiles import Compile
from builder.steps.preflight.shell import Command, commands, known
from builder.steps.preflight.values import At, Valued

_APT = "[debs.NAME] in the lane, and dpkg --install from the context debs"
_PIP = "[python.NAME] in the lane, and pip install --no-index from the context wheels"
_GIT = "[sources.NAME] or [deps.NAME] in the lane, and ADD its archive"
_FILE = "a file in the image folder, or ADD --checksum=sha256:…"
_URL = re.compile(r"(?:https?|ftp)://")
_LOCAL = re.compile(r"(?:/|\.{1,2}(?:/|$|\[)|.*\.(?:whl|tar\.gz|zip|deb)$|file:)")
_PYTHON = re.compile(r"python(?:3(?:\.[0-9]+)?)?")
_OFFLINE = ("--no-index", "--require-hashes", "--offline", "--frozen", "--locked")
_OTHERS = {
    "npm": ("install", "ci"), "yarn": ("install", "add"), "cargo": ("install",), "conda":
    ("install", "create"), "mamba": ("install", "create"), "gem": ("install",), "go": ("install",),
    "apk": ("add",), "dnf": ("install",), "yum": ("install",), "microdnf": ("install",),
}  # fmt: skip
_PIP_VALUE = frozenset(
    ("-r", "--requirement", "-c", "--constraint", "-e", "--editable", "--target", "-t", "--root",
     "--prefix", "--python", "-f", "--find-links", "-i", "--index-url", "--extra-index-url", "-w",
     "--wheel-dir", "--progress-bar", "--torch-backend", "--index", "--default-index", "-d",
     "--dest", "--platform", "--python-version", "--config-settings", "-C")
)  # fmt: skip


def network(stage: Valued, found: Sequence[Compile], file: Path) -> Iterator[Finding]:
    """One finding for each tool of a stage that fetches, and one for what compiles and could."""
    told: dict[str, list[tuple[At, str, str]]] = {}
    for at in stage.steps:
        for tool, what, cure in _of(at):
            told.setdefault(tool, []).append((at, what, cure))
    title = stage.stage.title
    for tool, fetched in told.items():
        at, what, cure = fetched[0]
        others = [other.instruction.line for other, *_ in fetched]
        then = (
            "the lock does not pin it, so the same lock need not give the same build"
            if at.instruction.flag("network")
            else "a build has no network, and where it had one, nothing pins it"
        )  # fmt: skip
        yield _finding(
            f"stage {title} fetches {what} with {tool}{_also(at.instruction.line, others)}: {then}",
            cure, file, at.instruction.line,
        )  # fmt: skip
    fetching = {at.instruction.line for each in told.values() for at, *_ in each}
    open_runs = [e for e in found if e.run.flag("network") != "none" and (e.sure or e.source)]
    if runs := [each for each in open_runs if each.run.line not in fetching]:
        first = runs[0].run.line
        yield _finding(
            f"stage {title} compiles with {runs[0].tool} without --network=none"
            + _also(first, [each.run.line for each in runs]),
            "RUN --network=none …: what the build would fetch then fails at once, not in an hour",
            file, first,
        )  # fmt: skip


def _finding(what: str, hint: str, file: Path, line: int) -> Finding:
    return Finding("network-open", what, hint, place=Place(file, line), level="warning")


def _also(first: int, lines: Sequence[int]) -> str:
    more = sorted(set(lines) - {first})
    return f", and line{'s' if len(more) > 1 else ''} {', '.join(map(str, more))}" if more else ""


def _of(at: At) -> Iterator[tuple[str, str, str]]:
    instruction = at.instruction
    if instruction.name == "RUN" and instruction.flag("network") != "none":
        for command in commands(instruction, folder=at.folder):
            found = _fetched(command, {**at.values, **command.env})
            if found is not None:
                yield found


def _fetched(command: Command, values: dict[str, str]) -> tuple[str, str, str] | None:
    """The tool, what it fetches and the way to have it locked."""
    words, program = command.words, command.program
    if program in ("apt-get", "apt", "aptitude") and "install" in words:
        asked = _plain(words[words.index("install") + 1 :])
        names = [word for word in asked if _by_name(word, values)]
        return (program, _some(names), _APT) if names and "--no-download" not in words else None
    if program in ("curl", "wget") and (url := next(filter(_URL.match, words), "")):
        return program, url[:100], _FILE
    if program == "git" and ({"clone", "fetch", "pull"} & set(words[1:4]) or "submodule" in words):
        url = next((w for w in words if "://" in w or w.startswith("git@")), "a repository")
        return program, url[:100], _GIT
    if program in _OTHERS and set(_OTHERS[program]) & set(words[1:3]):
        return (
            program,
            "packages",
            "stage what it brings: [deps.NAME], or a file in the image folder",
        )
    return _by_pip(words, values)


def _by_pip(words: tuple[str, ...], values: dict[str, str]) -> tuple[str, str, str] | None:
    if _PYTHON.fullmatch(words[0].rpartition("/")[2]) and words[1:2] == ("-m",):
        words = words[2:]
    words = words[1:] if words[:1] == ("uv",) else words
    is_pip = bool(words) and re.fullmatch(r"(?:.*/)?pip(?:3(?:\.[0-9]+)?)?", words[0])
    if not is_pip or words[1:2] not in (("install",), ("download",), ("wheel",)):
        return None
    no_index = values.get("PIP_NO_INDEX") or values.get("UV_OFFLINE") or values.get("UV_NO_INDEX")
    if no_index or set(_OFFLINE) & set(words):
        return None
    rest, names, skip = words[2:], list[str](), ""
    for word in rest:
        if skip:
            names += [f"{skip} {word}"] if skip in ("-r", "--requirement") else []
            skip = ""
        elif word in _PIP_VALUE:
            skip = word
        elif word.startswith("git+") or "@ git+" in word:
            return "pip", word[:100], _GIT
        elif not word.startswith("-") and _by_name(word, values):
            names.append(word)
    return ("pip", _some(names), _PIP) if names else None


def _by_name(word: str, values: dict[str, str]) -> bool:
    """Whether a word names what an index has; an unknown variable may be a file."""
    return not re.match(r"\$|" + _LOCAL.pattern, known(word, values) or word)


def _plain(words: tuple[str, ...]) -> list[str]:
    return [word for word in words if not word.startswith("-")]


def _some(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
