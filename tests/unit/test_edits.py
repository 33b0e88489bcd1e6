"""Text edits as a kind of patch, and what stands in `patches.toml`."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.errors import Finding
from builder.model.patch_sets import Condition, TextEdit
from builder.steps.edits import edit
from builder.steps.patch_files import read_edits, read_options
from builder.steps.series import PatchSetInvalid, read_sets
from tests.unit.test_patch_sets import PATCH, Folder

FILE = Path("patches/kern/gb10/x")


def edited(text: bytes, *edits: tuple[str, str, int]) -> bytes | tuple[str, ...]:
    found = edit([TextEdit("f", *e) for e in edits], {"f": text})
    return tuple(map(str, found.wrong)) or found.files.get("f", b"already there")


@pytest.mark.parametrize(
    ("text", "edits", "after"),
    [
        (b"a b", [("b", "c", 1)], b"a c"),
        (b"b b", [("b", "c", 2)], b"c c"),
        (b"c", [("b", "c", 1)], b"already there"),
        (b"b", [("b", "a\nb", 1)], b"a\nb"),  # the anchor stays
        (b"a\nb", [("b", "a\nb", 1)], b"already there"),
        (b"a\nb b", [("b", "a\nb", 1)], ("f holds 'b' 2 times, not 1",)),
        (b"b", [("b", "", 1)], b""),
        (b"a", [("b", "", 1)], ("f holds 'b' 0 times, not 1",)),  # a deletion leaves no trace
        (b"-O3 -Werror", [("-O3 -Werror", "-O3", 1)], b"-O3"),
        (b"-O3 -Wall", [("-O3 -Werror", "-O3", 1)], ("f holds '-O3 -Werror' 0 times, not 1",)),
        (b"c b", [("b", "c", 1)], b"c c"),
        (b"x=1 x=12", [("x=1", "x=12", 2)], ("f holds 'x=1' 2 times, 1 of them where the edit was "
                                             "made already",)),
        (b"aba", [("aa", "aba", 1)], b"already there"),
        (b"a b", [("a", "b2", 1), ("b2", "c", 1)], b"c b"),
        (b"a", [("a", "b", 1), ("x", "y", 1)], ("f holds 'x' 0 times, not 1",)),
        (b"x\r\ny", [("x\ny", "z", 1)], ("f holds 'x\\ny' 0 times, not 1: the file has CRLF "
                                         "line ends, write them in `find`",)),
        (b"1\nx = 2", [("x = 1\ny", "z", 1)], ("f holds 'x = 1\\ny' 0 times, not 1",)),
        (b"1\nx = 1", [("x = 1\ny", "z", 1)], ("f holds 'x = 1\\ny' 0 times, not 1 (its first "
                                               "line stands in line 2)",)),
    ],
)  # fmt: skip
def test_edits(
    text: bytes, edits: list[tuple[str, str, int]], after: bytes | tuple[str, ...]
) -> None:
    assert edited(text, *edits) == after


def test_a_file_that_is_not_there() -> None:
    (wrong,) = edit([TextEdit("f", "a", "b")], {"f": None}).wrong
    assert (str(wrong), wrong.line) == ("f is not there", None)
    (wrong,) = edit([TextEdit("f", "a", "b")], {"f": None}, ["f"]).wrong
    assert str(wrong) == "f is a symlink: name the file that it leads to"


@pytest.mark.parametrize(
    ("find", "line"),
    [
        ('set(ARCHS "11.0;12.0")', 3),  # upstream added one
        ("\n  project(kern\n  other", 1),
        ("target_link_libraries(k", None),  # nothing is like it
        ("endif()", 2),  # found, but twice
    ],
)
def test_where_the_text_would_be(find: str, line: int | None) -> None:
    text = b'project(kern)\nendif()\n  set(ARCHS "10.0;11.0;12.0")\nendif()\n'
    (wrong,) = edit([TextEdit("f", find, "x")], {"f": text}).wrong
    assert wrong.line == line


def test_read_options() -> None:
    wrong: list[Finding] = []
    text = b"""
[patch."a.patch"]
when = { file = "x.cu", holds = "M" }
obsolete-if = { file = "y", absent = true }
three-way = true
"""
    options = read_options(text, FILE, ["a.patch"], wrong)["a.patch"]
    assert wrong == []
    assert (options.when, options.three_way) == (Condition("x.cu", holds="M"), True)
    assert str(options.when) == "x.cu holds 'M'"
    assert str(options.obsolete_if) == "y is not there"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b'[patch."gone"]', "gone is in no line of the series"),
        (b'[patch."a.patch"]\nwhen = { file = "x" }', "a.patch: when needs exactly one of"),
        (
            b'[patch."a.patch"]\nobsolete-if = { file = "x", holds = "a", lacks = "b" }',
            "a.patch: obsolete-if needs exactly one of",
        ),
        (b'[patch."a.edits"]\nthree-way = true', "a.edits: text edits cannot be merged"),
        (b'[patch."a.patch"]\nwhen = { file = "../x", absent = true }', "must be a path below"),
        (b'[patch."a.patch"]\nthreeway = true', "unknown key"),
        (b"[", "is not TOML"),
    ],
)
def test_options_that_are_wrong(text: bytes, says: str) -> None:
    wrong: list[Finding] = []
    read_options(text, FILE, ["a.patch", "a.edits"], wrong)
    assert says in wrong[0].what


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"edit = []", "it holds no [[edit]]"),
        (b'[[edit]]\nfile = "f"\nfind = ""\nreplace = "b"', "nothing to find"),
        (b'[[edit]]\nfile = "f"\nfind = "a"\nreplace = "a"', "changes nothing"),
        (b'[[edit]]\nfile = "f"\nfind = "a"\nreplace = "b"\ncount = 0', "count must be"),
        (b'[[edit]]\nfile = ".git/x"\nfind = "a"\nreplace = "b"', "must be a path below"),
        (b'[[edit]]\nfile = "x/.gitattributes"\nfind = "a"\nreplace = "b"', "run filters"),
        (b'[[edit]]\nfile = "f"\nfind = "a"', "is missing"),
    ],
)
def test_edits_that_are_wrong(text: bytes, says: str) -> None:
    wrong: list[Finding] = []
    assert read_edits(text, FILE, wrong) is None
    assert says in wrong[0].what


def test_a_set_of_diffs_edits_and_options() -> None:
    project = Folder(
        series=b"a.patch\nb.edits\n",
        a_patch=PATCH,
        b_edits=b'[[edit]]\nfile = "f"\nfind = "a"\nreplace = "b"\n',
        patches_toml=b'[patch."b.edits"]\nobsolete-if = { file = "f", holds = "c" }\n',
    )
    diff, edits = read_sets(["kern/gb10"], project=project)
    assert diff.edits == ()
    assert edits.edits == (TextEdit("f", "a", "b"),)
    assert edits.options.obsolete_if == Condition("f", holds="c")
    project.held["patches/kern/gb10/c.edits"] = b""
    with pytest.raises(PatchSetInvalid, match=r"c\.edits is in no line of the series"):
        read_sets(["kern/gb10"], project=project)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"index 11..22 100644\nBinary files a/x and b/x differ\n", "without its content"),
        (b"index 11..22 100644\nGIT binary patch\nliteral 1\nIc${M0\n", "without full ids"),
    ],
)
def test_binary_patches_that_git_cannot_apply(body: bytes, says: str) -> None:
    project = Folder(series=b"a.patch\n", a_patch=b"diff --git a/x b/x\n" + body)
    with pytest.raises(PatchSetInvalid, match=says):
        read_sets(["kern/gb10"], project=project)
