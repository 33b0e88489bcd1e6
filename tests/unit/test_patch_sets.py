"""Series files and patches, judged without a tree."""

from pathlib import Path

import pytest

from builder.model.values import PatchFile
from builder.steps import diffs
from builder.steps.series import PatchSetInvalid, findings, parse_series, read_sets

PATCH = b"""\
From 0000 Mon Sep 17 00:00:00 2001
Subject: [PATCH] change

---
diff --git a/csrc/x.cu b/csrc/x.cu
index 1111111..2222222 100644
--- a/csrc/x.cu
+++ b/csrc/x.cu
@@ -3,3 +3,4 @@ context
 a
-b
+c
+d
 e
--\x20
2.39.5
"""


class Folder:
    """A project in memory."""

    root = Path("/project")

    def __init__(self, **files: bytes) -> None:
        self.held = {f"patches/kern/gb10/{k.replace('_', '.')}": v for k, v in files.items()}

    def read(self, path: str) -> bytes | None:
        return self.held.get(path)

    def write(self, path: str, data: bytes) -> None:
        self.held[path] = data

    def files(self, folder: str) -> tuple[tuple[str, bool], ...]:
        return tuple((p.removeprefix(f"{folder}/"), False) for p in sorted(self.held))


def test_series() -> None:
    text = "# two\n0001-a.patch\n\n0002-b.patch -p0  # why\r\n"
    assert parse_series(text, file=Path("series")) == (("0001-a.patch", 1), ("0002-b.patch", 0))


def test_every_wrong_line_of_a_series_is_found() -> None:
    text = "a.patch\n../b.patch\na.patch\nc.patch -R\n-x\n"
    with pytest.raises(PatchSetInvalid) as caught:
        parse_series(text, file=Path("patches/k/series"))
    places = [f.place.line for f in caught.value.findings if f.place]
    assert places == [2, 3, 4, 5]


def test_read_sets() -> None:
    project = Folder(series=b"a.patch\n# b.patch: merged upstream\n", a_patch=PATCH, b_patch=PATCH)
    (patch,) = read_sets(["kern/gb10"], project=project)
    assert (patch.path, patch.strip, patch.data) == ("patches/kern/gb10/a.patch", 1, PATCH)
    assert patch.sha256 == f"sha256:{DIGEST}"


def test_all_findings_of_all_sets() -> None:
    project = Folder(series=b"a.patch\ngone.patch\n", a_patch=PATCH[:-30], forgotten_patch=PATCH)
    with pytest.raises(PatchSetInvalid) as caught:
        read_sets(["kern/gb10", "kern/none"], project=project)
    said = [f.what for f in caught.value.findings]
    assert said == [
        "patches/kern/gb10/series names gone.patch, which is not there",
        "patches/kern/gb10/forgotten.patch is in no line of the series",
        "patches/kern/none/series is not there",
        "patches/kern/gb10/a.patch: the hunk ends before its '@@ -3,3 +3,4 @@' is filled",
    ]


def codes(data: bytes, strip: int = 1) -> list[str]:
    return [f.code for f in findings(PatchFile("p.patch", "", data, strip))]


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (b"+d\n", b"", "patch-malformed"),  # a line taken out by hand
        (b"+d\n", b"+d\n+more\n", "patch-malformed"),  # a line put in by hand
        (b"@@ -3,3", b"@@ -3,4", "patch-malformed"),
        (b"\n", b"\r\n", "patch-crlf"),
        (b"csrc/x.cu", b".gitattributes", "patch-attributes"),
        (b"csrc/x.cu", b"../x.cu", "patch-path"),
        (b"csrc/x.cu", b".git/hooks/post-checkout", "patch-path"),
    ],
)
def test_patches_that_are_refused(old: bytes, new: bytes, code: str) -> None:
    assert code in codes(PATCH.replace(old, new))


def test_patches_that_are_fine() -> None:
    assert codes(PATCH) == []
    assert codes(PATCH.replace(b" a\n", b" a\r\n").replace(b"+c\n", b"+c\r\n")) == []
    assert codes(b"") == ["patch-malformed"]
    assert codes(b"diff --git a/x b/x\nold mode 100644\nnew mode 100755\n") == []
    assert (
        codes(b"--- a/x\t2020\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n") == []
    )


def test_what_a_patch_touches() -> None:
    read = diffs.read(PATCH)
    assert read.files == {"csrc/x.cu"}
    assert read.hunks == [
        diffs.Hunk(
            "csrc/x.cu", 3, 3, 9, "csrc/x.cu", 3, "context", ("1111111", "2222222"),
            (" a", "-b", "+c", "+d", " e"),
        )
    ]  # fmt: skip
    quoted = (
        rb'diff --git "a/\303\274.md" "b/\303\274.md"' + b"\nold mode 100644\nnew mode 100755\n"
    )
    assert diffs.read(quoted).files == {"ü.md"}
    assert diffs.read(quoted).modes == ["ü.md: 100644 -> 100755"]
    moved = b"diff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\n"
    assert diffs.read(moved).files == {"a", "b"}


@pytest.mark.parametrize(
    ("line", "strip", "files"),
    [
        (b"a/x y.bin b/x y.bin", 1, {"x y.bin"}),
        (b"i/x.bin w/x.bin", 1, {"x.bin"}),  # diff.mnemonicPrefix
        (b"c/a b/x i/a b/x", 1, {"a b/x"}),
        (b"x.bin x.bin", 0, {"x.bin"}),  # diff.noprefix
        (b'"i/\\303\\274.bin" "w/\\303\\274.bin"', 1, {"ü.bin"}),
        (b"i/old.bin w/new.bin", 1, {"old.bin", "new.bin"}),
    ],
)
def test_names_of_files_without_lines(line: bytes, strip: int, files: set[str]) -> None:
    read = diffs.read(b"diff --git " + line + b"\nGIT binary patch\n", strip=strip)
    assert read.files == files


def test_hunks_without_context() -> None:
    bare = PATCH.replace(b"@@ -3,3 +3,4 @@", b"@@ -4 +4,2 @@").replace(b" a\n-b", b"-b")
    bare = bare.replace(b"+d\n e\n", b"+d\n")
    read = diffs.read(bare)
    assert (read.wrong, read.wrong_line) == (
        "a hunk without context (diff -U0), of which git cannot tell the place", 9,
    )  # fmt: skip


DIGEST = "2162ece006557dde1725823cb09d03f858ef46bcdbe31f92cdf20d200c99b250"
