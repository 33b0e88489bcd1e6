"""The strict reader: all findings, with key and near match."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.model.ids import ObjectId, RelPath, is_ref, is_relative_path, is_url
from builder.model.lane import Lane
from builder.model.lock import Lock
from builder.model.schema import Reader, plain, quoted


@dataclass(frozen=True, slots=True)
class Part:
    commit: ObjectId
    native_paths: tuple[RelPath, ...] = ()


@dataclass(frozen=True, slots=True)
class Whole:
    schema: Literal[1]
    name: str
    parts: Mapping[str, Part]
    count: int = 0
    flag: bool = False
    submodules: Literal["all", "none"] | tuple[RelPath, ...] = "all"
    extra: Part | None = None
    notes: Mapping[str, str] = field(default_factory=dict)


COMMIT = "b40673cd006bf3496fdd70361dad2ad29eff54e7"


def read(text: str) -> tuple[Whole | None, list[tuple[str, str]]]:
    reader = Reader(Path("x.toml"), "lane-invalid")
    value = reader.read(Whole, tomllib.loads(text))
    return value, [(f.what, f.hint) for f in reader.findings]


def test_a_good_table_is_read_and_written_back() -> None:
    text = f"""
    schema = 1
    name = "n"
    submodules = ["a/b"]
    parts.x = {{ commit = "{COMMIT}", native-paths = ["csrc"] }}
    """
    value, findings = read(text)
    assert findings == []
    assert value == Whole(1, "n", {"x": Part(COMMIT, ("csrc",))}, submodules=("a/b",))
    assert plain(value) == {
        "schema": 1,
        "name": "n",
        "submodules": ["a/b"],
        "parts": {"x": {"commit": COMMIT, "native-paths": ["csrc"]}},
    }


def test_all_findings_come_at_once() -> None:
    _, findings = read(
        """
        schema = 2
        nme = "n"
        count = "3"
        flag = 1
        submodules = "al"
        parts.x = { commit = "b40673c", native-paths = ["../up"], native_paths = [] }
        """
    )
    assert findings == [
        ("nme: unknown key", "did you mean 'name'?"),
        ("schema: must be one of 1, not 2", ""),
        ("name: is missing", ""),
        ("parts.x.native_paths: unknown key", "did you mean 'native-paths'?"),
        (
            "parts.x.commit: must be a full object id, 40 or 64 lower-case hex digits, "
            "not 'b40673c'",
            "git rev-parse b40673c prints it, in a clone of that repository; or name a branch or "
            'tag instead (track = { branch = "…" }), and imgbuild lock LANE finds its commit',
        ),
        (
            "parts.x.native-paths[0]: must be a path below the root, without '..', '.git' and "
            "empty parts, not '../up'",
            "",
        ),
        ("count: must be a whole number, not '3'", ""),
        ("flag: must be true or false, not 1", ""),
        ("submodules: must be one of 'all', 'none', not 'al'", "did you mean 'all'?"),
    ]


def test_a_number_is_not_true() -> None:
    _, findings = read('schema = true\nname = "n"\ncount = true\nparts = {}')
    assert [what for what, _ in findings] == [
        "schema: must be one of 1, not True",
        "count: must be a whole number, not True",
    ]


@pytest.mark.parametrize(
    ("url", "holds"),
    [
        ("https://example.org/a/b.git", True),
        ("ssh://git@example.org/a/b.git", True),
        ("git@example.org:a/b.git", True),
        ("./.demo/sources/kern.git", True),
        ("file:///srv/git/a.git", True),
        ("https://user:secret@example.org/a.git", False),
        ("https://token@example.org/a.git", False),
        ("http://example.org/a.git", False),
        ("ext::sh -c whoami", False),
        ("ext::sh", False),
        ("fd::3", False),
        ("file::/x", False),
        ("--upload-pack=x", False),
        ("-oProxyCommand=x", False),
        ("ssh://-oProxyCommand=x/a", False),
        ("git@-oProxyCommand=x:a", False),
        ("git@host:-x", False),
        ("https://example.org/a b", False),
        ("https://example.org/a\nb", False),
        ("https://example.org/a.git?access_token=x", False),
        ("https://example.org/a.git#x", False),
        ("git@example.org:a.git?x", False),
        ("./a?x", False),
        ("https:///a", False),
        ("https://example.org:port/a", False),
        ("", False),
    ],
)
def test_urls(url: str, holds: bool) -> None:
    assert is_url(url) is holds


@pytest.mark.parametrize(
    "ref", ["main", "dev/jovian-judgement", "v0.6.17", "HEAD", "refs/heads/a/-b"]
)
def test_refs(ref: str) -> None:
    assert is_ref(ref)


@pytest.mark.parametrize(
    "ref",
    [
        "",
        "-x",
        "a..b",
        "a b",
        "a~1",
        "a.lock",
        "/a",
        "a/",
        "a\n",
        "@{1}",
        "refs/heads/-x",
        "refs/tags/-x",
        "refs/heads/",
    ],
)
def test_bad_refs(ref: str) -> None:
    assert not is_ref(ref)


@pytest.mark.parametrize(
    "path", ["", "/a", "a/", "a//b", "../a", "a/../b", ".", "a/.git/b", ".GIT", "a\0"]
)
def test_bad_paths(path: str) -> None:
    assert not is_relative_path(path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(json_values, st.sampled_from([Lane, Lock, Whole]))
def test_no_value_breaks_the_reader(raw: object, kind: type) -> None:
    reader = Reader(Path("x"), "x")
    value = reader.read(kind, raw)
    assert (value is None) == bool(reader.findings)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("https://me:secret@h/x", "'https://…@h/x'"),
        ("https://h/x.git?access_token=secret", "'https://h/x.git?…'"),
        ("https://h/x.git#secret?secret", "'https://h/x.git#…'"),
        ("git@h:x?secret", "'git@h:x?…'"),
        ("https://h?secret", "'https://h?…'"),
        ("no address # of a thing?", "'no address # of a thing?'"),
        ("x" * 100, f"'{'x' * 76}…"),
    ],
)
def test_a_refused_value_is_shown_without_its_secrets(value: str, shown: str) -> None:
    assert quoted(value) == shown
