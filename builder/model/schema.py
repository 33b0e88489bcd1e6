"""A strict reader of TOML and JSON tables into frozen dataclasses.

All findings are collected, not only the first; an unknown key near a known one says what
was meant. Written here, not taken from pydantic, because `verify-lock` answers in less time
than pydantic takes to import (docs/decisions/0001-own-schema.md).
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import re
import types
import typing
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from builder.errors import Finding, Place
from builder.model.urls import without_userinfo

T = TypeVar("T")
KeyPath = tuple[str | int, ...]
_LOGIN = re.compile(r"(?<![^\s'\",])[^\s/:@'\",]+:(?!//)[^\s'\"]*@(?!sha\d+:)")  # user:secret@host
_QUERY = re.compile(r"([/:][^?#\s]*[?#])[^'\"\s]+")
RawTable = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Check:
    """A condition on a string, put on a field with Annotated."""

    holds: Callable[[str], bool]
    says: str  # what the value must be: "40 or 64 lower-case hex digits"
    cure: Callable[[str], str] = lambda _: ""  # what to type next, for this value


@dataclass(slots=True)
class Reader:
    """Reads tables of one file; `findings` grows as it goes."""

    file: Path
    code: str  # of its findings
    findings: list[Finding] = field(default_factory=list)

    def report(self, at: KeyPath, what: str, hint: str = "") -> None:
        name = dotted(at)
        text = f"{name}: {what}" if name else what
        self.findings.append(Finding(self.code, text, hint, place=Place(self.file, key=at)))

    def read(self, kind: type[T], raw: object, at: KeyPath = ()) -> T | None:
        """Read a dataclass; None when any of its fields could not be read."""
        return typing.cast("T | None", self._table(kind, raw, at))

    def _table(self, kind: type[Any], raw: object, at: KeyPath) -> object | None:
        if not isinstance(raw, Mapping):
            self.report(at, f"must be a table, not {_named(raw)}")
            return None
        shape = _shape(typing.cast("Hashable", kind))
        before = len(self.findings)
        self._unknown_keys(raw, shape, at)
        values: dict[str, object] = {}
        for key, spec in shape.items():
            if key in raw:
                values[spec.name] = self._value(spec.hint, raw[key], (*at, key))
            elif spec.required:
                self.report((*at, key), "is missing")
        return kind(**values) if len(self.findings) == before else None

    def _unknown_keys(self, raw: RawTable, shape: Mapping[str, _Spec], at: KeyPath) -> None:
        for key in raw:
            if key not in shape:
                near = difflib.get_close_matches(key, shape, n=1, cutoff=0.6)
                hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(shape)}"
                self.report((*at, key), "unknown key", hint)

    def _value(self, hint: Any, raw: object, at: KeyPath) -> object:
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Annotated:
            return self._checked(args, raw, at)
        if origin in (typing.Union, types.UnionType):
            return self._union([a for a in args if a is not type(None)], raw, at)
        if origin is Literal:
            if raw not in args or isinstance(raw, bool):
                near = difflib.get_close_matches(str(raw), [str(a) for a in args], n=1)
                self.report(
                    at,
                    f"must be one of {', '.join(map(repr, args))}, not {raw!r}",
                    f"did you mean {near[0]!r}?" if near else "",
                )
            return raw
        if origin is tuple:
            return self._list(args[0], raw, at)
        if hint == RawTable:
            if not isinstance(raw, Mapping):
                self.report(at, f"must be a table, not {_named(raw)}")
            return raw
        if origin is not None and issubclass(origin, Mapping):
            return self._mapping(args, raw, at)
        if dataclasses.is_dataclass(hint):
            return self._table(typing.cast("type[Any]", hint), raw, at)
        if not isinstance(raw, hint) or (isinstance(raw, bool) and hint is not bool):
            self.report(at, f"must be {_WORDS.get(hint, str(hint))}, not {_named(raw)}")
        return raw

    def _checked(self, args: tuple[Any, ...], raw: object, at: KeyPath) -> object:
        before = len(self.findings)
        value = self._value(args[0], raw, at)
        if len(self.findings) == before:
            for check in args[1:]:
                if isinstance(check, Check) and not check.holds(typing.cast("str", value)):
                    cure = check.cure(typing.cast("str", value))
                    self.report(at, f"must be {check.says}, not {quoted(value)}", cure)
        return value

    def _union(self, options: list[Any], raw: object, at: KeyPath) -> object:
        """The first option that reads; with none, the findings of the one of raw's own type."""
        failures: list[tuple[int, list[Finding]]] = []
        for option in options:
            trial = Reader(self.file, self.code)
            value = trial._value(option, raw, at)
            if not trial.findings:
                return value
            failures.append((_likeness(option, raw), trial.findings))
        self.findings += max(failures, key=lambda failure: failure[0])[1]
        return None

    def _list(self, item: Any, raw: object, at: KeyPath) -> object:
        if not isinstance(raw, list | tuple):
            self.report(at, f"must be a list, not {_named(raw)}")
            return ()
        return tuple(self._value(item, value, (*at, i)) for i, value in enumerate(raw))

    def _mapping(self, args: tuple[Any, ...], raw: object, at: KeyPath) -> object:
        if not isinstance(raw, Mapping):
            self.report(at, f"must be a table, not {_named(raw)}")
            return {}
        found = {}
        for key, value in raw.items():
            self._value(args[0], key, (*at, key))
            found[key] = self._value(args[1], value, (*at, key))
        return found


def plain(value: object, *, leave_out: frozenset[str] = frozenset()) -> Any:
    """The table that reads back as `value`: keys in kebab-case, fields at their default left out.

    `leave_out` names fields (anywhere) that are not written.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        table = {}
        for spec in dataclasses.fields(value):
            item = getattr(value, spec.name)
            if spec.name in leave_out or _is_default(spec, item):
                continue
            table[_key(spec.name)] = plain(item, leave_out=leave_out)
        return table
    if isinstance(value, Mapping):
        return {key: plain(value[key], leave_out=leave_out) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [plain(item, leave_out=leave_out) for item in value]
    return value


def dotted(at: KeyPath) -> str:
    """A key path as TOML writes it, list places in brackets: `gates[2].kind`."""
    text = ""
    for part in at:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


@dataclass(frozen=True, slots=True)
class _Spec:
    name: str
    hint: Any
    required: bool


@functools.cache
def _shape(kind: type[Any]) -> Mapping[str, _Spec]:
    hints = typing.get_type_hints(kind, include_extras=True)
    missing = dataclasses.MISSING
    return {
        _key(f.name): _Spec(
            f.name, hints[f.name], f.default is missing and f.default_factory is missing
        )
        for f in dataclasses.fields(kind)
        if f.init and not f.metadata.get("internal")
    }


def _key(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _is_default(spec: dataclasses.Field[Any], item: object) -> bool:
    if spec.metadata.get("internal"):
        return True
    if spec.default_factory is not dataclasses.MISSING:
        return bool(item == spec.default_factory())
    return spec.default is not dataclasses.MISSING and bool(item == spec.default)


def _could_be(option: Any, raw: object) -> bool:
    origin = typing.get_origin(option)
    if origin is Literal:
        return isinstance(raw, type(typing.get_args(option)[0]))
    if origin is tuple:
        return isinstance(raw, list)
    if dataclasses.is_dataclass(option) or (origin and origin is not typing.Annotated):
        return isinstance(raw, Mapping)
    return isinstance(raw, str)


def _likeness(option: Any, raw: object) -> int:
    """0 for what it cannot be; of tables, the one that has most of the keys is the likeliest."""
    if not _could_be(option, raw):
        return 0
    if dataclasses.is_dataclass(option) and isinstance(raw, Mapping):
        return 1 + len(raw.keys() & _shape(typing.cast("Hashable", option)).keys())
    return 1


_WORDS: Mapping[Any, str] = {
    str: "a string",
    int: "a whole number",
    bool: "true or false",
    float: "a number",
}


def _named(raw: object) -> str:
    if isinstance(raw, Mapping):
        return "a table"
    if isinstance(raw, list | tuple):
        return "a list"
    return f"{raw!r}"


def without_secrets(url: str) -> str:
    """Text around a URL or login without what may be a secret in it: userinfo, query, fragment."""
    return _QUERY.sub(r"\1…", _LOGIN.sub("…@", without_userinfo(url)))


def quoted(value: object) -> str:
    """A refused value as a message shows it: a secret that a URL holds is not repeated."""
    text = repr(without_secrets(value)) if isinstance(value, str) else without_secrets(repr(value))
    return text if len(text) <= 80 else f"{text[:77]}…"
