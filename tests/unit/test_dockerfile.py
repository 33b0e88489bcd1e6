"""The Dockerfile parser against BuildKit's rules, odd files among them."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.errors import ImgbuildError
from builder.steps.dockerfile import Dockerfile, parse
from builder.steps.dockerfile_words import bare, expand, split, variables

FILE = Path("Dockerfile")


def read(text: str) -> Dockerfile:
    return parse(text.encode(), FILE)


def test_the_demo_by_stage() -> None:
    path = Path(__file__).parents[2] / "docker-images/demo/Dockerfile"
    found = parse(path.read_bytes(), path)
    assert [s.title for s in found.stages] == [
        "base", "cuda", "kern-cuda", "minipkg", "loader", "cudart", "system", "stage-7",
    ]  # fmt: skip
    assert dict(found.args) == {"BASE_RUNTIME": None}
    kern = found.stages[2]
    assert kern.base == "cuda"
    assert dict(kern.args) == {"TORCH_CUDA_ARCH_LIST": None}
    assert kern.env["TINYFMT_SRC_DIR"] == "/src/deps/tinyfmt"
    assert [i.sources for i in kern.named("ADD", "COPY")] == [
        ("deps/deps-src.tar.gz",), ("sources/kern-native.tar",),
    ]  # fmt: skip
    (run,) = found.stages[6].named("RUN")
    assert run.mounts == ({"type": "bind", "from": "debs", "target": "/debs"},)
    assert run.flag("network") == "none"
    assert (run.line, run.end) == (73, 84)
    assert found.stages[7].named("COPY")[0].flag("from") == "cudart"


def test_continued_lines_with_comments_and_empty_lines_in_them() -> None:
    found = read("FROM a\nRUN one \\\n  # a comment\n\n  two \\  \n three\nENV A=1\n")
    run, env = found.stages[0].instructions[1:]
    assert run.text.split() == ["one", "two", "three"]
    assert (run.line, run.end, env.line) == (2, 6, 7)
    # an escape that is escaped itself continues nothing
    assert len(read("FROM a\nRUN x \\\\\nRUN y\n").stages[0].instructions) == 3


def test_the_escape_directive_and_what_ends_directives() -> None:
    found = read("# syntax=docker/dockerfile:1\n# Escape = `\nFROM a\nRUN x `\n y\nRUN c:\\\n")
    assert dict(found.directives) == {"syntax": "docker/dockerfile:1", "escape": "`"}
    assert [i.text for i in found.stages[0].named("RUN")] == ["x  y", "c:\\"]
    assert dict(read("# a comment\n# escape=`\nFROM a\n").directives) == {}
    assert dict(read("\n# escape=`\nFROM a\n").directives) == {}
    assert dict(read("# other=1\n# escape=`\nFROM a\n").directives) == {}
    with pytest.raises(ImgbuildError, match="a second time"):
        read("# escape=`\n# escape=`\nFROM a\n")
    with pytest.raises(ImgbuildError, match="escape is 'x'"):
        read("# escape=x\nFROM a\n")


def test_heredocs() -> None:
    text = (
        "FROM a\nRUN <<EOF bash -s\necho FROM b\nCOPY x y\nEOF\n"
        "COPY <<-'ONE' <<\"T W\" /x/\n\ta $B\n\tONE\nsecond\nT W\nRUN cat<<EOF\n"
    )
    run, copy, plain = read(text).stages[0].instructions[1:]
    assert (run.line, run.end) == (2, 5)
    assert [(h.name, h.content, h.expand) for h in run.heredocs] == [
        ("EOF", "echo FROM b\nCOPY x y\n", True)
    ]
    assert [(h.name, h.content, h.expand, h.chomp) for h in copy.heredocs] == [
        ("ONE", "\ta $B\n", False, True), ("T W", "second\n", False, False),
    ]  # fmt: skip
    assert copy.sources == ()
    assert plain.heredocs == ()  # not a word of its own: the shell's affair
    with pytest.raises(ImgbuildError, match="heredoc EOF has no end") as error:
        read("FROM a\nRUN <<EOF\nx\n")
    assert error.value.findings[0].place is not None
    assert error.value.findings[0].place.line == 2


def test_json_forms_flags_and_quotes() -> None:
    text = (
        'FROM --platform=$BUILDPLATFORM a:1 aS Build\nCOPY --from=Build --link ["a b", "c/"]\n'
        "ENV A=\"x y\" B='$A' C=d\\ e\nENV OLD some thing\nARG X Y=1 Z=\n"
        'RUN --mount=type=cache,target=/c,id=k --mount=from=w,src=/a,dst=/b ["sh", "-c"]\n'
        'RUN [ -f x ] && echo "a"\n'
    )
    stage = read(text).stages[0]
    assert (stage.name, stage.base) == ("Build", "a:1")
    copy, env, old, arg, run, test = stage.instructions[1:]
    assert (copy.words, copy.is_json, copy.flags) == (
        ("a b", "c/"), True, (("from", "Build"), ("link", "")),
    )  # fmt: skip
    assert env.pairs == (("A", "x y"), ("B", "$A"), ("C", "d e"))
    assert old.pairs == (("OLD", "some thing"),)
    assert arg.pairs == (("X", None), ("Y", "1"), ("Z", ""))
    assert [m["type"] for m in run.mounts] == ["cache", "bind"]
    assert run.mounts[1] == {"type": "bind", "from": "w", "source": "/a", "target": "/b"}
    assert run.is_json
    assert not test.is_json


def test_stages_are_found_by_name_in_any_case_by_index_and_only_earlier_ones() -> None:
    found = read("FROM x AS one\nFROM one AS two\nFROM two AS One\n")
    assert found.stage("ONE").index == 2  # type: ignore[union-attr]
    assert found.stage("one", before=2).index == 0  # type: ignore[union-attr]
    assert found.stage("1").name == "two"  # type: ignore[union-attr]
    assert found.stage("two", before=1) is None
    assert found.stage("nginx") is None
    assert found.stage("9" * 5000) is None


@pytest.mark.parametrize(
    ("text", "what", "line"),
    [
        ("", "holds no FROM", None),
        ("RUN x\nFROM a\n", "RUN stands before the first FROM", 1),
        ("FROM\n", "FROM takes an image", 1),
        ("FROM a b\n", "FROM takes an image", 1),
        ("FROM a\n-x\n", "no instruction", 2),
        ("FROM a\n\n\nRUN=1\n", "no instruction", 4),
        ("FROM a\nRUNN make\n", "no instruction RUNN", 2),
        ("FROM a\n\nthing x \\\n y\n", "no instruction thing", 3),
    ],
)
def test_what_is_no_dockerfile(text: str, what: str, line: int | None) -> None:
    with pytest.raises(ImgbuildError, match=what) as error:
        read(text)
    place = error.value.findings[0].place
    assert place is not None
    assert place.line == line
    with pytest.raises(ImgbuildError, match="UTF-8"):
        parse(b"FROM a\nRUN \xff\n", FILE)


def test_an_unknown_instruction_is_told_with_the_one_that_was_meant() -> None:
    for text, hint in (("RUNN x", "did you mean RUN?"), ("entrypiont x", "did you mean ENTRYPOINT"),
                       ("INCLUDE x", "there are ADD, ARG, ")):  # fmt: skip
        with pytest.raises(ImgbuildError) as error:
            read(f"FROM a\n{text}\n")
        assert error.value.findings[0].hint.startswith(hint)


def test_bom_crlf_and_no_newline_at_the_end() -> None:
    found = parse(b"\xef\xbb\xbfFROM a\r\nRUN x \\\r\n y\r\nRUN z", FILE)
    assert [i.text for i in found.stages[0].named("RUN")] == ["x  y", "z"]


def test_variables() -> None:
    values = {"A": "1", "E": ""}
    assert expand("$A ${A} $B-${B:-x${A}} ${E:-d} ${E-d} ${A:+y} ${B:+y}$", values) == (
        "1 1 -x1 d  y $"
    )
    assert variables("$A ${B:-$C} $$ ${") == {"A", "B", "C"}


words = st.text(alphabet=string.ascii_letters + "\"'\\$ {}\t<-=#\n`é", max_size=40)


@settings(max_examples=300)
@given(words, st.sampled_from(["\\", "`"]))
def test_no_text_hangs_or_raises_in_words(text: str, escape: str) -> None:
    for word in split(text, escape):
        assert word
        assert len(bare(word, escape)) <= len(word)
    expand(text, {"A": "1"})


@settings(max_examples=300)
@given(st.lists(st.sampled_from(["FROM a AS b", "RUN x \\", "# c", "", "COPY <<E /x", "E",
                                 "ARG A=1", "RUN [\"a\"]", "ENV A b", "\\", "ADD a b", "ONBUILD",
                                 "ONBUILD RUN <<E", "COPY --from=b x y"])))  # fmt: skip
def test_any_lines_are_read_or_refused_with_a_finding(lines: list[str]) -> None:
    try:
        found = read("\n".join(lines))
    except ImgbuildError as error:
        refused = error
    else:
        refused = None
    if refused is not None:
        assert refused.exit_code == 3
        return
    every = [i for s in found.stages for i in s.instructions]
    assert [i.line for i in every] == sorted({i.line for i in every})
    assert all(i.line <= i.end <= len(lines) for i in every)
    for one in every:
        _ = one.pairs, one.mounts, one.sources, one.same
