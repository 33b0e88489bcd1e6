"""Which commands a RUN starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.steps.dockerfile import parse
from builder.steps.preflight.shell import _Around, _of_text, commands, known
from builder.steps.preflight.shell_words import _Reading, _Unclosed


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


MAKE = "make -j8"
STARTS_MAKE = (
    "# don't use cmake\n{}", "{}  # don't use cmake", "echo 'a # b' && {}", "{} # \"x",
    "timeout 1h {}", "timeout -k 5 --signal=KILL 1h {}", "timeout -k5s 1h {}", "time -p {}",
    "time {}", "/usr/bin/time -v -o /t {}", "nice {}", "nice -n 5 {}", "nice -n5 {}", "nice -19 {}",
    "env {}", "env -i {}", "env -i PATH=/bin {}", "env - {}", "env -u A B=1 {}", "env -uA {}",
    "env -S '{}'", "env --split-string='{}'", "env -C /w {}", "sudo {}", "sudo -E {}",
    "sudo -Eu root {}", "sudo -u root A=1 {}", "sudo -- {}", "ionice -c 3 {}", "ionice -c2 -n7 {}",
    "chrt -b 0 {}", "taskset -c 0-3 {}", "taskset 0x3 {}", "stdbuf -oL {}", "stdbuf -o L {}",
    "xvfb-run -a {}", "xvfb-run -s '-screen 0' {}", "ccache {}", "sccache {}", "nohup {} &",
    "exec {}", "exec -a m {}", "command {}", "command -p {}", "builtin command {}", "setsid -w {}",
    "numactl -N 0 -m 0 {}", "fakeroot {}", "gosu root {}", "chroot / {}", "flock /lock {}",
    "flock /lock -c '{}'", "strace -f -o /t {}", "bear -- {}", "dumb-init -- {}", "mold -run {}",
    "scl enable gcc-toolset-14 -- {}", "scl enable gcc-toolset-14 '{}'", "conda run -n b {}",
    "uv run --with ninja {}", "runuser -u root -- {}", "su - root -c '{}'", "script -qec '{}' /t",
    "sh -c '{}'", "bash -lc \"{}\"", "bash -euxo pipefail -c '{}'", "sudo -E bash -c '{}'",
    "A=1 nice timeout 9 env B=2 {}", "eval '{}'", "eval {}", "if true; then {}; fi",
    "if {}; then true; fi", "for a in b c; do {}; done", "while ! {}; do sleep 1; done",
    "case $A in x) {} ;; esac", "( {} )", "({})", "{{ {}; }}", "! {}", "true && {}", "false || {}",
    "cat x | {}", "{} | tee /log", "{} 2>&1 >/log", ">/log {}", "{} &>/log", "{} > >(tee /log)",
    "x=$({})",
    "x=$(case $A in b) {} ;; esac)", "echo \"$({})\"", "echo `{}`", "cat <({})",
    "xargs {}", "ls | xargs -n 1 -P4 {}",
    "parallel -j 4 {} ::: a", "find . -name M -execdir {} \\;", "build() {{ {}; }}; build",
    "function build {{ {}; }}; build", "x=$((1<<3))\n{}", "echo \"${{X:-it's}}\"; {}",
    "echo \"${{X#\"$Y\"}}\"; {}", "echo $'it\\'s' && {}", "bash <<X\n{}\nX", "cat <<X | sh\n{}\nX",
    "sudo bash -s -- a <<'X'\n{}\nX", "cat <<X >f\nit's\nX\n{}", "sh <<-X\n\t{}\n\tX",
    "a=(b 'c d') ; {}", "[[ a =~ (b) ]] && {}", "coproc {}", "echo it\\'s; {}", "echo 'open; {}",
)  # fmt: skip


@pytest.mark.parametrize("around", STARTS_MAKE)
def test_whatever_stands_around_a_program_it_is_seen(around: str) -> None:
    text = around.format(MAKE)
    inside = "true\n" + text + "\ntrue"
    assert MAKE in [
        c.removesuffix(" ::: a").removesuffix(" ;") for c, _ in started(f"<<E\n{inside}\nE")
    ]
    if "\n" not in text:
        assert any(c.startswith(MAKE) for c, _ in started(text))


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ('["timeout", "1h", "make"]', ["make"]),
        ('["env", "A=1", "bash", "-lc", "cd /a && make"]', ["make"]),
        ("sudo bash <<X\nmake\nX", ["bash", "make"]),
        ("<<X bash -s\nmake\nX", ["bash -s", "make"]),
        ("cat <<X <<Y | sh\nmake\nX\nninja\nY", ["cat", "make", "ninja", "sh"]),
        ("<<X\n#!/bin/bash -e\nmake\nX", ["make"]),
        ("<<X\n#!/usr/bin/env python3\nmake = 'it'\nX", []),
        ("python3 <<X\nmake\nX", ["python3"]),
        ("cat <<X >make.sh\nmake\nX", ["cat"]),
        ("bash build.sh <<X\nmake\nX", ["bash build.sh"]),
        ("bash -c cat <<X\nmake\nX", ["cat"]),
        ("bash build.sh -c make", ["bash build.sh -c make"]),
        ("flock /l gcc -c make", ["gcc -c make"]),
    ],
)
def test_json_forms_and_heredocs(run: str, expected: list[str]) -> None:
    assert [c for c, _ in started(run)] == expected


@pytest.mark.parametrize(
    "run",
    [
        "command -v make", "which make cmake", "echo make; : make", "echo '$(make)'", "X=make",
        "apt-get install -y make ninja-build cmake", "for x in make cmake; do echo $x; done",
        "true || true # make", "case make in make) ;; esac", "echo '`make`'",
        "time", "sudo -u", "timeout 5", "env A=1", "env -S ''", "nice -n", "xargs", "find -exec",
    ],
)  # fmt: skip
def test_what_is_only_named_is_not_started(run: str) -> None:
    assert "make" not in [c.split()[0].rpartition("/")[2] for c, _ in started(run) if c]


def environments(run: str) -> list[tuple[dict[str, str], bool]]:
    read = parse(f"FROM a\nRUN {run}\n".encode(), Path("Dockerfile"))
    (instruction,) = read.stages[0].named("RUN")
    return [(dict(c.env), c.clean) for c in commands(instruction) if c.program == "make"]


@pytest.mark.parametrize(
    ("run", "env", "clean"),
    [
        ("A= make", {"A": ""}, False),
        ("A=1; unset A; make", {"A": ""}, False),
        ("export A=1 B=2; export -n B; make", {"A": "1", "B": ""}, False),
        ("(A=1; unset B); make", {}, False),
        ("(A=1; make)", {"A": "1"}, False),
        ("A=1 env -i B=2 make", {"B": "2"}, True),
        ("export A=1; env -u A make", {"A": ""}, False),
        ("exec -c make", {}, True),
        ("A=1 bash -c 'B=2 make'", {"A": "1", "B": "2"}, False),
        ("export A=1; bash <<X\nmake\nX", {"A": "1"}, False),
        ("env -i sh -c 'make'", {}, True),
        ("A=$(x y) make", {"A": "$(x y)"}, False),
    ],
)
def test_the_environment_that_a_program_is_started_with(
    run: str, env: dict[str, str], *, clean: bool
) -> None:
    assert environments(run) == [(env, clean)]


WRAPPERS = (
    "{}",
    *(around for around in STARTS_MAKE if "\n" not in around and "open" not in around),
)
NOISE = (
    "# it's", "echo \"it's\"", "cat <<'X' >f\nit's \"\nX", "x=${Y:-'}'}", "true # `$(",
    ": $((1<<2))", "if true; then echo 'a\nb'; fi", "[ -n \"$(ls 'a b')\" ] || true",
    "a=1 b='c' true \\\n --x",
)  # fmt: skip


@settings(max_examples=200)
@given(
    st.lists(st.sampled_from(NOISE), max_size=3),
    st.sampled_from(WRAPPERS), st.sampled_from(WRAPPERS),
    st.lists(st.sampled_from(NOISE), max_size=3),
)  # fmt: skip
def test_what_stands_around_it_hides_no_compiler(
    before: list[str], outer: str, inner: str, after: list[str]
) -> None:
    if "eval" in outer or any(quote in outer.partition("{}")[0] for quote in "'\"`"):
        inner = "{}"  # quotes in quotes are another text
    if "#" in inner:
        outer = "{}"  # what follows a comment belongs to it
    line = outer.format(inner.format("nvcc -c x.cu"))
    text = "\n".join([*before, line, *after])
    assert any(found.words[0] == "nvcc" for found in _of_text(text, _Around(""))), text


@given(st.text(alphabet="ab '\"\\$(){};&|<>#\n=-`", max_size=60))
def test_no_text_breaks_it(text: str) -> None:
    list(_of_text(text, _Around("")))


@given(st.text(alphabet="ab '\"\\$(){}<>#=-`", max_size=20))
def test_no_text_before_it_hides_a_line_that_cannot_belong_to_it(text: str) -> None:
    closed = f'{text}\n"\n\'\n"\nnvcc x\n'
    try:
        list(_Reading(closed).read())
    except _Unclosed:
        assert any(c.words[:1] == ("nvcc",) for c in _of_text(closed, _Around("")))


def test_known() -> None:
    assert known("a$X/${Y:-z}", {"X": "1", "Y": ""}) == "a1/z"
    assert known("$NONE", {}) is None
    assert known("$(x)", {}) is None
