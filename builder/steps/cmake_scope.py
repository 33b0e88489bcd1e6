"""CMake's variables, without running CMake: what is not known stays unknown.

A variable has candidates: more than one where branches meet of which it is not known which one
was taken. A variable that no file sets is unknown. One that the files set is not taken to be in
the cache as well, unless they put it there or it was given (`cmake -D`). Environment variables
count as unset, since a build that sets none of them is what is asked about.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeVar

from builder.steps.cmake_lines import NO_EXPANSION, Argument

T = TypeVar("T")

UNKNOWN = None


class Unset(Enum):
    """There is no such variable."""

    UNSET = ""


UNSET = Unset.UNSET
Value = str | None
Held = str | Unset | None
Truth = bool | None  # None: not known
Variables = dict[str, tuple[Held, ...]]

TREE = "\1"  # stands for the folder of the sources; only a path may hold it
_REFERENCE = re.compile(r"\$(?P<kind>ENV|CACHE|)\{(?P<name>[^${}]*)\}")
_TOO_MANY = 16  # candidates of one value
_LONGEST, _MOST_STEPS = 100_000, 500  # characters; references that are replaced


@dataclass(slots=True)
class Scope:
    """What is known at one place of a file."""

    normal: Variables = field(default_factory=dict)
    cache: Variables = field(default_factory=dict)
    env: Variables = field(default_factory=dict)
    above: Variables = field(default_factory=dict)  # the normal ones of PARENT_SCOPE
    wild: frozenset[str] = frozenset()  # patterns of names that may have been set

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Scope:
        return cls(cache={name: (value,) for name, value in given.items()})

    def copy(self) -> Scope:
        return replace(
            self, normal=dict(self.normal), cache=dict(self.cache), env=dict(self.env),
            above=dict(self.above),
        )  # fmt: skip

    def inner(self) -> Scope:
        """The scope of a function that is called here, or of a folder below."""
        return replace(self.copy(), above=dict(self.normal))

    def leave(self, inner: Scope) -> None:
        """Go on here after the inner scope was left."""
        self.normal, self.cache, self.env = inner.above, inner.cache, inner.env
        self.wild = inner.wild

    def own(self, name: str) -> tuple[Held, ...] | None:
        """What a normal variable may be; None when nothing is known of one."""
        if name not in self.normal and any(re.fullmatch(one, name) for one in self.wild):
            return (UNKNOWN,)
        return self.normal.get(name)

    def held(self, name: str) -> tuple[Held, ...]:
        """What a variable may be; one that was unset here may be in the cache."""
        own = self.own(name)
        if own is None:
            return self.cache.get(name, (UNKNOWN,))
        found: list[Held] = []
        for value in own:
            found += self.cache.get(name, (UNSET,)) if value is UNSET else (value,)
        return tuple(dict.fromkeys(found))

    def set(self, name: str, values: Iterable[Held]) -> None:
        self.normal[name] = few(values)

    def forget(self, name: str) -> None:
        """A command may have given it any value."""
        self.normal[name] = (UNKNOWN,)

    def forget_like(self, text: str) -> None:
        """Something was set whose name is not known: a text with references."""
        known = "".join(
            ".*" if i % 2 else re.escape(part) for i, part in enumerate(_split(text))
        )  # fmt: skip
        self.wild |= {known}
        for name in [name for name in self.normal if re.fullmatch(known, name)]:
            del self.normal[name]

    def candidates(self, text: str) -> tuple[Value, ...]:
        """All that a text can be with its references replaced; UNKNOWN among them."""
        return few(None if v is None or TREE in v else v for v in self.paths(text))

    def paths(self, text: str) -> tuple[Value, ...]:
        """The same, with TREE for the folder of the sources."""
        found: dict[Value, None] = {}
        waiting, steps = [text], 0
        while waiting:
            text, steps = waiting.pop(0), steps + 1
            match = _REFERENCE.search(text)
            if len(text) > _LONGEST or steps > _MOST_STEPS:
                return (UNKNOWN,)
            if match is None:
                found[text.replace(NO_EXPANSION, "$")] = None
                continue
            for value in self._referred(match["kind"], match["name"]):
                if value is UNKNOWN:
                    found[UNKNOWN] = None
                else:
                    inner = "" if value is UNSET else value.replace("$", NO_EXPANSION)
                    waiting.append(text[: match.start()] + inner + text[match.end() :])
        return few(found)

    def _referred(self, kind: str, name: str) -> tuple[Held, ...]:
        if kind == "ENV":
            return self.env.get(name, (UNSET,))
        return self.cache.get(name, (UNKNOWN,)) if kind == "CACHE" else self.held(name)

    def lists(self, arguments: Sequence[Argument]) -> tuple[tuple[str, ...] | None, ...]:
        """What the arguments are for a command: an unquoted one is split, and gone when empty."""
        each = [
            [None if v is None else (v,) if a.quoted else words(v) for v in self.paths(a.text)]
            for a in arguments
        ]
        count = 1
        for choices in each:
            count *= len(choices)
        if count > _TOO_MANY:
            return (None,)
        found: list[tuple[str, ...] | None] = []
        for chosen in itertools.product(*each):
            whole = [part for part in chosen if part is not None]
            is_known = len(whole) == len(chosen)
            found.append(tuple(w for part in whole for w in part) if is_known else None)
        return tuple(dict.fromkeys(found))

    def unknown_in(self, text: str) -> str:
        """The first variable of a text whose value is not known, for messages."""
        names = (match["name"] for match in _REFERENCE.finditer(text))
        return next((n for n in names if UNKNOWN in self.held(n)), text)


def meet(scopes: Sequence[Scope]) -> Scope:
    """What is known where branches meet."""
    return functools.reduce(_meet, scopes)


def _meet(one: Scope, other: Scope) -> Scope:
    made = Scope(
        dict(one.normal), _met(one.cache, other.cache), _met(one.env, other.env, UNSET),
        _met(one.above, other.above), one.wild | other.wild,
    )  # fmt: skip
    for name in _differing(one.normal, other.normal):
        sides = [s.own(name) or ((UNSET,) if name in s.cache else (UNKNOWN,)) for s in (one, other)]
        made.normal[name] = few((*sides[0], *sides[1]))
    return made


def _met(one: Variables, other: Variables, missing: Held = UNKNOWN) -> Variables:
    made = dict(one)
    for name in _differing(one, other):
        made[name] = few((*one.get(name, (missing,)), *other.get(name, (missing,))))
    return made


def _differing(one: Variables, other: Variables) -> list[str]:
    return [n for n, v in other.items() if one.get(n) != v] + [n for n in one if n not in other]


def few(values: Iterable[T | None]) -> tuple[T | None, ...]:
    """Each once; too many are as good as not known."""
    found = tuple(dict.fromkeys(values))
    return found if len(found) <= _TOO_MANY else (UNKNOWN,)


def words(text: str) -> tuple[str, ...]:
    """The elements of a list; empty ones are gone, as of an unquoted argument."""
    parts = re.split(r"(?<!\\);", text)
    return tuple(part.replace("\\;", ";") for part in parts if part)


def references(text: str) -> bool:
    return _REFERENCE.search(text) is not None


def reference(text: str) -> tuple[str, str] | None:
    """The kind ("", ENV, CACHE) and name of a text that is one reference and nothing else."""
    match = _REFERENCE.fullmatch(text.strip())
    return (match["kind"], match["name"]) if match else None


def _split(text: str) -> list[str]:
    """Parts between references, and the references, in turn."""
    while (match := _REFERENCE.search(text)) is not None:  # the innermost first
        text = f"{text[: match.start()]}\2{text[match.end() :]}"
    parts = text.split("\2")
    return [item for part in parts for item in (part, "")][:-1]
