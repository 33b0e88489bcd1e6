"""Mutated files: never a traceback, never a contradiction that passes, never a broken lane.

IMGBUILD_MUTATIONS sets their number (100,000 takes some minutes).
"""

from __future__ import annotations

import json
import os
import random
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builder.importers.draft import Wanted, draft
from builder.importers.merge import merge
from builder.importers.text import ImportInvalid
from builder.model.foreign import Read
from builder.model.lane import Lane
from builder.model.schema import Reader
from builder.tools.lane_text import lane_text
from tests.unit.importers.files import FILES, INPUTS, PINS, read

COUNT = int(os.environ.get("IMGBUILD_MUTATIONS", "600"))
pytestmark = pytest.mark.timeout(0 if COUNT > 10_000 else 900)
ALL = [(p.name, p.read_bytes()) for p in FILES]
ALL += [("pins.json", PINS.encode()), ("inputs.json", INPUTS.encode())]
JSON = [(name, data) for name, data in ALL if data.startswith(b"{")]
LOCKS = [(name, data) for name, data in ALL if data.startswith(b"format=")]
HEX = "0123456789abcdef"
ODD: tuple[Any, ...] = (
    None, True, -1, 0, 10**17, "", " ", "x", "\u202e", "0" * 40, "A" * 40, "f" * 64,
    "refs/heads/x", "refs/pull/1/head", "../x", "https://a:b@c/d", [], {}, [[]], {"": ""},
)  # fmt: skip


def lines(data: bytes, r: random.Random) -> bytes:
    """Drop, repeat, swap or alter lines."""
    rows = data.split(b"\n")
    for _ in range(r.randint(1, 3)):
        i, j = r.randrange(len(rows)), r.randrange(len(rows))
        match r.randrange(7):
            case 0 if len(rows) > 1:
                del rows[i]
            case 1:
                rows.insert(j, rows[i])
            case 2:
                rows[i], rows[j] = rows[j], rows[i]
            case 3:
                rows[i] = rows[i].partition(b"=")[0] + b"=" + rows[j].partition(b"=")[2]
            case 4:
                rows[i] = rows[i][: r.randint(0, len(rows[i]))]
            case 5:
                rows[i] = digit(rows[i], r)
            case _:
                rows[i] = rows[i].upper() if r.random() < 0.5 else b" " + rows[i]
    return b"\n".join(rows)


def digit(row: bytes, r: random.Random) -> bytes:
    """Another hex digit in place of one."""
    at = [i for i, c in enumerate(row) if chr(c) in HEX]
    if not at:
        return row
    i = r.choice(at)
    return row[:i] + r.choice(HEX).encode() + row[i + 1 :]


def octets(data: bytes, r: random.Random) -> bytes:
    """Random bytes in random places."""
    found = bytearray(data)
    for _ in range(r.randint(1, 4)):
        i = r.randrange(len(found))
        match r.randrange(3):
            case 0:
                found[i] = r.randrange(256)
            case 1:
                del found[i : i + r.randint(1, 30)]
            case _:
                found[i:i] = r.randbytes(r.randint(1, 4))
    return bytes(found) or b"x"


def nodes(data: bytes, r: random.Random) -> bytes:
    """Drop, repeat, rename or replace nodes of a JSON document."""
    document = json.loads(data)
    for _ in range(r.randint(1, 3)):
        places = [*walk(document)]
        if not places:
            break
        owner, key = r.choice(places)
        match r.randrange(6):
            case 0:
                del owner[key]
            case 1 if isinstance(owner, list):
                owner.insert(r.randint(0, len(owner)), owner[key])
            case 2 if isinstance(owner, dict):
                owner[key[:-1] if r.random() < 0.5 else f"{key}s"] = owner.pop(key)
            case 3:
                other, at = r.choice(places)
                owner[key] = json.loads(json.dumps(other[at]))
            case 4 if isinstance(owner[key], str) and owner[key]:
                owner[key] = digit(owner[key].encode(), r).decode()
            case _:
                owner[key] = json.loads(json.dumps(r.choice(ODD)))
    return json.dumps(document, indent=2).encode()


def walk(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(items):
        yield value, key
        if isinstance(item, dict | list):
            yield from walk(item)


def check(name: str, data: bytes) -> bool:
    """Whether it was accepted; whatever was must hold by rules written here anew."""
    try:
        done = read(data, name)
    except ImportInvalid as invalid:
        wordless = [f for f in invalid.findings if not f.what or f.place is None]
        assert not wordless
        return False
    text = data.decode()
    if done.format == "source-lock":
        assert done.document.render() == text
        source_lock_holds(text)
    else:
        pairs: list[list[str]] = []
        document = json.loads(
            text, object_pairs_hook=lambda p: pairs.append([k for k, _ in p]) or dict(p)
        )
        assert all(len(set(keys)) == len(keys) for keys in pairs)
        assert json.loads(done.document.render()) == document
        json_holds(done.format, document)
    tables = {c.name: c.table for c in done.document.claims().sources}
    assert done.document.moved(tables)[0].render() == done.document.render()
    lane_reads(done)
    return True


def source_lock_holds(text: str) -> None:
    rows = [row.partition("=") for row in text.split("\n") if row and not row.startswith("#")]
    rows = [row for row in rows if row[1]]
    values = {key: value for key, _, value in rows}
    assert text.startswith("format=local-inference-source-lock/v1\n")
    assert len(values) == len(rows)
    known = r"(vllm|b12x|lmcache)\.(package\.tree|tree|commit)|vllm\.native\.(csrc|cmake)\.tree"
    for key, value in values.items():
        assert not re.fullmatch(known, key) or re.fullmatch("[0-9a-f]{40}", value), (key, value)
    for name in ("vllm", "lmcache"):
        version, commit = values.get(f"{name}.version"), values.get(f"{name}.commit")
        tail = re.search(r"\.(?:vllm)?([0-9a-f]{7,40})$", version or "")
        if tail and commit:
            assert commit.startswith(tail[1]), (version, commit)
    words = values.get("runtime.cache.fingerprint", "")
    for word, key in (
        ("vllm", "vllm.package.tree"), ("b12x", "b12x.package.tree"), ("fi", "flashinfer.commit"),
        ("lmcache", "lmcache.package.tree"), ("flashkda", "flashkda.extension.sha256"),
        ("native", "vllm.native.extension.sha256"),
    ):  # fmt: skip
        if words and key in values:
            assert f"-{word}{values[key][:8]}" in words, (words, key)


def json_holds(kind: str, document: Any) -> None:
    pulls = document.get("pull_requests", [])
    assert len({p["number"] for p in pulls}) == len(pulls)
    assert len({p["head"] for p in pulls}) == len(pulls)
    for pull in pulls:
        assert pull["number"] > 0
        assert re.fullmatch("[0-9a-f]{40}", pull["head"])
        assert pull.get("ref") in (None, f"refs/pull/{pull['number']}/head")
        if document.get("composition_strategy", "merge") == "merge":
            assert pull.get("commits", [pull["head"]]) in ([], [pull["head"]])
    if kind == "integration-lock":
        assert re.fullmatch("[0-9a-f]{40}", document["result"]["tree"])
        pinned = document.get("composition_strategy") == "pinned_branch"
        assert pinned == (document.get("composition") is not None)
    if kind == "merge-stack":
        last = pulls[-1]["merge_commit"] if pulls else document["upstream_base"]["commit"]
        if not document.get("qualification_candidate_commits"):
            assert document["source"]["commit"] == last
    if kind == "manifest":
        excluded = [e["number"] for e in document.get("reviewed_exclusions", [])]
        assert len(set(excluded)) == len(excluded)
        assert not set(excluded) & {p["number"] for p in pulls}


def lane_reads(done: Read) -> None:
    """Whatever is accepted gives a lane that reads back as it was meant."""
    urls = {c.name: "https://x.org/x" for c in done.document.claims().sources if not c.table.url}
    made = draft(merge([done], urls), [done], Wanted("x", "x", "12.1a", ("linux/arm64",)))
    text = lane_text(made.lane, head=["x"], remarks=made.remarks)
    reader = Reader(Path("x.toml"), "x")
    lane = reader.read(Lane, tomllib.loads(text))
    assert reader.findings == []
    assert lane is not None
    assert lane.sources == made.lane.sources
    assert lane.base == made.lane.base
    assert lane.imported == made.lane.imported


MUTATORS: list[tuple[list[tuple[str, bytes]], Callable[[bytes, random.Random], bytes]]] = [
    (LOCKS, lines), (ALL, lines), (JSON, nodes), (JSON, nodes), (ALL, octets),
]  # fmt: skip


@settings(
    max_examples=COUNT, deadline=None, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(st.integers(0, 2**63))
def test_mutations(seed: int) -> None:
    r = random.Random(seed)
    files, mutate = r.choice(MUTATORS)
    name, data = r.choice(files)
    check(name, mutate(data, r))


@settings(max_examples=max(COUNT // 10, 200), deadline=None, database=None)
@given(st.binary(max_size=400))
def test_noise(data: bytes) -> None:
    check("x", data)
    check("x", b"format=local-inference-source-lock/v1\n" + data)


@pytest.mark.parametrize("name", [name for name, _ in ALL])
def test_the_oracle_accepts_what_was_published(name: str) -> None:
    assert check(name, dict(ALL)[name])
