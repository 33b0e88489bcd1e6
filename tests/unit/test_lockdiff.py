"""What a comparison of lanes says, at a glance and in detail."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

from builder.cli import diff_text
from builder.model.lane import Lane
from builder.model.schema import Reader
from builder.steps.lanes import lock_of
from builder.steps.lockdiff import LaneDiff, diff
from builder.steps.lockdiff_facts import Side
from tests.unit.locks import DIGESTS, OBJECTS, lane_table, lock_table


def lane() -> dict[str, Any]:
    table = lane_table()
    table["sources"] = {
        name: {"url": f"https://example.org/{name}.git", "commit": OBJECTS[i]}
        for i, name in enumerate(("vllm", "b12x", "flashinfer"))
    }
    table["sources"]["vllm"] |= {
        "native": ["csrc", "CMakeLists.txt"], "tree": OBJECTS[4],
        "parts": {"csrc": OBJECTS[5], "CMakeLists.txt": OBJECTS[6], "vllm": OBJECTS[7]},
    }  # fmt: skip
    table["base"] = {"runtime": {"ref": f"debian@{DIGESTS[1]}"}}
    for unwanted in ("deps", "python", "debs", "gates", "env"):
        table[unwanted] = [] if unwanted == "gates" else {}
    return table


def side(table: dict[str, Any], lock: dict[str, Any] | None = None, title: str = "a") -> Side:
    reader = Reader(Path("x"), "x")
    read = reader.read(Lane, table)
    assert read is not None, reader.findings
    held = lock_of(lock, Path("locks/a.lock"), "a") if lock else None
    return Side(title, read, (), held, build_id="0" * 64 if lock else "", image=DIGESTS[0])


def compared(before: Side, after: Side) -> tuple[LaneDiff, str]:
    found = diff(before, after)
    return found, diff_text.headline(found)


def test_lanes_without_a_lock_at_a_glance() -> None:
    newer = lane()
    newer["sources"]["vllm"] |= {"commit": OBJECTS[8], "tree": OBJECTS[9]}
    newer["sources"]["b12x"]["commit"] = OBJECTS[8]
    found, said = compared(side(lane()), side(newer, title="b"))
    assert said == (
        "vllm, b12x moved; flashinfer and the native part of vllm the same; "
        "native of b12x not declared; deps identical (none named)"
    )
    assert found.unknown == {
        "sources.vllm": ("submodules", "content"),
        "sources.b12x": ("tree", "result-tree", "submodules", "content"),
    }  # fmt: skip
    text = "\n".join(diff_text.text(found))
    assert "native       the same" in text
    assert re.search("native +not declared", text)
    assert "not compared (a and b without a lock" in text


def test_a_native_part_that_changed_or_is_not_known() -> None:
    newer = lane()
    newer["sources"]["vllm"] |= {
        "commit": OBJECTS[8],
        "parts": {"csrc": OBJECTS[9], "CMakeLists.txt": OBJECTS[6]},
    }
    assert "native part of vllm changed" in compared(side(lane()), side(newer))[1]
    newer["sources"]["vllm"]["parts"] = {"csrc": OBJECTS[5]}
    assert "native part of vllm not known" in compared(side(lane()), side(newer))[1]


def test_an_unpinned_commit_is_not_called_the_same() -> None:
    newer = lane()
    newer["sources"]["b12x"] = {"url": "https://example.org/b12x.git", "track": {"branch": "main"}}
    found, said = compared(side(lane()), side(newer))
    assert "b12x not comparable" in said
    assert found.same


def locked_lane() -> dict[str, Any]:
    table = lane_table()
    table["sources"]["kern"].pop("compose")
    return table


def test_locks_say_what_moved_and_what_did_not() -> None:
    ours, theirs = lock_table(), lock_table()
    for lock in (ours, theirs):
        lock["debs"].pop("liburing-dev")
        lock["python"].pop("nvcc")
    theirs["sources"]["loader"] |= {"commit": OBJECTS[8], "url": "./sources/other.git"}
    theirs["sources"]["kern"]["patches"][0]["sha256"] = DIGESTS[8]
    theirs["sources"]["kern"]["final"] |= {"tree": OBJECTS[8], "rest": DIGESTS[8]}
    theirs["deps"]["tinyfmt"]["commit"] = OBJECTS[8]
    theirs["debs"]["liburing2"]["version"] = "2.9-1"
    newer = locked_lane()
    newer["tags"] = ["one"]
    newer["build"]["args"] = {"MAX_JOBS": "8", "NEW": "1"}
    found, said = compared(side(locked_lane(), ours), side(newer, theirs))
    assert said == (
        "loader moved; kern changed; all native parts the same; deps: 1 moved: tinyfmt; "
        "debs: 1 changed: liburing2; build arguments: 1 changed, 1 added: MAX_JOBS, NEW; "
        "lane: 1 changed: tags"
    ).replace("1 changed, 1 added: MAX_JOBS, NEW", "1 changed: MAX_JOBS, 1 added: NEW")
    theirs["sources"]["loader"]["final"] = {"tree": OBJECTS[9], "content": DIGESTS[9]}
    _, other = compared(side(locked_lane(), ours), side(newer, theirs))
    assert "the native part of kern the same; native of loader not declared; deps: 1" in other
    states = {(e.kind, e.name): e.state for e in found.entries}
    assert states["deps", "kern-cmake"] == "same"
    assert states["base", "runtime"] == "same"
    text = "\n".join(diff_text.text(found))
    assert "version  2.3-3 → 2.9-1" in text
    assert " ./sources/loader.git → ./sources/other.git" in text
    markdown = "\n".join(diff_text.markdown(found))
    assert "| sources | | |" in markdown
    report = diff_text.as_json(found)
    assert report["same"] is False
    assert {e["name"] for e in report["entries"] if e["state"] == "moved"} == {"loader", "tinyfmt"}


def test_a_state_of_a_patch_that_changed() -> None:
    theirs = lock_table()
    theirs["sources"]["kern"]["patches"][0]["state"] = "already-there"
    found, said = compared(side(locked_lane(), lock_table()), side(locked_lane(), theirs))
    assert said.startswith("kern changed; loader and all native parts the same;")
    assert "patch-states  " in (text := "\n".join(diff_text.text(found)))
    assert "0001-a.patch: applied → already-there" in text


def test_the_same_twice_says_so() -> None:
    found, said = compared(side(locked_lane(), lock_table()), side(locked_lane(), lock_table()))
    assert found.same
    assert said == "kern, loader and all native parts the same; deps identical"
    assert found.unknown == {}


def test_what_comes_and_goes() -> None:
    newer = copy.deepcopy(lane())
    newer["sources"]["new"] = newer["sources"].pop("b12x")
    newer["debs"] = {"x": {"package": "liburing2"}}
    _, said = compared(side(lane()), side(newer))
    assert "new added; b12x removed" in said
    assert "debs: 1 added: x" in said
