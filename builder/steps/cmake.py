"""What CMake files would fetch while they are configured, derived without running CMake.

Each statement that fetches becomes a Fetch, or a finding with its file and line: a kind of
statement that is not known here must be noticed, not skipped. A statement in a branch that may
be taken counts; one that only an environment variable brings about does not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from builder.model.ids import shown_url
from builder.steps.cmake_content import Fetch, Reading, Unclassified, content, declare
from builder.steps.cmake_lines import Command, Unreadable, commands
from builder.steps.cmake_scope import UNKNOWN, Scope, Truth, holds

__all__ = ["Fetch", "Unclassified", "read"]

_PROGRAMS = re.compile(r"(?:^|/)(?:git|curl|wget|aria2c|hg|svn)(?:\.exe)?$")
_GIT_READS = frozenset({"rev-parse", "describe", "log", "show", "diff", "status", "--version",
                        "ls-files", "apply", "am", "config", "tag", "branch"})  # fmt: skip
_MAKES_VARIABLES = frozenset({"string", "file", "list", "cmake_path", "get_filename_component",
                              "execute_process", "separate_arguments", "math"})  # fmt: skip
_OPENING, _CLOSING = ("foreach", "while", "function", "macro"), (
    "endforeach", "endwhile", "endfunction", "endmacro")  # fmt: skip
_SOURCE_DIR = re.compile(r"(.+)_SOURCE_DIR")


def read(
    files: Mapping[str, str], given: Mapping[str, str] | None = None
) -> tuple[tuple[Fetch, ...], tuple[Unclassified, ...]]:
    """Read CMake files in their order, so that variables of earlier ones are known in later.

    `given` are variables that are taken as set (`cmake -D`).
    """
    reading = Reading(Scope.of(given or {}))
    for path, text in files.items():
        reading.file = path
        try:
            _read(list(commands(text)), reading)
        except Unreadable as wrong:
            hint = "is it CMake? if not, name the files: files = […]"
            found = Unclassified("", f"not CMake: {wrong}", hint, path, wrong.line)
            reading.unclassified.append(found)
    return _settled(reading), tuple(reading.unclassified)


def _read(found: Sequence[Command], reading: Reading) -> None:
    branches: list[list[Truth]] = []  # of each open `if`: what its conditions were so far
    loops = 0
    for command in found:
        if command.name == "if":
            branches.append([holds(command.arguments, reading.scope)])
        elif command.name == "elseif" and branches:
            branches[-1].append(holds(command.arguments, reading.scope))
        elif command.name == "else" and branches:
            branches[-1].append(True)
        elif command.name == "endif" and branches:
            branches.pop()
        elif command.name in _OPENING:
            loops += 1
        elif command.name in _CLOSING:
            loops -= 1
        else:
            taken = _all([_taken(conditions) for conditions in branches])
            _statement(command, None if taken and loops else taken, reading)


def _taken(conditions: Sequence[Truth]) -> Truth:
    """Whether the last branch is the one that is taken."""
    *former, last = conditions
    if True in former or last is False:
        return False
    return None if None in former else last


def _all(branches: Sequence[Truth]) -> Truth:
    return False if False in branches else None if None in branches else True


def _statement(command: Command, taken: Truth, reading: Reading) -> None:
    words = command.words
    if command.name in ("set", "option"):
        _set(command, taken, reading)
    elif command.name == "fetchcontent_declare" or (
        command.name == "fetchcontent_populate" and len(words) > 1
    ):
        content(command, taken, reading)
    elif taken is not False:
        if words[:1] and command.name == "unset":
            reading.scope.set(words[0], ("",), certain=taken is True)
        elif command.name in _MAKES_VARIABLES:
            _made(command, reading)
        _other(command, reading)


def _set(command: Command, taken: Truth, reading: Reading) -> None:
    """`set(X a b)`, `set(X a CACHE …)`, `option(X "about" ON)`."""
    if not command.words:
        return
    name, values = command.words[0], [a.text for a in command.arguments[1:]]
    if command.name == "option":
        values = values[1:2] or ["OFF"]
    for word in ("CACHE", "PARENT_SCOPE"):
        values = values[: values.index(word)] if word in values else values
    text = ";".join(values)
    source = reading.scope.source_of(text)
    if source:
        reading.scope.environment.setdefault(name, source)
        if match := _SOURCE_DIR.fullmatch(name):
            reading.local.setdefault(match[1].lower(), source)
    elif taken is not False:
        reading.scope.set(name, reading.scope.candidates(text), certain=taken is True)


def _made(command: Command, reading: Reading) -> None:
    """Variables that a command makes of others are not known any more."""
    for argument in command.arguments:
        if not argument.quoted and argument.text in reading.scope.variables:
            reading.scope.set(argument.text, (UNKNOWN,), certain=True)


def _other(command: Command, reading: Reading) -> None:
    """Statements that fetch and are no FetchContent."""
    words = command.words
    name = command.name
    if name in ("externalproject_add", "cpmaddpackage", "externaldata_add_target"):
        about = words[0].lower() if words else ""
        reading.report(command, f"{name}({about} …) fetches at build time", declare(about), about)
    elif name == "file" and words[:1] == ("DOWNLOAD",):
        reading.report(command, f"file(DOWNLOAD {words[1] if len(words) > 1 else ''})", _LEAVE)
    elif name in ("execute_process", "add_custom_command", "add_custom_target"):
        for program, first in zip(words, (*words[1:], ""), strict=False):
            git = re.search(r"(?:^|/)git$|GIT_EXECUTABLE", program)
            if _PROGRAMS.search(program) or git:
                if git and first in _GIT_READS:
                    continue
                reading.report(command, f"{name} runs {program} {first}".rstrip(), _LEAVE)
                return


def _settled(reading: Reading) -> tuple[Fetch, ...]:
    """One Fetch a name, with the variable that stands for it; two that differ are reported."""
    found: dict[str, Fetch] = {}
    for fetch in reading.fetches:
        known = found.setdefault(fetch.name, fetch)
        if (known.url, known.tag) != (fetch.url, fetch.tag):
            what = (
                f"{fetch.name} is fetched from {shown_url(known.url)} at {known.tag} ({known.file}:"
            )
            what += f"{known.line}), and from {shown_url(fetch.url)} at {fetch.tag}"
            hint = f"say which branch is taken: define = {{ … }}, or {declare(fetch.name)}"
            reading.unclassified.append(
                Unclassified(fetch.name, what, hint, fetch.file, fetch.line)
            )
    return tuple(
        replace(fetch, variable=reading.local.get(name)) for name, fetch in sorted(found.items())
    )


_LEAVE = 'if the build never comes there, say why: leave-out = { "<file>" = "<reason>" }'
