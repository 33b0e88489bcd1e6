"""Mutated lanes and locks: read as what they say, or refused with findings; nothing else.

IMGBUILD_EXAMPLES=100000 is the long run (half an hour on one core).
"""

from __future__ import annotations

import copy
import os
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builder.cli import findings
from builder.errors import ImgbuildError
from builder.model.lock import Lock
from builder.model.schema import plain
from builder.pipeline.lockmerge import lock_merge
from builder.steps import identity
from builder.steps.lanes import lock_of, read_lane
from tests.unit.locks import lane_table, lock_table, quick_text

EXAMPLES = int(os.environ.get("IMGBUILD_EXAMPLES", "300"))
LOCK = Path("locks/demo.lock")
LIMIT_S = 2.0  # of the processor's time: a busy machine is no hang
QUICK = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))

pytestmark = pytest.mark.timeout(0 if EXAMPLES > 10_000 else 900)

ODD: list[Any] = [
    "", "-x", "--upload-pack=x", "../x", "/etc/passwd", ".git/config", "a\x1b]52;c;x\x07", "\u202e",
    "ext::sh -c id", "https://me:secret@h/x", "sha256:" + "0" * 63, "0" * 39, "0" * 41, "F" * 40,
    "x" * 70000, "NaN", "true", "é", "a/../b", "a//b", "file:///x", 0, -1, 2**63, 1.5, float("nan"),
    True, [], {}, [[]], [{}], {"": ""}, {"a": {"b": {"c": 1}}}, ["x", 1],
]  # fmt: skip
PIECES = [
    b"", b"\n", b"[", b"]]", b'"', b"=", b"\x00", b"[[" * 40, b"<<<<<<< a\n", b"'''", b"#", b"\xff",
    b"1e999", b"\xef\xbb\xbf", b"9" * 5000, b"0x" + b"f" * 5000,
]  # fmt: skip
LOCK_TEXT = tomlkit.dumps(lock_table()).encode()
LANE_TEXT = tomlkit.dumps(lane_table()).encode()


class Folder:
    """A project with one lane and a Dockerfile."""

    root = Path("/nowhere")

    def __init__(self, lane: bytes) -> None:
        self.held = {"locks/demo.toml": lane, "docker-images/demo/Dockerfile": b"FROM scratch\n"}

    def read(self, path: str) -> bytes | None:
        return self.held.get(path)

    def write(self, path: str, data: bytes) -> None:
        raise AssertionError(path)

    def files(self, folder: str) -> tuple[tuple[str, bool], ...] | None:
        found = [p[len(folder) + 1 :] for p in self.held if p.startswith(f"{folder}/")]
        return tuple((p, False) for p in sorted(found)) or None


def spots(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner: list[tuple[Any, ...]] = [at] if at else []
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            inner += spots(item, (*at, key))
    return inner


@st.composite
def tables(draw: Any, table: dict[str, Any]) -> dict[str, Any]:
    """The table with a few values changed, moved, removed, renamed or added."""
    found = copy.deepcopy(table)
    for _ in range(draw(st.integers(1, 3))):
        *above, last = draw(st.sampled_from(spots(found)))
        parent = found
        for part in above:
            parent = parent[part]
        what = draw(st.sampled_from(["odd", "text", "remove", "rename", "copy", "add"]))
        if what == "odd":
            parent[last] = copy.deepcopy(draw(st.sampled_from(ODD)))
        elif what == "text":
            parent[last] = draw(st.text(max_size=12))
        elif what == "copy":
            *from_, end = draw(st.sampled_from(spots(table)))
            value: Any = table
            for part in (*from_, end):
                value = value[part]
            parent[last] = copy.deepcopy(value)
        elif what == "remove":
            del parent[last]
        elif isinstance(parent, dict):
            name = draw(st.sampled_from(["", "x", "Commit", "..", "a b", "é", "-", "x" * 99]))
            parent[name] = parent.pop(last) if what == "rename" else copy.deepcopy(parent[last])
        if not found:
            break
    return found


@st.composite
def bytes_of(draw: Any, text: bytes) -> bytes:
    """The text with bytes changed, cut, doubled or put in."""
    found = bytearray(text)
    for _ in range(draw(st.integers(1, 4))):
        i = draw(st.integers(0, len(found)))
        j = min(len(found), i + draw(st.integers(0, 60)))
        same = st.just(bytes(found[i:j]) * 2)
        new = draw(st.one_of(st.binary(max_size=4), same, st.sampled_from(PIECES)))
        found[i:j] = new
    return bytes(found)


def judged(read: Any) -> Any:
    """What was read; None when it was refused as it should be."""
    begun = time.process_time()
    try:
        return read()
    except ImgbuildError as error:
        refused = error
    finally:
        assert time.process_time() - begun < LIMIT_S
    assert refused.exit_code == 3
    assert refused.findings
    for line in findings.lines(refused.findings):
        assert "\x1b" not in line
        assert "\u202e" not in line
    return None


def check_lock(read: Any) -> None:
    """A lock that is accepted says what its table says, and nothing dangerous."""
    lock: Lock | None = judged(read)
    if lock is None:
        return
    again = tomllib.loads(tomlkit.dumps(plain(lock)))
    assert lock_of(again, LOCK, "demo", whole=False) == lock
    for entry in (*lock.sources.values(), *lock.deps.values()):
        assert len(entry.commit) in (40, 64)
        assert set(entry.commit) <= set("0123456789abcdef")
        assert not entry.url.startswith(("-", "ext:", "fd:"))
        assert "@" not in entry.url.partition("://")[2].partition("/")[0] or "ssh" in entry.url
        for path in entry.submodules:
            assert ".." not in path.split("/")
            assert not path.startswith("/")
    for package in (*lock.python.values(), *lock.debs.values()):
        for file in package.platforms.values():
            assert ".." not in file.filename.split("/")
            assert not file.filename.startswith("/")


def check_lane(text: bytes) -> None:
    read = judged(lambda: read_lane("demo", project=Folder(text)))
    if read is None:
        return
    assert read.lane.sources
    for source in (*read.lane.sources.values(), *read.lane.own_deps.values()):
        assert not source.url.startswith(("-", "ext:", "fd:"))
        assert source.commit is not None or source.track.ref is not None
    lock = lock_of(LOCK_TEXT, LOCK, "demo")
    assert identity.build_id(read.lane, lock) == identity.build_id(read.lane, lock)


def test_the_tables_that_are_mutated_are_good() -> None:
    assert lock_of(LOCK_TEXT, LOCK, "demo").sources
    lane = lane_table()
    lane["platforms"] = ["linux/amd64"]  # a rootfs serves one
    assert read_lane("demo", project=Folder(tomlkit.dumps(lane).encode()))


@QUICK
@given(tables(lock_table()))
def test_locks_with_other_values(table: dict[str, Any]) -> None:
    check_lock(lambda: lock_of(table, LOCK, "demo"))


@QUICK
@given(bytes_of(LOCK_TEXT))
def test_locks_with_other_bytes(text: bytes) -> None:
    check_lock(lambda: lock_of(text, LOCK, "demo"))


@QUICK
@given(bytes_of(LANE_TEXT))
def test_lanes_with_other_bytes(text: bytes) -> None:
    check_lane(text)


@QUICK
@given(tables(lane_table()))
def test_lanes_with_other_values(table: dict[str, Any]) -> None:
    try:
        text = quick_text(table)
        tomllib.loads(text.decode())
    except Exception:  # not every value can be written
        return
    check_lane(text)


@settings(parent=QUICK, max_examples=max(50, EXAMPLES // 20))
@given(bytes_of(LOCK_TEXT), bytes_of(LOCK_TEXT), bytes_of(LOCK_TEXT))
def test_merges_of_anything_end_in_a_lock_or_in_markers(a: bytes, b: bytes, c: bytes) -> None:
    done = lock_merge(a, b, c, path=LOCK)
    if done.findings:
        assert done.text.startswith((b"<<<<<<<", b"#"))
    else:
        lock_of(done.text, LOCK, "demo")


@pytest.mark.parametrize("text", [b"x = " + b"[" * 100_000, b"[" + b"a." * 10_000 + b"a]"])
def test_deep_nesting_is_refused(text: bytes) -> None:
    judged(lambda: lock_of(text, LOCK, "demo"))
