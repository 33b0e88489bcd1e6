"""The check of a tree, against known tricks and against a real file system."""

import os
import tempfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.model.values import TreeEntry
from builder.steps import trees


def entries(*paths: str, mode: str = "100644") -> list[TreeEntry]:
    return [TreeEntry(mode, "0" * 40, path) for path in paths]


@pytest.mark.parametrize(
    "path",
    [
        "../x", "a/../b", "/etc/passwd", "a//b", "", "a/", ".", "a/./b",
        ".git", "a/.git/config", ".GIT/x", ".Git", "git~1", "GIT~1/hooks", ".git ", ".git.",
        ".git...", ".git::$INDEX_ALLOCATION", ".g\u200cit", "\ufeff.git", ".gi\u200dt/hooks",
        "a\nb", "a\x1b]52;c", "a\x7f", "a\\b", "..\\x",
    ],
)  # fmt: skip
def test_unsafe_names_are_found(path: str) -> None:
    assert list(trees.names(entries(path)))


@pytest.mark.parametrize(
    "path",
    [".gitignore", ".github/x.yml", "git", "a.git/x", "...", "..a", "übersicht", "a b", "~", "$x"],
)
def test_common_names_are_safe(path: str) -> None:
    assert list(trees.names(entries(path))) == []


def test_collisions() -> None:
    assert list(trees.names(entries("a", "a"))) == ["a: there 2 times"]
    assert list(trees.names(entries("a", "a/b"))) == ["a: a file and a folder at once"]
    assert list(trees.names(entries("Makefile", "makefile"))) == [
        "makefile: differs from Makefile in case or Unicode form only"
    ]
    assert list(trees.names(entries("Src/a", "src/b"))) == [
        "src: differs from Src in case or Unicode form only"
    ]
    assert len(list(trees.names(entries("u\u0308", "ü")))) == 1
    assert list(trees.names(entries("a", "b", mode="100600"))) == [
        "a: unknown mode 100600",
        "b: unknown mode 100600",
    ]


@pytest.mark.parametrize(
    ("links", "says"),
    [
        ({"a": b"/etc"}, "is absolute"),
        ({"a": b".."}, "leaves the tree"),
        ({"d/a": b"../../x"}, "leaves the tree"),
        ({"d/a": b"../x"}, None),
        ({"a": b"b", "b": b"d/../../x"}, "leaves the tree"),
        ({"a": b"b/../../..", "b": b"d/e"}, "leaves the tree"),
        ({"a": b"b/..", "b": b"d/e"}, None),  # b is d/e: above it is d
        ({"a": b"a"}, "runs in a circle"),
        ({"a": b"b", "b": b"a"}, "runs in a circle"),
        ({"a": b"\xff"}, "not UTF-8"),
        ({"a": b"nowhere/at/all"}, None),
    ],
)
def test_symlinks(links: dict[str, bytes], says: str | None) -> None:
    found = [what for what in trees.leaving(links) if what.startswith("a:") or "d/a" in what]
    assert (not found) if says is None else (says in found[0])


_part = st.sampled_from(["a", "b", "c"])
_target = st.lists(st.sampled_from(["..", ".", "a", "b", "c"]), min_size=1, max_size=5).map(
    "/".join
)
_links = st.dictionaries(st.lists(_part, min_size=1, max_size=3).map("/".join), _target, max_size=5)


@settings(max_examples=150, deadline=None)
@given(_links)
def test_symlinks_resolve_as_the_kernel_does(links: dict[str, str]) -> None:
    """What we call safe never leads out of the folder on a real file system."""
    links = {p: t for p, t in links.items() if not any(q in links for q in trees.parents(p))}
    judged = {
        what.partition(":")[0] for what in trees.leaving({p: t.encode() for p, t in links.items()})
    }
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "x", "y", "root").resolve()
        for path in links:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
        root.mkdir(parents=True, exist_ok=True)
        for path, target in links.items():
            (root / path).symlink_to(target)
        for path in set(links) - judged:
            where = os.path.realpath(root / path)
            assert where == str(root) or where.startswith(f"{root}/")


@given(st.text(alphabet=st.sampled_from(list(".gitGIT~1 :\u200cx")), max_size=8))
def test_dot_git_is_found_in_any_dress(name: str) -> None:
    if name.strip("\u200c").lower() in (".git", "git~1"):
        assert trees.is_dot_git(name)


def test_desktop_files() -> None:
    assert trees.is_desktop_file("a/._b")
    assert trees.is_desktop_file(".DS_Store")
    assert trees.is_desktop_file("._d/x")
    assert not trees.is_desktop_file("a._b")
    assert not trees.is_desktop_file("a.DS_Store")


@pytest.mark.parametrize("shape", ["one chain", "many chains"])
def test_trees_of_thousands_of_levels(shape: str) -> None:
    """They are small in git, where trees can be shared, and must not be here as many strings."""
    deep = "/".join("d" * 1800)
    paths = {
        "one chain": [f"{deep}/f{i}" for i in range(20_000)],
        "many chains": [f"t{i}/{deep}/f" for i in range(300)],
    }[shape]
    tracemalloc.start()
    found = list(trees.names(entries(*paths)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 250_000_000  # bytes, with the paths themselves
    if shape == "one chain":
        assert found == []
    else:
        (told,) = found
        assert told.endswith("below more than 250,000 folders")
