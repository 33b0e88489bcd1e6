"""The statements that set variables: `set`, `option`, `unset`, and what others give back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from builder.steps.cmake_condition import is_true
from builder.steps.cmake_content import Reading
from builder.steps.cmake_lines import Argument, Command
from builder.steps.cmake_scope import UNKNOWN, UNSET, Held, Scope, few

_ENV = re.compile(r"ENV\{(.*)\}")
_SOURCE_DIR = re.compile(r"(.+)_SOURCE_DIR")
_KEEPS_NORMAL = (3, 21)  # CMP0126: set(… CACHE) leaves a normal variable of that name
_KNOWS_NORMAL = (3, 13)  # CMP0077: option() does too
_OUTPUTS = {"list": 1, "get_filename_component": 0, "get_property": 0, "separate_arguments": 0}
_WRITES_NOTHING = ("message", "mark_as_advanced", "install", "return", "target_", "add_", "include",
                   "set_", "link_", "enable_", "source_group", "fetchcontent_")  # fmt: skip
_PREFIXES = ("project", "find_package", "cmake_parse_arguments", "fetchcontent_makeavailable",
             "fetchcontent_populate", "fetchcontent_getproperties", "pkg_check_modules",
             "pkg_search_module")  # fmt: skip


def assign(command: Command, reading: Reading) -> None:
    """`set(X a b)`, `set(X a CACHE …)`, `set(ENV{X} a)`, `option(X "about" ON)`, `unset(X)`."""
    if not command.arguments:
        return
    scope, target, values = reading.scope, command.arguments[0], command.arguments[1:]
    kind, flags = "normal", [a.text for a in values if not a.quoted]
    if command.name == "option":
        kind, values = "option", values[1:2]
    elif command.name == "unset":
        kind = "cache" if "CACHE" in flags else "above" if "PARENT_SCOPE" in flags else kind
        values = ()
    else:
        for word in ("CACHE", "PARENT_SCOPE"):
            at = next(
                (i for i, a in enumerate(values) if (a.text, a.quoted) == (word, False)), None
            )
            if at is not None:
                kind, values = "set-cache" if word == "CACHE" else "above", values[:at]
    names = scope.candidates(target.text)
    if UNKNOWN in names:
        scope.forget_like(target.text)
    for name in names:
        if name is not UNKNOWN:
            _remember(name, values, reading)
            made = _values(values, scope)
            others = scope.held(name) if len(names) > 1 else ()
            force = "FORCE" in flags or "INTERNAL" in flags
            _assign(name, (*made, *others), kind, scope, reading, force=force)


def _assign(
    name: str, made: Sequence[Held], kind: str, scope: Scope, reading: Reading, *, force: bool
) -> None:
    if env := _ENV.fullmatch(name):
        scope.env[env[1]] = few(made)
    elif kind == "above":
        scope.above[name] = few(made)
    elif kind == "cache":
        scope.cache[name] = few(made)
    elif kind == "normal":
        scope.set(name, made)
    else:
        if kind == "option":
            made = [v if v is UNKNOWN else _switch(v) for v in made]
        else:
            made = ["" if v is UNSET else v for v in made]
        since = _KNOWS_NORMAL if kind == "option" else _KEEPS_NORMAL
        own = scope.own(name)
        if own is not None and reading.policies < since:
            own = (*own, UNSET)
            scope.set(name, own)
        is_set = kind == "option" and own is not None and UNSET not in own
        if not is_set:
            former = () if force else scope.cache.get(name, (UNSET,))
            kept = [v for v in former if v is not UNSET]
            scope.cache[name] = few([*kept, *(made if force or UNSET in former else ())])


def _values(values: Sequence[Argument], scope: Scope) -> list[Held]:
    """What a variable is after `set` with these arguments; unset without any."""
    found: list[Held] = []
    for words in scope.lists(values):
        found.append(UNKNOWN if words is None else ";".join(words) if words else UNSET)
    return found


def _switch(value: object) -> str:
    return "ON" if isinstance(value, str) and is_true(value) else "OFF"


def _remember(name: str, values: Sequence[Argument], reading: Reading) -> None:
    """Which environment variable a variable comes from."""
    source = reading.source_of(";".join(argument.text for argument in values))
    if source:
        reading.environment.setdefault(name, source)
        if match := _SOURCE_DIR.fullmatch(name):
            reading.local.setdefault(match[1].lower(), source)


def policies(command: Command, reading: Reading) -> None:
    """Which CMake's ways a file asks for."""
    for version in re.findall(r"(\d+)\.(\d+)", " ".join(command.words)):
        reading.policies = (int(version[0]), int(version[1]))
    if command.words[:1] == ("SET",) and command.words[-1] == "OLD":
        reading.policies = (0, 0)


def given_back(command: Command, scope: Scope) -> None:
    """Variables that a command may set, being told their names, are not known any more."""
    writes = not command.name.startswith(_WRITES_NOTHING)
    for i, argument in enumerate(command.arguments if writes else ()):
        names: Iterable[str | None] = scope.candidates(argument.text)
        for name in names:
            if name is not UNKNOWN and name.isidentifier() and not name.isdigit():
                scope.forget(name)
            elif name is UNKNOWN and _OUTPUTS.get(command.name) == i:
                scope.forget_like(argument.text)
    if command.name in _PREFIXES and command.arguments:
        for prefix in scope.candidates(command.words[0]):
            for name in {*scope.normal, *scope.cache}:
                if prefix and name.upper().startswith(f"{prefix.upper()}_"):
                    scope.forget(name)
    if command.name == "project":
        for name in [n for n in scope.normal if n.startswith(("PROJECT_", "CMAKE_PROJECT_"))]:
            if name != "PROJECT_SOURCE_DIR":
                scope.forget(name)
