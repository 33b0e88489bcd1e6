"""Read JSON values into typed nodes that keep every key and the order of keys.

Unlike a lane, a foreign lock may hold keys that we do not know: they are kept in `extra`, and
rendering gives back what was read.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from builder.errors import Finding, Place
from builder.importers.text import ImportInvalid, Json
from builder.model.schema import Check, KeyPath, dotted, quoted

N = TypeVar("N", bound="Node")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One JSON object. A field is a key of the same name; None means the key is absent or null."""

    keys: tuple[str, ...] = ()  # all keys of the file, in its order
    extra: Mapping[str, object] = field(default_factory=dict)  # what no field is for

    def unknown(self, at: str = "") -> Iterator[str]:
        """The keys that no field is for, here and below."""
        for key in self.extra:
            yield f"{at}.{key}" if at else key
        for spec in _own(type(self)):
            yield from _unknown(getattr(self, spec.name), f"{at}.{spec.name}" if at else spec.name)


def _unknown(value: object, at: str) -> Iterator[str]:
    if isinstance(value, Node):
        yield from value.unknown(at)
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from _unknown(item, f"{at}[{i}]")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _unknown(item, f"{at}.{key}")


NULL: Mapping[str, bool] = {"null": True}
"""Metadata of a field whose value may be null."""


def render(node: Node) -> str:
    """The JSON text of a document: two spaces, keys in their order, one line end at the end."""
    return json.dumps(plain(node), indent=2, ensure_ascii=False) + "\n"


def plain(value: object) -> Any:
    """The JSON value of a node; what was set after reading comes behind the other keys."""
    if isinstance(value, Node):
        own = {spec.name: spec for spec in _own(type(value))}
        keys = [k for k in value.keys if k in own or k in value.extra]
        keys += [k for k, s in own.items() if k not in keys and getattr(value, k) != _default(s)]
        return {k: plain(value.extra[k] if k in value.extra else getattr(value, k)) for k in keys}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


@dataclass(slots=True)
class Reader:
    """Reads one file's nodes; `findings` grows as it goes."""

    file: Path
    json: Json
    findings: list[Finding] = field(default_factory=list)

    def report(self, at: KeyPath, what: str, hint: str = "") -> None:
        name = dotted(at)
        line = next(
            (self.json.lines[at[:n]] for n in _prefixes(at) if at[:n] in self.json.lines), 1
        )
        text = f"{name}: {what}" if name else what
        self.findings.append(Finding(ImportInvalid.code, text, hint, place=Place(self.file, line)))

    def document(self, kind: type[N]) -> N:
        """The whole file. Raises: ImportInvalid with every finding."""
        found = self._node(kind, self.json.value, ())
        if self.findings or found is None:
            raise ImportInvalid.of(self.findings)
        return typing.cast("N", found)

    def settle(self) -> None:
        """Raises: ImportInvalid when anything was reported."""
        if self.findings:
            raise ImportInvalid.of(self.findings)

    def _node(self, kind: type[Any], raw: object, at: KeyPath) -> object:
        if not isinstance(raw, Mapping):
            self.report(at, f"must be an object, not {_named(raw)}")
            return None
        before = len(self.findings)
        values: dict[str, object] = {}
        for spec in _own(kind):
            if spec.name in raw:
                if raw[spec.name] is not None or not spec.metadata.get("null"):
                    hint = _hints(kind)[spec.name]
                    values[spec.name] = self._value(hint, raw[spec.name], (*at, spec.name))
            elif _default(spec) is dataclasses.MISSING:
                self.report((*at, spec.name), "is missing", _near(spec.name, raw))
        extra = {key: raw[key] for key in raw if key not in _hints(kind) or key in _META}
        if len(self.findings) > before:
            return None
        return kind(keys=tuple(raw), extra=extra, **values)

    def _value(self, hint: Any, raw: object, at: KeyPath) -> object:
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Annotated:
            value = self._value(args[0], raw, at)
            for check in args[1:]:
                if isinstance(check, Check) and isinstance(raw, str) and not check.holds(raw):
                    self.report(at, f"must be {check.says}, not {quoted(raw)}")
            return value
        if origin in (typing.Union, types.UnionType):
            return self._value(next(a for a in args if a is not type(None)), raw, at)
        if origin is Literal:
            if raw not in args or isinstance(raw, bool):
                self.report(at, f"must be {' or '.join(map(repr, args))}, not {_named(raw)}")
            return raw
        if origin is tuple:
            return self._list(args[0], raw, at)
        if origin is not None and issubclass(origin, Mapping):
            return self._mapping(args, raw, at)
        if dataclasses.is_dataclass(hint):
            return self._node(typing.cast("type[Any]", hint), raw, at)
        if hint is not object and (not isinstance(raw, hint) or isinstance(raw, bool)):
            word = "text" if hint is str else "a whole number"
            self.report(at, f"must be {word}, not {_named(raw)}")
        return raw

    def _list(self, item: Any, raw: object, at: KeyPath) -> object:
        if not isinstance(raw, list):
            self.report(at, f"must be a list, not {_named(raw)}")
            return ()
        return tuple(self._value(item, value, (*at, i)) for i, value in enumerate(raw))

    def _mapping(self, args: tuple[Any, ...], raw: object, at: KeyPath) -> object:
        if not isinstance(raw, Mapping):
            self.report(at, f"must be an object, not {_named(raw)}")
            return {}
        for key in raw:
            self._value(args[0], key, (*at, key))
        return {key: self._value(args[1], value, (*at, key)) for key, value in raw.items()}


_META = frozenset({"keys", "extra"})


@functools.cache
def _shape(kind: Any) -> tuple[tuple[dataclasses.Field[Any], ...], Mapping[str, Any]]:
    own = tuple(f for f in dataclasses.fields(kind) if f.name not in _META)
    return own, typing.get_type_hints(kind, include_extras=True)


def _hints(kind: Any) -> Mapping[str, Any]:
    return _shape(kind)[1]


def _own(kind: Any) -> tuple[dataclasses.Field[Any], ...]:
    return _shape(kind)[0]


def _default(spec: dataclasses.Field[Any]) -> object:
    if spec.default_factory is not dataclasses.MISSING:
        return spec.default_factory()
    return spec.default


def _prefixes(at: KeyPath) -> range:
    return range(len(at), -1, -1)


def _near(name: str, raw: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name, [str(k) for k in raw], n=1, cutoff=0.75)
    return f"is it {near[0]!r}?" if near else ""


def _named(raw: object) -> str:
    if isinstance(raw, Mapping):
        return "an object"
    return "a list" if isinstance(raw, list) else quoted(raw)
