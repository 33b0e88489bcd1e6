"""The build id: the same for the same meaning, another for every change that a build sees.

docs/build-id.md says which fields are which; `ADVISORY` here is that list, written down once
more, so that a field that changes sides is noticed.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import tomllib
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builder.model.lane import Lane
from builder.model.lock import Lock
from builder.model.schema import Reader
from builder.steps import identity
from tests.unit.locks import lane_table, lock_table

EXAMPLES = int(os.environ.get("IMGBUILD_EXAMPLES", "200"))
Path_ = tuple[str | int, ...]

ADVISORY = {
    "lane": {"description", "mirrors", "track", "unreachable", "made-by", "imported", "title",
             "caches", "tree", "parts", "result-tree", "commit", "head"},
    "lock": {"intent", "reachable-from", "delta"},
}  # fmt: skip


def read(kind: type[Any], table: object) -> Any:
    reader = Reader(Path("x"), "x")
    found = reader.read(kind, table)
    assert not reader.findings, reader.findings
    return found


def build_id(lane: object, lock: object) -> str:
    return identity.build_id(dataclasses.replace(read(Lane, lane), name="demo"), read(Lock, lock))


def leaves(value: object, at: Path_ = ()) -> Iterator[Path_]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, (*at, key))
    elif isinstance(value, list) and value:
        for i, item in enumerate(value):
            yield from leaves(item, (*at, i))
    else:
        yield at


def at(table: Any, path: Path_) -> Any:
    for part in path:
        table = table[part]
    return table


def mutants(value: object) -> list[object]:
    """Other values of which at least one is valid wherever this one is."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1]
    assert isinstance(value, str)
    last = value[-1:]
    swapped = value[:-1] + ("1" if last != "1" else "2")
    known = {"cherry-pick": "merge", "merged": "already-in-base", "applied": "already-there",
             "linux/amd64": "linux/arm64", "linux/arm64": "linux/amd64",
             "12.1a": "12.0a", "package": "package"}  # fmt: skip
    return [known[value]] if value in known else [swapped, value + "x"]


def is_advisory(which: str, path: Path_) -> bool:
    if which == "lane" and path[:1] == ("gates",):
        return False
    return any(part in ADVISORY[which] for part in path if isinstance(part, str))


BOTH = {"lane": lane_table(), "lock": lock_table()}
FIRST = build_id(*BOTH.values())
EVERY = [(which, path) for which, table in BOTH.items() for path in leaves(table)]


@pytest.mark.parametrize(("which", "path"), EVERY, ids=lambda v: str(v))
def test_every_field_that_a_build_sees_changes_it_and_no_other(which: str, path: Path_) -> None:
    ids = set()
    for value in mutants(at(BOTH[which], path)):
        tables = copy.deepcopy(BOTH)
        at(tables[which], path[:-1])[path[-1]] = value
        try:
            ids.add(build_id(*tables.values()))
        except AssertionError:
            continue  # not a valid value of this field
    if path in (("schema",), ("lock-version",), ("gates", 0, "kind")):
        return  # one value only
    assert ids
    assert (FIRST in ids) == is_advisory(which, path)
    assert (ids == {FIRST}) == is_advisory(which, path)


def fields(kind: Any, seen: set[Any]) -> Iterator[tuple[Any, str]]:
    """Every (dataclass, key) that a table of this kind can hold."""
    for inner in (*typing.get_args(kind), kind):
        if dataclasses.is_dataclass(inner) and inner not in seen:
            seen.add(inner)
            hints = typing.get_type_hints(inner, include_extras=False)
            for spec in dataclasses.fields(inner):
                if not spec.metadata.get("internal"):
                    yield inner, spec.name.rstrip("_").replace("_", "-")
                    yield from fields(hints[spec.name], seen)
        elif typing.get_args(inner) and inner is not kind:
            yield from fields(inner, seen)


@pytest.mark.parametrize(("which", "kind"), [("lane", Lane), ("lock", Lock)])
def test_the_tables_of_this_test_hold_every_field(which: str, kind: type[Any]) -> None:
    held = {part for path in leaves(BOTH[which]) for part in path}
    missing = {f"{owner.__name__}.{key}" for owner, key in fields(kind, set()) if key not in held}
    assert missing == set()


def spelled(value: Any, draw: Any) -> str:
    """A value as inline TOML, in any of its spellings."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        plain = str(value)
        under = f"{plain[:-3]}_{plain[-3:]}" if len(plain) > 3 else plain
        return draw(st.sampled_from([plain, hex(value), under, f"+{plain}"]))
    if isinstance(value, list):
        space = draw(st.sampled_from(["", " ", "\n  # a remark\n  "]))
        inner = ",".join(space + spelled(item, draw) for item in value)
        return f"[{inner}{draw(st.sampled_from(['', ',']))}{space}]" if value else "[]"
    if isinstance(value, dict):
        keys = draw(st.permutations(list(value)))
        return "{" + ", ".join(f"{key(k, draw)} = {spelled(value[k], draw)}" for k in keys) + "}"
    escaped = "".join(f"\\u{ord(c):04x}" if draw(st.booleans()) else c for c in value[:4])
    forms = [json.dumps(value), f'"""{value}"""', f'"{escaped}{value[4:]}"', f"'{value}'"]
    return draw(st.sampled_from(forms))


def key(name: str, draw: Any) -> str:
    bare = name.replace("-", "").replace("_", "").isalnum()
    forms = [json.dumps(name), f"'{name}'", *([name] if bare else [])]
    return draw(st.sampled_from(forms))


@st.composite
def texts(draw: Any, table: dict[str, Any]) -> str:
    """A TOML text of the table: any order of keys, inline or with headers, with remarks."""
    values, headers = [], []
    for name in draw(st.permutations(list(table))):
        value = table[name]
        if isinstance(value, dict) and value and draw(st.booleans()):
            lines = [f"{key(k, draw)} = {spelled(v, draw)}" for k, v in value.items()]
            headers.append(
                "\n".join([f"[{key(name, draw)}] # a table", *draw(st.permutations(lines))])
            )
        else:
            values.append(f"{key(name, draw)} = {spelled(value, draw)}")
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return "\n".join(["# a remark", *values, *headers, ""]).replace("\n", end)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_order_remarks_and_spelling_do_not_matter(data: st.DataObject) -> None:
    tables = [
        tomllib.loads(data.draw(texts(table)).replace("\r\n", "\n")) for table in BOTH.values()
    ]
    assert build_id(*tables) == FIRST


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from([e for e in EVERY if is_advisory(*e)]), min_size=1), st.text())
def test_any_advisory_text_gives_the_same(paths: list[tuple[str, Path_]], text: str) -> None:
    tables = copy.deepcopy(BOTH)
    for which, path in paths:
        if path[-1] in ("description", "made-by", "title", "unreachable"):
            at(tables[which], path[:-1])[path[-1]] = text or "x"
        elif "mirrors" in path:
            at(tables[which], path[:-1]).append("https://example.org/other.git")
    assert build_id(*tables.values()) == FIRST


def test_a_name_of_an_entry_is_part_of_it_even_when_it_reads_like_an_advisory_field() -> None:
    tables = copy.deepcopy(BOTH)
    tables["lane"]["env"]["title"] = "x"
    first = build_id(*tables.values())
    tables["lane"]["env"]["title"] = "y"
    assert FIRST != first != build_id(*tables.values())
