"""Patterns for paths of an image."""

from __future__ import annotations

import pytest

from builder.steps.gates.glob import Glob, is_glob, is_image_path, outermost


@pytest.mark.parametrize(
    ("text", "path", "holds"),
    [
        ("**/*.so", "libx.so", True),
        ("**/*.so", "usr/lib/a/libx.so", True),
        ("/**/*.so", "usr/lib/libx.so", True),
        ("**/*.so", "usr/lib/libx.so.1", False),
        ("lib/*.so", "lib/a/libx.so", False),
        ("lib/**", "lib/a/b", True),
        ("lib/**", "lib", False),
        ("lib/**/x/*.so", "lib/x/l.so", True),
        ("opt/?.so", "opt/a.so", True),
        ("opt/?.so", "opt//.so", False),
        ("opt/[!a-c].so", "opt/a.so", False),
        ("opt/[!a-c].so", "opt/d.so", True),
        ("opt/[!a]x", "opt/ax", False),
        ("opt/a+b.so", "opt/a+b.so", True),
        ("opt/*", "opt/.hidden", True),
        ("opt/[x", "opt/[x", True),
        ("opt/lib*.so", "opt/lib\nx.so", True),
    ],
)
def test_matches(text: str, path: str, holds: bool) -> None:
    assert is_glob(text)
    assert Glob(text).matches(path) is holds


def test_exact_has_no_special_characters() -> None:
    assert Glob("opt/[x]*", exact=True).matches("opt/[x]*")
    assert not Glob("opt/[x]*", exact=True).matches("opt/xy")


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("**/*.so", ""),
        ("/opt/demo/**/*.so", "opt/demo"),
        ("opt/d*/x", "opt"),
        ("/etc/x.conf", "etc/x.conf"),
    ],
)
def test_root(text: str, root: str) -> None:
    assert Glob(text).root == root


def test_outermost() -> None:
    assert outermost(["opt/a/b", "opt/a", "opt/a.b", "usr", "opt/a"]) == ("opt/a", "opt/a.b", "usr")
    assert outermost(["usr", "", "opt"]) == ("",)


@pytest.mark.parametrize(
    "text", ["", "/", "a//b", "../x", "a/./b", "a/", "x**/y", "opt/[z-a]", "a\nb"]
)
def test_no_patterns(text: str) -> None:
    assert not is_glob(text)


def test_a_path_is_no_pattern() -> None:
    assert is_image_path("/opt/x.so")
    assert not is_image_path("/opt/*.so")
