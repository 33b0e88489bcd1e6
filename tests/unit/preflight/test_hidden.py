"""What a Dockerfile compiles or fetches is found however it is written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.preflight.test_dockerfile import BASE, DIGEST, HEAD, LIST, MAKE, OFF, found, stage
from tests.unit.preflight.test_shell import NOISE, STARTS_MAKE

MISSING, COMMIT = "error arch-missing", "0123456789abcdef" * 2 + "01234567"
HERE = [around for around in STARTS_MAKE if "\n" not in around and "open" not in around]


@pytest.mark.parametrize(
    "line",
    [
        f"{MAKE}  # don't use cmake",
        f"timeout 1h {MAKE}",
        f"time -p {MAKE}",
        f"nice -n 5 {MAKE}",
        f"env CC=gcc {MAKE}",
    ],
)
def test_a_program_that_another_one_starts(line: str) -> None:
    assert found(stage(OFF + line)) == [f"{MISSING} 5"]
    assert found(stage(LIST.rstrip(), OFF + line)) == []
    assert found(stage(LIST.rstrip(), f"RUN {line}")) == ["warning network-open 7"]


@pytest.mark.parametrize(
    "line",
    [
        f"unset TORCH_CUDA_ARCH_LIST; {MAKE}",
        f"TORCH_CUDA_ARCH_LIST= {MAKE}",
        f"env -i {MAKE}",
        f"env -u TORCH_CUDA_ARCH_LIST {MAKE}",
        f"export -n TORCH_CUDA_ARCH_LIST && {MAKE}",
        f"TORCH_CUDA_ARCH_LIST='' bash -c '{MAKE}'",
        f"env -i bash -lc '{MAKE}'",
        f"exec -c {MAKE}",
    ],
)
def test_a_list_that_is_taken_away(line: str) -> None:
    assert found(stage(LIST.rstrip(), OFF + line)) == [f"{MISSING} 7"]


@settings(max_examples=150, deadline=None)
@given(
    before=st.lists(st.sampled_from(NOISE), max_size=2), around=st.sampled_from(HERE),
    after=st.lists(st.sampled_from(NOISE), max_size=2), heredoc=st.booleans(),
)  # fmt: skip
def test_nothing_harmless_makes_the_finding_go_away(
    before: list[str], around: str, after: list[str], *, heredoc: bool
) -> None:
    line = around.format(MAKE)
    text = "\n".join([*before, line, *after])
    run = f"<<'END'\n{text}\nEND" if heredoc else line
    levels = {each.partition(" 5")[0] for each in found(stage(OFF + run))}
    assert MISSING in levels


@pytest.mark.parametrize(
    ("add", "is_found"),
    [
        ("https://x.invalid/a.tar /a", True),
        ("HTTP://x.invalid/a.tar /a", True),
        ("--chown=1 http://x.invalid/a b /a/", True),
        ("${URL}/a.tar /a", True),
        ('["https://x.invalid/a b", "/a"]', True),
        (f"--checksum={DIGEST} https://x.invalid/a.tar /a", False),
        ("--checksum=${SUM} https://x.invalid/a.tar /a", False),
        ("--checksum=sha256:0 https://x.invalid/a.tar /a", True),
        (f"--checksum={COMMIT} https://x.invalid/a.tar /a", True),
        ("https://x.invalid/o/r.git /a", True),
        ("https://x.invalid/o/r.git#main /a", True),
        ("https://x.invalid/o/r.git#main:sub /a", True),
        (f"https://x.invalid/o/r.git#{COMMIT[:12]} /a", True),
        (f"https://x.invalid/o/r.git#refs/{COMMIT} /a", True),
        (f"https://x.invalid/o/r.git#{COMMIT} /a", False),
        (f"https://x.invalid/o/r.git#{COMMIT}:sub /a", False),
        (f"--keep-git-dir --checksum={COMMIT} https://x.invalid/o/r.git#v1 /a", False),
        (f"https://x.invalid/o/r.git?ref=v1&commit={COMMIT}&subdir=s /a", False),
        (f"https://x.invalid/o/r.git##ref=v1,commit={COMMIT} /a", False),
        ("https://x.invalid/o/r.git?ref=v1 /a", True),
        (f"--checksum={DIGEST} https://x.invalid/o/r.git#v1 /a", True),
        ("git@x.invalid:o/r /a", True),
        ("git@x.invalid:o/r.git#main /a", True),
        ("me@x.invalid:r /a", True),
        (f"git@x.invalid:o/r.git#{COMMIT} /a", False),
        ("ssh://git@x.invalid/o/r /a", True),
        (f"ssh://git@x.invalid/o/r#{COMMIT} /a", False),
        ("git://x.invalid/o/r /a", True),
        (f"git://x.invalid/o/r#{COMMIT} /a", False),
        ("a:b http /a/", False),
        ("<<http://x.invalid /a\nx\nhttp://x.invalid", False),
    ],
)
def test_what_add_fetches(add: str, *, is_found: bool) -> None:
    args = f"ARG URL=https://x.invalid\nARG SUM={DIGEST}\n"
    told = [each for each in found(f"{HEAD}{args}ADD {add}\n") if "add-" in each]
    assert told == (["error add-unpinned 5"] if is_found else [])
    of_other = found(f"{HEAD}{args}ADD {add}\nFROM {BASE}\n")
    assert [e for e in of_other if "add-" in e] == ["warning add-unpinned 5"] * is_found


@pytest.mark.parametrize(
    ("name", "is_found"),
    [("wheels", True), ("DEBS", True), ("sources", False), ("wheels-2", False)],
)
def test_a_stage_that_a_context_replaces(name: str, *, is_found: bool) -> None:
    text = f"{HEAD}FROM base AS {name}\nFROM base\nCOPY --from={name} /x /x\n"
    assert found(text) == ["error stage-shadowed 3"] * is_found


@pytest.mark.parametrize(
    ("line", "code"), [("RUNN make", "dockerfile 3"), ("RUN make \\", "image-folder 3")]
)
def test_what_buildkit_would_refuse(line: str, code: str) -> None:
    assert found(f"{HEAD}{line}\n") == [f"error {code}"]
