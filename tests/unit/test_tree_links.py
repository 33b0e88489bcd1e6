"""Symlinks of a tree, followed as Linux would."""

from __future__ import annotations

import time

import pytest

from builder.steps.tree_links import links_wrong


@pytest.mark.parametrize(
    ("links", "wrong"),
    [
        ({"a": "b/c", "d/e": "../f"}, {}),
        ({"a": "/etc"}, {"a": "is absolute"}),
        ({"a": ".."}, {"a": "leaves the tree"}),
        ({"d/a": "../..", "b": "d/a"}, {"d/a": "leaves the tree", "b": "leaves the tree"}),
        ({"a": "a"}, {"a": "runs in a circle"}),
        ({"a": "b", "b": "c", "c": "a/x", "d": "c"}, dict.fromkeys("abcd", "runs in a circle")),
        ({"d": "e/f", "x": "d/.."}, {}),  # .. of where d leads
        ({"d": "e", "x": "d/../.."}, {"x": "leaves the tree"}),
        ({"d": "e/f", "x": "d/../../y"}, {}),
        ({"d/l": "../e", "x": "d/l/../../y"}, {"x": "leaves the tree"}),
        ({"a": "./b//c/."}, {}),
    ],
)
def test_links(links: dict[str, str], wrong: dict[str, str]) -> None:
    assert dict(links_wrong(links)) == wrong
    assert dict(links_wrong(dict(reversed(links.items())))) == wrong


def test_as_many_links_as_linux_passes() -> None:
    chain = {f"l{i}": f"l{i + 1}" for i in range(60)}
    wrong = dict(links_wrong(chain))
    assert sorted(wrong, key=lambda name: int(name[1:])) == [f"l{i}" for i in range(19)]
    assert set(wrong.values()) == {"runs in a circle"}
    assert dict(links_wrong(dict(reversed(chain.items())))) == wrong


@pytest.mark.parametrize("shape", ["deep", "chain", "same"])
def test_thousands_of_long_links_take_a_moment(shape: str) -> None:
    deep = "d/" * 2000
    links = {
        "deep": {f"{deep[: 2 * (i % 1000)]}l{i}": f"{deep}x" for i in range(3000)},
        "chain": {f"l{i}": f"{deep}{'../' * 2000}l{i + 1}"[-4000:] for i in range(3000)},
        "same": {f"l{i}": "./" * 1900 + f"l{(i + 1) % 3000}" for i in range(3000)},
    }[shape]
    began = time.process_time()
    found = list(links_wrong(links))
    assert time.process_time() - began < 10
    assert bool(found) is (shape != "deep")
