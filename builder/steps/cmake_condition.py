"""Conditions of CMake's `if` with three truths: yes, no, and not known.

As cmake-commands(7) has it with the policies of CMake 3.5 and later: tests bind stronger than
NOT, NOT than AND and OR, which are taken from left to right.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from builder.steps.cmake_lines import Argument
from builder.steps.cmake_scope import UNKNOWN, UNSET, Scope, Truth, Value, words

_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")
_STRANGE_NUMBER = re.compile(r"\s*[+-]?(?:0x|inf|nan)", re.IGNORECASE)
_TRUE, _FALSE = re.compile(r"1|ON|YES|TRUE|Y", re.I), re.compile(r"0|OFF|NO|FALSE|N|IGNORE|", re.I)
_NAME = re.compile(r"[A-Za-z_][\w./+-]*")  # a bare word that may be a variable's name
_UNARY = frozenset({"EXISTS", "IS_DIRECTORY", "IS_ABSOLUTE", "IS_SYMLINK", "COMMAND", "POLICY",
                    "TARGET", "TEST", "IS_READABLE", "IS_WRITABLE", "IS_EXECUTABLE",
                    "DEFINED"})  # fmt: skip
_ORDERS: Mapping[str, Callable[[int], bool]] = {
    "EQUAL": lambda order: order == 0,
    "LESS": lambda order: order < 0,
    "GREATER": lambda order: order > 0,
    "LESS_EQUAL": lambda order: order <= 0,
    "GREATER_EQUAL": lambda order: order >= 0,
}
_BINARY = frozenset({*_ORDERS, *(f"STR{name}" for name in _ORDERS),
                     *(f"VERSION_{name}" for name in _ORDERS), "MATCHES", "IN_LIST",
                     "PATH_EQUAL", "IS_NEWER_THAN"})  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Token:
    text: Value
    quoted: bool

    def is_(self, *words: str) -> bool:
        return not self.quoted and self.text in words


class _Wrong(ValueError):
    """CMake would not take it either."""


def holds(arguments: Sequence[Argument], scope: Scope) -> Truth:
    """Whether the condition of an `if` holds; None when that is not known."""
    truths = {_of(tokens, scope) for tokens in _tokens(arguments, scope)}
    return truths.pop() if len(truths) == 1 else None


def _of(tokens: Sequence[_Token] | None, scope: Scope) -> Truth:
    if tokens is None:
        return None
    condition = _Condition(tokens, scope)
    try:
        found = condition.either()
    except _Wrong:
        return None
    return found if condition.at == len(tokens) else None


def _tokens(arguments: Sequence[Argument], scope: Scope) -> set[tuple[_Token, ...] | None]:
    """What the condition can be once references are replaced. An unquoted argument may then be
    several words, or none, or an operator: one that is not known makes all of it not known."""
    each: list[list[tuple[_Token, ...] | None]] = []
    count = 1
    for argument in arguments:
        values = scope.candidates(argument.text)
        if argument.quoted:
            each.append([(_Token(value, quoted=True),) for value in values])
        else:
            each.append(
                [
                    None if v is UNKNOWN else tuple(_Token(w, quoted=False) for w in words(v))
                    for v in values
                ]
            )
        count *= len(each[-1])
    if count > 64:
        return {None}
    return {
        None if None in chosen else tuple(t for part in chosen if part for t in part)
        for chosen in itertools.product(*each)
    }


@dataclass(slots=True)
class _Condition:
    tokens: Sequence[_Token]
    scope: Scope
    at: int = 0

    def either(self) -> Truth:
        found = self.negated()
        while (token := self._peek()) is not None and token.is_("AND", "OR"):
            self.at += 1
            other, wins = self.negated(), token.text == "OR"
            both = None if None in (found, other) else not wins
            found = wins if wins in (found, other) else both
        return found

    def negated(self) -> Truth:
        token = self._peek()
        if token is not None and token.is_("NOT"):
            self.at += 1
            found = self.negated()
            return None if found is None else not found
        return self.test()

    def test(self) -> Truth:
        token = self._next()
        if token.is_("("):
            found = self.either()
            if not self._next().is_(")"):
                raise _Wrong
            return found
        following = self._peek()
        if token.is_(*_UNARY) and following is not None and not following.is_("AND", "OR", ")"):
            self.at += 1
            return self._defined(following.text) if token.text == "DEFINED" else None
        if following is None or following.is_("AND", "OR", ")"):
            return self._truth(token)
        if not following.is_(*_BINARY):
            raise _Wrong
        self.at += 1
        return self._compared(token, str(following.text), self._next())

    def _defined(self, name: Value) -> Truth:
        if name is UNKNOWN:
            return None
        if match := re.fullmatch(r"(ENV|CACHE)\{(.*)\}", name):
            side, missing = (
                (self.scope.env, (UNSET,)) if match[1] == "ENV" else (self.scope.cache, (UNKNOWN,))
            )
            values = side.get(match[2], missing)
        else:
            values = self.scope.held(name)
        return _agreed(None if v is UNKNOWN else v is not UNSET for v in values)

    def _truth(self, token: _Token) -> Truth:
        """A constant, or whether a variable holds one that is not false."""
        if token.text is UNKNOWN:
            return None
        constant = _constant(token.text)
        if constant is not None or _STRANGE_NUMBER.match(token.text):
            return constant
        if token.quoted:
            return False
        held = self.scope.held(token.text)
        return _agreed(
            None if v is UNKNOWN else v is not UNSET and not _is_off(v) for v in held
        )  # fmt: skip

    def _compared(self, left: _Token, operator: str, right: _Token) -> Truth:
        if operator == "IN_LIST":
            lists = self.scope.held(right.text or "")
            pairs = itertools.product(self._values(left), lists)
            return _agreed(
                None if UNKNOWN in pair else pair[1] is not UNSET and pair[0] in _elements(pair[1])
                for pair in pairs
            )
        order = operator.removeprefix("STR").removeprefix("VERSION_")
        if order not in _ORDERS:
            return None
        compare = _texts if operator.startswith("STR") else _numbers
        compare = _versions if operator.startswith("VERSION_") else compare
        return _agreed(
            None if a is UNKNOWN or b is UNKNOWN else compare(a, b, _ORDERS[order])
            for a, b in itertools.product(self._values(left), self._values(right))
        )

    def _values(self, token: _Token) -> Sequence[Value]:
        """As CMake takes the sides of a comparison: a bare variable's name is its value."""
        if token.quoted or token.text is UNKNOWN or not _NAME.fullmatch(token.text):
            return (token.text,)
        return [token.text if v is UNSET else v for v in self.scope.held(token.text)]

    def _peek(self) -> _Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def _next(self) -> _Token:
        token = self._peek()
        if token is None:
            raise _Wrong
        self.at += 1
        return token


def _agreed(truths: Iterable[Truth]) -> Truth:
    found = set(truths)
    return found.pop() if len(found) == 1 else None


def _elements(value: object) -> Sequence[str]:
    return str(value).split(";") if value else ()


def is_true(text: str) -> bool:
    return bool(_TRUE.fullmatch(text))


def _constant(text: str) -> Truth:
    """Of a word itself: True, False; None when it is no constant."""
    if is_true(text):
        return True
    if _is_off(text):
        return False
    number = _NUMBER.fullmatch(text)
    return float(number[1]) != 0 if number else None


def _is_off(value: str) -> bool:
    is_not_found = value == "NOTFOUND" or value.endswith("-NOTFOUND")
    return bool(_FALSE.fullmatch(value)) or is_not_found


def _texts(left: str, right: str, holds: Callable[[int], bool]) -> Truth:
    a, b = left.encode(), right.encode()
    return holds((a > b) - (a < b))


def _numbers(left: str, right: str, holds: Callable[[int], bool]) -> Truth:
    """Both must begin with a number, as scanf reads it; else no comparison holds."""
    if _STRANGE_NUMBER.match(left) or _STRANGE_NUMBER.match(right):
        return None
    a, b = _NUMBER.match(left), _NUMBER.match(right)
    if a is None or b is None:
        return False
    x, y = float(a[1]), float(b[1])
    return holds((x > y) - (x < y))


def _versions(left: str, right: str, holds: Callable[[int], bool]) -> Truth:
    if not all(re.fullmatch(r"\d{1,9}(\.\d{1,9})*", side) for side in (left, right)):
        return None
    sides = [[int(part) for part in side.split(".")] for side in (left, right)]
    length = max(map(len, sides))
    a, b = ([*side, *[0] * (length - len(side))] for side in sides)
    return holds((a > b) - (a < b))
