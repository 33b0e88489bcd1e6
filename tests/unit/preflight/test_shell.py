"""Which commands a RUN starts."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from builder.steps.dockerfile import parse
from builder.steps.preflight.shell import commands, known


def started(run: str) -> list[tuple[str, str]]:
    read = parse(f"FROM a\nRUN {run}\n".encode(), Path("Dockerfile"))
    (instruction,) = read.stages[0].named("RUN")
    return [(" ".join(c.words), c.folder) for c in commands(instruction, folder="/w")]


def test_lists_pipes_and_folders() -> None:
    assert started("set -e; cd src && A=1 make -j8 2>&1 | tee /log && cd / && ls >/dev/null") == [
        ("set -e", "/w"), ("make -j8", "/w/src"), ("tee /log", "/w/src"), ("ls", "/"),
    ]  # fmt: skip


def test_keywords_wrappers_comments_and_inner_shells() -> None:
    assert [c for c, _ in started("if true; then sudo time nvcc x; fi # && nvcc y")] == [
        "true", "nvcc x",
    ]  # fmt: skip
    assert started("bash -lc 'cd /a && ninja'") == [("ninja", "/a")]
    assert started('["bash", "-c", "make"]') == [("make", "/w")]
    assert started("<<EOF\ncat <<X >f\nnvcc in a file\nX\nmake\nEOF") == [
        ("cat", "/w"),
        ("make", "/w"),
    ]


def test_a_text_that_does_not_parse_starts_nothing() -> None:
    assert started("echo 'open && make") == []


@given(st.text(alphabet="ab '\"\\$(){};&|<>#\n=-", max_size=60))
def test_no_text_breaks_it(text: str) -> None:
    from builder.steps.preflight.shell import _of_text

    list(_of_text(text, ""))


def test_known() -> None:
    assert known("a$X/${Y:-z}", {"X": "1", "Y": ""}) == "a1/z"
    assert known("$NONE", {}) is None
    assert known("$(x)", {}) is None
