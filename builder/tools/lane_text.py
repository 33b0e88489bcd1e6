"""Write a fresh lane for people: tables in the model's order, a remark behind each value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tomlkit
from tomlkit.items import Array, Item, Table
from tomlkit.toml_document import TOMLDocument

from builder.model.lane import Lane
from builder.model.schema import KeyPath, plain

_WIDE = 60  # characters of a list that stays on one line


def lane_text(lane: Lane, *, head: Sequence[str], remarks: Mapping[KeyPath, str]) -> str:
    """The text of a lane that does not exist yet; `head` are the comment lines above it."""
    document = tomlkit.document()
    for line in head:
        document.add(tomlkit.comment(line) if line else tomlkit.nl())
    table: dict[str, Any] = {"base": {}, **plain(lane)}
    scalars = {k: v for k, v in table.items() if not _is_table(v)}
    _fill(document, scalars, (), remarks)
    for key in ("build", "sources", "deps", "base", "python", "debs"):
        if key not in table:
            continue
        if key == "build" or not table[key]:
            document.add(tomlkit.nl())
            document.add(key, _table(table[key], (key,), remarks))
            continue
        above = tomlkit.table(is_super_table=True)
        for name, entry in table[key].items():
            above.append(name, _table(entry, (key, name), remarks))
        document.add(key, above)
    for key in ("gates", "imported"):
        if table.get(key):
            document.add(key, _tables(table[key]))
    return _spaced(tomlkit.dumps(document))


def _table(values: Mapping[str, Any], at: KeyPath, remarks: Mapping[KeyPath, str]) -> Table:
    table = tomlkit.table()
    below = {k for k, v in values.items() if isinstance(v, dict) and k != "track"}
    _fill(table, {k: v for k, v in values.items() if k not in below}, at, remarks)
    for key in sorted(below):
        table.append(key, _table(values[key], (*at, key), remarks))
    return table


def _fill(
    into: TOMLDocument | Table,
    values: Mapping[str, Any],
    at: KeyPath,
    remarks: Mapping[KeyPath, str],
) -> None:
    for key, value in values.items():
        item = _item(value)
        if remark := remarks.get((*at, key)):
            item.comment(_one_line(remark))
        into.append(key, item)


def _item(value: Any) -> Item:
    if isinstance(value, dict):
        return _inline(value)
    if not isinstance(value, list):
        single: Item = tomlkit.item(value)
        return single
    array: Array = tomlkit.array()
    for entry in value:
        array.append(_inline(entry) if isinstance(entry, dict) else entry)
    wide = len(array.as_string()) > _WIDE or any(isinstance(v, dict) for v in value)
    array.multiline(wide)
    return array


def _inline(value: Mapping[str, Any]) -> Item:
    inline = tomlkit.inline_table()
    inline.update(value)
    return inline


def _tables(values: Sequence[Mapping[str, Any]]) -> Item:
    array = tomlkit.aot()
    for value in values:
        array.append(_table(value, (), {}))
    return array


def _is_table(value: object) -> bool:
    rows = value if isinstance(value, list) else [value]
    return bool(rows) and isinstance(rows[0], dict)


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


def _spaced(text: str) -> str:
    """One empty line before each table, none doubled."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("[") and lines and lines[-1]:
            lines.append("")
        if line or (lines and lines[-1]):
            lines.append(line)
    return "\n".join(lines).rstrip("\n") + "\n"
