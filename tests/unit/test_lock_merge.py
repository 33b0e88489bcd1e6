"""The merge driver: disjoint edits merge, nothing invalid ever ends with 0."""

from __future__ import annotations

import copy
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builder.errors import ImgbuildError
from builder.pipeline.lockmerge import Outcome, lock_merge
from builder.steps import lockmerge
from builder.steps.lanes import lock_of
from builder.steps.lockmerge import entries
from builder.tools.toml import lock_text
from tests.unit.locks import DIGESTS, OBJECTS, lock_table, quick_text

PATH = Path("locks/demo.lock")
EXAMPLES = int(os.environ.get("IMGBUILD_EXAMPLES", "300"))


def text(table: dict[str, Any]) -> bytes:
    return lock_text(lock_of(tomlkit.dumps(table).encode(), PATH, "demo"), "demo").encode()


def merge(base: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any]) -> Outcome:
    return lock_merge(text(base), text(ours), text(theirs), path=PATH)


def changed(table: dict[str, Any], *changes: tuple[str, Any]) -> dict[str, Any]:
    found = copy.deepcopy(table)
    for dotted, value in changes:
        *above, last = dotted.split("/")
        at = found
        for part in above:
            at = at.setdefault(part, {})
        if value is None:
            del at[last]
        else:
            at[last] = value
    return found


BASE = lock_table()
QUICK_BASE = quick_text(BASE)


def test_edits_of_two_entries_merge_to_what_lock_would_write() -> None:
    ours = changed(
        BASE, ("sources/kern/commit", OBJECTS[5]), ("sources/kern/final/tree", OBJECTS[6])
    )
    theirs = changed(
        BASE, ("python/crt/version", "13.6"), ("sources/new", BASE["sources"]["loader"])
    )
    done = merge(BASE, ours, theirs)
    assert done.findings == ()
    both = changed(ours, ("python/crt/version", "13.6"), ("sources/new", BASE["sources"]["loader"]))
    assert done.text == text(both)


def test_the_same_edit_on_both_sides_and_removals() -> None:
    ours = changed(BASE, ("sources/kern/commit", OBJECTS[5]), ("debs/liburing2", None))
    theirs = changed(BASE, ("sources/kern/commit", OBJECTS[5]), ("python/crt", None))
    done = merge(BASE, ours, theirs)
    assert done.findings == ()
    assert done.text == text(changed(ours, ("python/crt", None)))


def test_one_entry_changed_on_both_sides_has_markers_around_it_alone() -> None:
    ours = changed(BASE, ("sources/kern/commit", OBJECTS[5]), ("python/crt/version", "13.6"))
    theirs = changed(BASE, ("sources/kern/commit", OBJECTS[6]), ("debs/liburing2/version", "9"))
    done = merge(BASE, ours, theirs)
    assert [f.what for f in done.findings] == ["sources.kern was changed on both sides: commit"]
    assert done.findings[0].hint == "keep one side between the markers, then: imgbuild lock demo"
    lines = done.text.decode().splitlines()
    start, middle, end = (lines.index(m) for m in ("<<<<<<< ours", "=======", ">>>>>>> theirs"))
    assert lines[start + 1] == lines[middle + 1] == "[sources.kern]"
    assert sum(line.startswith("<<<<<<<") for line in lines) == 1
    for drop in (slice(middle, end + 1), slice(start, middle + 1)):
        kept = [
            x for x in lines[: drop.start] + lines[drop.stop :] if x[:7] not in ("<" * 7, ">" * 7)
        ]
        table = tomllib.loads("\n".join(kept))
        assert table["python"]["crt"]["version"] == "13.6"
        assert table["debs"]["liburing2"]["version"] == "9"
    with pytest.raises(ImgbuildError, match="not TOML") as error:
        lock_of(done.text, PATH, "demo")
    assert "unfinished merge" in error.value.findings[0].hint
    assert "keep one side between the markers, then: imgbuild lock " in error.value.findings[0].hint


def test_values_that_may_follow_from_each_other_are_no_disjoint_edits() -> None:
    ours = changed(BASE, ("sources/kern/intent", DIGESTS[5]))
    theirs = changed(BASE, ("sources/kern/final/content", DIGESTS[6]))
    done = merge(BASE, ours, theirs)
    assert [f.what for f in done.findings] == [
        "sources.kern was changed on both sides, in values that may follow from each other"
    ]


def test_removed_here_and_changed_there() -> None:
    done = merge(BASE, changed(BASE, ("debs/liburing2", None)),
                 changed(BASE, ("debs/liburing2/version", "9")))  # fmt: skip
    assert [f.what for f in done.findings] == [
        "debs.liburing2 was removed on one side and changed on the other"
    ]
    assert b"<<<<<<< ours\n=======\n[debs.liburing2]\n" in done.text


def test_platforms_of_one_version_merge_and_of_two_do_not() -> None:
    arm = {"filename": "crt-arm.whl", "sha256": DIGESTS[7], "size": 7}
    held = BASE["python"]["crt"]["platforms"]
    ours = changed(BASE, ("python/crt/platforms", {**held, "linux/arm64": arm}))
    amd = {**BASE["python"]["crt"]["platforms"]["linux/amd64"], "size": 9}
    theirs = changed(BASE, ("python/crt/platforms", {"linux/amd64": amd}))
    done = merge(BASE, ours, theirs)
    assert done.findings == ()
    held = tomllib.loads(done.text.decode())["python"]["crt"]["platforms"]
    assert held == {"linux/amd64": amd, "linux/arm64": arm}
    newer = changed(BASE, ("python/crt/version", "14"))
    assert merge(BASE, ours, newer).findings


def test_the_digest_of_the_deps_is_never_guessed() -> None:
    dep = BASE["deps"]["tinyfmt"]
    ours = changed(BASE, ("deps/a", {**dep, "into": "a"}), ("deps-archive/content", DIGESTS[5]))
    theirs = changed(BASE, ("deps/b", {**dep, "into": "b"}), ("deps-archive/content", DIGESTS[6]))
    one = merge(BASE, ours, BASE)
    assert (one.findings, one.text) == ((), text(ours))
    done = merge(BASE, ours, theirs)
    assert [f.what for f in done.findings] == [
        "deps-archive is left out: it follows from entries of both sides"
    ]
    table = tomllib.loads(done.text.decode())
    assert set(table["deps"]) == {"a", "b", "derived", "other", "tinyfmt"}
    assert "deps-archive" not in table
    with pytest.raises(ImgbuildError, match="deps tarball is missing") as error:
        lock_of(done.text, PATH, "demo")
    assert error.value.findings[0].hint.endswith("imgbuild lock demo")
    lock_of(done.text, PATH, "demo", whole=False)
    # both sides came to the same deps: theirs is the digest that changed
    assert merge(BASE, ours, changed(ours)).findings == ()


def test_a_lane_without_bases_settles_to_a_lock() -> None:
    base = {key: value for key, value in BASE.items() if key != "base"}
    ours, theirs = (changed(base, ("sources/kern/time", n)) for n in (1, 2))
    done = merge(base, ours, theirs)
    settled = re.sub(
        "<<<<<<< ours\n(.*)=======\n.*>>>>>>> theirs\n", r"\1", done.text.decode(), flags=re.S
    )
    assert lock_of(settled.encode(), PATH, "demo").sources["kern"].time == 1


def test_two_good_edits_that_do_not_go_together() -> None:
    dep = BASE["deps"]["tinyfmt"]
    ours = changed(BASE, ("python/x", BASE["python"]["crt"] | {"name": "x"}))
    theirs = changed(BASE, ("python/y", BASE["python"]["crt"] | {"name": "x"}))
    done = merge(BASE, ours, theirs)
    assert [f.what for f in done.findings] == [
        "python.x and python.y are both x", "python.y and python.x are both x",
    ]  # fmt: skip
    ours = changed(BASE, ("deps/a", {**dep, "into": "a"}))
    theirs = changed(BASE, ("deps/b", {**dep, "into": "a/b"}))
    assert "overlap below a/b" in merge(BASE, ours, theirs).findings[0].what


@pytest.mark.parametrize("bad", [b"", b"x = ", b"\xff", b"lock-version = 2\n", b"<<<<<<< a\n"])
def test_a_side_that_is_no_lock_ends_in_one_conflict(bad: bytes) -> None:
    done = lock_merge(text(BASE), bad, text(BASE), path=PATH)
    assert len(done.findings) == 1
    assert done.text.startswith(b"<<<<<<< ours\n")
    assert text(BASE) in done.text
    assert lock_merge(bad, text(BASE), text(BASE)).findings == ()


def test_both_new_and_the_lane_from_the_head() -> None:
    other = changed(BASE, ("python/crt/version", "14"))
    done = lock_merge(b"", text(BASE), text(other))
    assert "imgbuild lock demo" in done.findings[0].hint
    assert [f.what.split()[0] for f in done.findings] == ["python.crt"]


EDITS: list[tuple[str, ...]] = [
    *sorted(entries(BASE).keys() - {("lock-version",), ("deps-archive",)}),
    *((kind, "new") for kind in ("sources", "python", "debs", "deps", "base")),
]
"""What is edited: entries that are there, and new ones."""


def edits() -> st.SearchStrategy[list[tuple[tuple[str, ...], str]]]:
    what = st.sampled_from(["move", "remove", "touch"])
    return st.lists(st.tuples(st.sampled_from(EDITS), what), min_size=1, max_size=4)


def edited(
    table: dict[str, Any], made: list[tuple[tuple[str, ...], str]], side: int
) -> dict[str, Any]:
    """The lock after edits as `imgbuild lock` would make them: what follows is recomputed."""
    found = copy.deepcopy(table)
    for key, what in made:
        if key == ("image",):
            found["image"] = {"content": DIGESTS[side]}
            continue
        kind, name = key
        held = found.get(kind, {})
        if what == "remove" and name in held and len(held) > 1:
            del held[name]
            continue
        template = copy.deepcopy(held.get(name) or next(iter(BASE[kind].values())))
        if name not in held:
            template |= {"name": f"x-{name}"} if kind in ("python", "debs") else {}
            template |= {"into": f"x-{name}-{side}"} if kind == "deps" else {}
        template["intent"] = DIGESTS[side if what == "move" else side + 2]
        if "commit" in template:
            template["commit"] = OBJECTS[side]
        held[name] = template
        found[kind] = held
    if found["deps"] != table["deps"]:
        found["deps-archive"] = {"content": DIGESTS[side + 4]}
    return found


@settings(
    max_examples=max(EXAMPLES, 1000), suppress_health_check=[HealthCheck.too_slow], deadline=None
)
@given(edits(), edits())
def test_random_pairs_of_edits(mine: list[Any], yours: list[Any]) -> None:
    ours, theirs = edited(BASE, mine, 2), edited(BASE, yours, 3)
    done = lock_merge(QUICK_BASE, quick_text(ours), quick_text(theirs), path=PATH)
    was, a, b = entries(BASE), entries(ours), entries(theirs)
    both = {
        key for key in was.keys() | a.keys() | b.keys()
        if a.get(key) != was.get(key) and b.get(key) != was.get(key) and a.get(key) != b.get(key)
    }  # fmt: skip
    if not both:
        assert done.findings == ()
    if done.findings:
        assert both
        return
    lock_of(done.text, PATH, "demo")
    merged = entries(tomllib.loads(done.text.decode()))
    for key in merged.keys() | was.keys() | a.keys() | b.keys():
        sides = (a.get(key), b.get(key))
        if key == ("deps-archive",) and not any(k[0] == "deps" for k in merged):
            sides = (None, None)
        assert merged.get(key) in sides, key
        if a.get(key) == was.get(key):
            assert merged.get(key) == b.get(key)
        if b.get(key) == was.get(key):
            assert merged.get(key) == a.get(key)
    other_way = lockmerge.merge(BASE, theirs, ours).table
    assert full(other_way) == full(tomllib.loads(done.text.decode()))


def full(table: Mapping[str, Any]) -> dict[str, Any]:
    """Without the kinds of which nothing is left: `[base]` alone says no more than no line."""
    return {key: value for key, value in table.items() if value != {}}
