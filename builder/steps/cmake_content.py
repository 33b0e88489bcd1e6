"""One FetchContent statement: what it names, and whether a folder may stand in for it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from builder.steps.cmake_lines import Argument, Command
from builder.steps.cmake_scope import UNKNOWN, Scope, Value, reference, references

_KEYWORDS = re.compile(
    r"(?:GIT|URL|SVN|HG|CVS|HTTP|TLS|NETRC|LOG|USES_TERMINAL|INACTIVITY|CMAKE|STEP)(?:_[A-Z_]+)?"
    r"|(?:SOURCE|BINARY|SUBBUILD|DOWNLOAD|INSTALL|STAMP|TMP|LIST)_[A-Z_]+|SOURCE_SUBDIR"
    r"|(?:CONFIGURE|BUILD|TEST|UPDATE|PATCH)_[A-Z_]+|PREFIX|TIMEOUT|DEPENDS|QUIET|SYSTEM"
    r"|EXCLUDE_FROM_ALL|OVERRIDE_FIND_PACKAGE|FIND_PACKAGE_ARGS"
)
_ARCHIVE = ("URL", "SVN_REPOSITORY", "HG_REPOSITORY", "CVS_REPOSITORY", "DOWNLOAD_COMMAND")


@dataclass(frozen=True, slots=True)
class Fetch:
    """A git repository that would be cloned."""

    name: str  # of the content, as FetchContent knows it: in lower case
    url: str
    tag: str  # a tag, a branch or a commit
    file: str
    line: int
    submodules: tuple[str, ...] | None = None  # those that are initialised; None: all
    variable: str | None = None  # of the environment: a folder that is taken instead
    subfolder: str = ""  # what the variable points at, below the repository


@dataclass(frozen=True, slots=True)
class Unclassified:
    """A statement that fetches, or may, and cannot be turned into a Fetch."""

    name: str  # of the content, or "" where the statement has none
    what: str
    hint: str
    file: str
    line: int


@dataclass(slots=True)
class Reading:
    """What was read so far."""

    scope: Scope
    file: str = ""
    policies: tuple[int, int] = (99, 0)  # the CMake whose ways the files ask for
    silent: bool = False  # nothing that is read now happens for sure at any time
    fetches: list[Fetch] = field(default_factory=list)
    unclassified: list[Unclassified] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)  # variable -> where it comes from
    local: dict[str, str] = field(default_factory=dict)  # content -> environment variable

    def report(self, command: Command, what: str, hint: str, name: str = "") -> None:
        found = Unclassified(name, what, hint, self.file, command.line)
        if not self.silent and found not in self.unclassified:
            self.unclassified.append(found)

    def source_of(self, text: str) -> str | None:
        """The environment variable whose value a text is, itself or through variables."""
        match reference(text):
            case ("ENV", name):
                return name
            case (_, name):
                return self.environment.get(name)
        return None


def content(command: Command, reading: Reading) -> None:
    names = reading.scope.candidates(command.words[0])
    if len(names) != 1 or names[0] is UNKNOWN:
        what = f"a content whose name is not known: {command.words[0]}"
        reading.report(command, what, _define(reading.scope.unknown_in(command.words[0])))
        return
    name = str(names[0]).lower()
    options = _options(_expanded(command.arguments[1:], reading.scope))
    if _is_local(options):
        source = reading.source_of(options["SOURCE_DIR"][0])
        if source is not None:
            reading.local.setdefault(name, source)
    elif not reading.silent:
        _git(name, options, command, reading)


def _is_local(options: Mapping[str, Sequence[str]]) -> bool:
    """Whether a folder is named and no way to fill it; nor may a variable hold one."""
    ways = [key for key in options if key == "GIT_REPOSITORY" or key in _ARCHIVE]
    more = [value for values in options.values() for value in values[1:] if references(value)]
    return not ways and not more and len(options.get("SOURCE_DIR", ())) == 1


def _expanded(arguments: Sequence[Argument], scope: Scope) -> Sequence[Argument]:
    """With lists in the place of references that stand for more than one word."""
    found: list[Argument] = []
    for argument in arguments:
        (whole, *others) = scope.lists([argument])
        if argument.quoted or others or whole is None or len(whole) < 2:
            found.append(argument)
        else:
            found += [Argument(word) for word in whole]
    return found


def _git(
    name: str, options: Mapping[str, Sequence[str]], command: Command, reading: Reading
) -> None:
    other = next((o for o in _ARCHIVE if o in options), None)
    if "GIT_REPOSITORY" not in options:
        what = f"{name} is fetched by {other}" if other else f"{name} is fetched in no known way"
        hint = (
            f"{declare(name)} where it is a git repository too; where nothing of it is compiled: "
            f'leave-out = {{ {name} = "why" }} in the deps table; or turn it off by a variable '
            "that its CMake file asks: define = { … } there"
        )
        reading.report(command, what, hint, name)
        return
    if "PATCH_COMMAND" in options and any(options["PATCH_COMMAND"]):
        what = f"{name} has a PATCH_COMMAND, which does not run where a folder is given"
        reading.report(command, what, declare(name), name)
        return
    url = _one(options["GIT_REPOSITORY"], f"{name}: GIT_REPOSITORY", name, command, reading)
    tag = _one(options.get("GIT_TAG", ()), f"{name}: GIT_TAG", name, command, reading)
    if url and tag:
        submodules = _submodules(name, options, command, reading)
        subfolder = " ".join(options.get("SOURCE_SUBDIR", ()))
        fetch = Fetch(name, url, tag, reading.file, command.line, submodules, None, subfolder)
        reading.fetches.append(fetch)


def _one(
    words: Sequence[str], what: str, name: str, command: Command, reading: Reading
) -> str | None:
    """The one value that an option has; None when it was reported."""
    text = " ".join(words)
    values = reading.scope.candidates(text)
    if not text:
        reading.report(command, f"{what} is missing", declare(name), name)
    elif len(words) > 1 or any(value and ";" in value for value in values):
        reading.report(command, f"{what} {text} is more than one value", declare(name), name)
    elif UNKNOWN in values or not all(values):
        unknown = reading.scope.unknown_in(text)
        reading.report(command, f"{what} {text} is not known", _define(unknown), name)
    elif len(values) > 1:
        either = " or ".join(map(str, values))
        hint = f"say which branch is taken: define = {{ … }}, or {declare(name)}"
        reading.report(command, f"{what} {text} is {either}", hint, name)
    else:
        return values[0]
    return None


def _submodules(
    name: str, options: Mapping[str, Sequence[str]], command: Command, reading: Reading
) -> tuple[str, ...] | None:
    """Those of every candidate; unset means all, empty means none (policy CMP0097)."""
    if "GIT_SUBMODULES" not in options:
        return None
    found: set[str] = set()
    for word in options["GIT_SUBMODULES"]:
        values: tuple[Value, ...] = reading.scope.candidates(word)
        if UNKNOWN in values:
            what = f"{name}: GIT_SUBMODULES {word} is not known"
            reading.report(command, what, _define(reading.scope.unknown_in(word)), name)
        found |= {part for value in values if value for part in value.split(";")}
    return tuple(sorted(found - {""}))


def _options(arguments: Sequence[Argument]) -> Mapping[str, Sequence[str]]:
    """The values behind each keyword."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for argument in arguments:
        if not argument.quoted and _KEYWORDS.fullmatch(argument.text):
            current = found.setdefault(argument.text, [])
        else:
            current.append(argument.text)
    return found


def _define(variable: str) -> str:
    return f'say its value in the deps table: define = {{ {variable} = "…" }}'


def declare(name: str) -> str:
    return f"declare it: [deps.{name}] with url, commit and into"
