"""CMake's variables and conditions, without running CMake: what is not known stays unknown.

A variable has candidates: more than one when it is set in branches of which it is not known
which one is taken. Environment variables count as unset, since a build that sets none of them
is what is asked about; which variable got its value from the environment is remembered.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from builder.steps.cmake_lines import NO_EXPANSION, Argument

UNKNOWN = None
Value = str | None
Truth = bool | None  # None: not known

_REFERENCE = re.compile(r"\$(?P<kind>ENV|CACHE|)\{(?P<name>[^${}]*)\}")
_TRUE = re.compile(r"1|ON|YES|TRUE|Y|[1-9]\d*", re.IGNORECASE)
_FALSE = re.compile(r"0|OFF|NO|FALSE|N|IGNORE|NOTFOUND||.*-NOTFOUND", re.IGNORECASE)
_UNARY = frozenset({"EXISTS", "IS_DIRECTORY", "IS_ABSOLUTE", "IS_SYMLINK", "COMMAND", "POLICY",
                    "TARGET", "TEST", "IS_READABLE", "IS_WRITABLE", "IS_EXECUTABLE"})  # fmt: skip
_TOO_MANY = 16  # candidates of one value


@dataclass(slots=True)
class Scope:
    """Variables by name, and the environment variable that each may come from."""

    variables: dict[str, tuple[Value, ...]] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Scope:
        return cls({name: (value,) for name, value in given.items()})

    def set(self, name: str, values: Sequence[Value], *, certain: bool) -> None:
        """Give a variable its candidates; more of them when it is not certain that it is set."""
        former = () if certain else self.variables.get(name, ())
        self.variables[name] = tuple(dict.fromkeys((*former, *values)))

    def candidates(self, text: str) -> tuple[Value, ...]:
        """All that a text can be with its references replaced; UNKNOWN among them."""
        match = _REFERENCE.search(text)
        if match is None:
            return (text.replace(NO_EXPANSION, "$"),)
        if match["kind"] == "ENV":
            held: tuple[Value, ...] = ("",)
        else:
            held = self.variables.get(match["name"], (UNKNOWN,))
        found: list[Value] = []
        for value in held:
            if value is UNKNOWN:
                found.append(UNKNOWN)
            else:
                found += self.candidates(text[: match.start()] + value + text[match.end() :])
        return tuple(dict.fromkeys(found))[:_TOO_MANY]

    def source_of(self, text: str) -> str | None:
        """The environment variable that a text refers to, itself or through variables."""
        for match in _REFERENCE.finditer(text):
            if match["kind"] == "ENV":
                return match["name"]
            if match["name"] in self.environment:
                return self.environment[match["name"]]
        return None

    def unknown_in(self, text: str) -> str:
        """The first variable of a text whose value is not known, for messages."""
        names = (match["name"] for match in _REFERENCE.finditer(text))
        return next((n for n in names if UNKNOWN in self.variables.get(n, (UNKNOWN,))), text)


def holds(arguments: Sequence[Argument], scope: Scope) -> Truth:
    """Whether the condition of an `if` holds; None when that is not known."""
    condition = _Condition(list(arguments), scope)
    found = condition.either()
    return found if condition.at == len(arguments) else None


@dataclass(slots=True)
class _Condition:
    """OR binds weaker than AND, AND than NOT, NOT than tests."""

    tokens: list[Argument]
    scope: Scope
    at: int = 0

    def either(self) -> Truth:
        found = self.both()
        while self._take("OR"):
            other = self.both()
            found = True if True in (found, other) else None if None in (found, other) else False
        return found

    def both(self) -> Truth:
        found = self.negated()
        while self._take("AND"):
            other = self.negated()
            found = False if False in (found, other) else None if None in (found, other) else True
        return found

    def negated(self) -> Truth:
        if self._take("NOT"):
            found = self.negated()
            return None if found is None else not found
        return self.test()

    def test(self) -> Truth:
        if self._take("("):
            found = self.either()
            self._take(")")
            return found
        if self._take("DEFINED"):
            return self._defined(self._next())
        token = self._peek()
        if token is not None and not token.quoted and token.text in _UNARY:
            self.at += 2
            return None
        left = self._next()
        operator = self._peek()
        if operator is None or operator.quoted or operator.text in ("AND", "OR", ")"):
            return self._truth(left)
        self.at += 1
        right = self._next()
        if operator.text in ("STREQUAL", "EQUAL", "PATH_EQUAL"):
            return self._equal(left, right)
        return None

    def _defined(self, token: Argument) -> Truth:
        if token.text.startswith("ENV{"):
            return False
        values = self.scope.variables.get(token.text)
        return None if values is None or UNKNOWN in values else True

    def _truth(self, token: Argument) -> Truth:
        """A constant, or a variable's value; one that only the environment sets is false."""
        values: tuple[Value, ...] = self.scope.candidates(token.text)
        name = values[0]
        if not token.quoted and name is not UNKNOWN and not _constant(name):
            unset = ("",) if name in self.scope.environment else (UNKNOWN,)
            values = self.scope.variables.get(name, unset)
        truths = {None if v is UNKNOWN else not _FALSE.fullmatch(v) for v in values}
        return truths.pop() if len(truths) == 1 else None

    def _equal(self, left: Argument, right: Argument) -> Truth:
        pairs = itertools.product(self._values(left), self._values(right))
        truths = {None if UNKNOWN in pair else pair[0] == pair[1] for pair in pairs}
        return truths.pop() if len(truths) == 1 else None

    def _values(self, token: Argument) -> tuple[Value, ...]:
        """As CMake takes the sides of a comparison: a bare variable's name is its value."""
        if not token.quoted and token.text in self.scope.variables:
            return self.scope.variables[token.text]
        if not token.quoted and token.text.isidentifier() and token.text.isupper():
            return (UNKNOWN,)
        return self.scope.candidates(token.text)

    def _peek(self) -> Argument | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def _next(self) -> Argument:
        token = self._peek()
        self.at += 1
        return token or Argument("", quoted=True)

    def _take(self, word: str) -> bool:
        token = self._peek()
        if token is None or token.quoted or token.text != word:
            return False
        self.at += 1
        return True


def _constant(text: str) -> bool:
    return bool(_TRUE.fullmatch(text) or _FALSE.fullmatch(text))
