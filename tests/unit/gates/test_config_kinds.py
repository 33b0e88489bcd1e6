"""Gates on what an image's config says: env, label, entrypoint, user, size."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from builder.model.values import ImageInfo, Verdict
from builder.steps.gates import Gate, LaneFacts, examine, parse
from builder.steps.gates.entrypoint import Entrypoint
from builder.steps.gates.env import Env
from builder.steps.gates.label import Label
from builder.steps.gates.size import Size
from builder.steps.gates.user import User
from tests.unit.gates.fake_image import FakeImage

HERE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
INFO = ImageInfo(
    "sha256:1", (), {"maintainer": "lab", "com.nvidia.cuda": "13.0"}, (),
    {"PATH": "/usr/bin:/bin", "LIBRARY_PATH": "/usr/local/cuda/lib64"}, HERE, 2_000_000_000, "",
    ("sh", "-c"), ("serve",), "", "/work",
)  # fmt: skip
FORMER = replace(INFO, size=1_900_000_000)


PASSWD = {"etc/passwd": b"root:x:0:0:root:/root:/bin/sh\nvllm:x:1234:1234::/:\ntoor:x:0:0::/:\n"}


def one(
    gate: Gate,
    *,
    facts: LaneFacts = LaneFacts(),  # noqa: B008
    info: ImageInfo | None = INFO,
    files: Mapping[str, bytes] = PASSWD,
) -> Verdict:
    image = FakeImage(files, info=info)
    (verdict,) = examine((gate,), "x", engine=image, facts=facts)  # type: ignore[arg-type]
    return verdict


@pytest.mark.parametrize(
    ("gate", "says"),
    [
        (Env("LIBRARY_PATH"), "'/usr/local/cuda/lib64'"),
        (Env("PATH", contains=("/bin", "/usr/bin"), matches=".*bin"), "'/usr/bin:/bin'"),
        (Env("HF_TOKEN", absent=True), "is not set"),
        (Label("maintainer", "lab"), "'lab'"),
        (Label("com.nvidia.cuda", matches=r"13\..*"), "'13.0'"),
        (Label("none", absent=True), "is not there"),
        (Entrypoint(("sh", "-c"), ("serve",)), "is what the image starts"),
        (Entrypoint(program="sh"), "is what the image starts"),
        (Entrypoint(cmd=("serve",)), "is what the image starts"),  # an argument of ENTRYPOINT
        (User(name=""), "USER is not set, its uid 0"),
        (User(root=True), "USER is not set, its uid 0"),
        (Size("2 GB"), "2.00 GB"),
        (Size(growth="6%"), "2.00 GB, and there is no image before it to compare with"),
    ],
)  # fmt: skip
def test_passed(gate: Gate, says: str) -> None:
    verdict = one(gate)
    assert verdict.passed, verdict
    assert verdict.seen.startswith(says)


@pytest.mark.parametrize(
    ("gate", "says", "hint"),
    [
        (Env("LIBRARY_PAT"), "is not set (the image has LIBRARY_PATH)", "last stage"),
        (Env("PATH", "/bin"), "is '/usr/bin:/bin', not '/bin'", "last word"),
        (Env("PATH", contains="/opt/bin"), "is '/usr/bin:/bin', without /opt/bin",
         "ENV PATH=/opt/bin:$PATH"),
        (Env("PATH", matches="x"), "is '/usr/bin:/bin', which does not match 'x'", ""),
        (Env("PATH", absent=True), "is set: '/usr/bin:/bin'", "no ENV unsets it"),
        (Label("maintainers"), "is not there (the image has maintainer)", "LABEL"),
        (Label("maintainer", "me"), "is 'lab', not 'me'", ""),
        (Label("maintainer", absent=True), "is there: 'lab'", ""),
        (Entrypoint(()), "ENTRYPOINT is ['sh', '-c'], not none", "JSON form"),
        (Entrypoint(cmd=("sh",)), "CMD is ['serve'], not ['sh']", "takes away the CMD"),
        (Entrypoint(program="/opt/none"), "/opt/none: no such file", "which stage"),
        (Entrypoint(program="imgbuild-none"), "imgbuild-none: not in PATH", ""),
        (Entrypoint(program="/etc/passwd"), "/etc/passwd: not executable", ""),
        (User(name="vllm"), "USER is not set, its uid 0, not vllm", "/etc/passwd"),
        (User(uid=4242), "USER is not set, its uid 0, not 4242", ""),
        (User(root=False), "USER is not set, its uid 0; it must not be root", ""),
        (Size("1.5 GB"), "2.00 GB, 500.00 MB over 1.5 GB", "docker history"),
    ],
)  # fmt: skip
def test_failed(gate: Gate, says: str, hint: str) -> None:
    verdict = one(gate)
    assert not verdict.passed
    assert verdict.seen.startswith(says)
    assert hint in verdict.hint


@pytest.mark.parametrize(
    ("user", "gate", "passed", "says"),
    [
        ("vllm", User(root=False, uid=1234), True, "USER is vllm, its uid 1234"),
        ("vllm:root", User(name="vllm", root=False), True, "USER is vllm:root, its uid 1234"),
        ("1000:1000", User(root=False), True, "USER is 1000:1000, its uid 1000"),
        ("0", User(root=False), False, "USER is 0, its uid 0; it must not be root"),
        ("+0:5", User(root=False), False, "USER is +0:5, its uid 0; it must not be root"),
        ("toor", User(root=False), False, "USER is toor, its uid 0; it must not be root"),
        ("none", User(root=False), False, "cannot tell: USER is none, its uid unknown"),
        ("none", User(name="none"), False, "cannot tell: USER is none, its uid unknown"),
    ],
)
def test_what_a_user_comes_to(user: str, gate: Gate, passed: bool, says: str) -> None:
    verdict = one(gate, info=replace(INFO, user=user))
    assert verdict.passed is passed
    assert verdict.seen.startswith(says)


def test_a_user_without_passwd() -> None:
    bare = replace(INFO, user="root")
    assert one(User(root=True), info=bare, files={}).seen.startswith("cannot tell: USER is root")
    assert not one(User(root=False), files={}).passed


SCRIPTS = {
    "good": "#!/bin/sh\n", "good-env": "#! /usr/bin/env sh\n",
    "good-s": "#!/usr/bin/env -S A=1 sh -e\n", "good-twice": "#!{folder}/good\n",
    "no-bang": "echo hello\n", "empty": "", "alone": "#!\n",
    "missing": "#!/opt/venv/bin/python3\n", "crlf": "#!/bin/sh\r\n",
    "env-missing": "#!/usr/bin/env none\n", "env-words": "#!/usr/bin/env sh -e\n",
    "env-option": "#!/usr/bin/env -i sh\n", "round": "#!{folder}/round\n",
    "builtin": "#!/usr/bin/env exec\n",
}  # fmt: skip


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("good", ""), ("good-env", ""), ("good-s", ""), ("good-twice", ""),
        ("", "is a folder"),
        ("/dev/null", "is no regular file"),
        ("no-bang", "neither a program nor a script"),
        ("empty", "neither a program nor a script"),
        ("alone", "its first line names no program"),
        ("missing", "its first line is #!/opt/venv/bin/python3: no such file"),
        ("crlf", "its first line is #!/bin/sh"),
        ("env-missing", "its first line is #!/usr/bin/env none: none is not in PATH"),
        ("env-words", "its first line is #!/usr/bin/env sh -e: sh -e is not in PATH"),
        ("env-option", "cannot tell: its first line is #!/usr/bin/env -i sh: options of env"),
        ("round", "too many #!"),
        ("builtin", "exec is not in PATH"),
    ],
)  # fmt: skip
def test_what_can_be_started(tmp_path: Path, program: str, says: str) -> None:
    for name, text in SCRIPTS.items():
        (tmp_path / name).write_text(text.replace("{folder}", str(tmp_path)), newline="")
        (tmp_path / name).chmod(0o755)
    verdict = one(
        Entrypoint(program=f"{tmp_path}/{program}" if program != "/dev/null" else program)
    )
    assert verdict.passed is not bool(says), verdict
    assert says in verdict.seen


@pytest.mark.parametrize("word", ["exec", "if", "cd", "ulimit", "export"])
def test_a_word_of_the_shell_is_no_program(word: str) -> None:
    info = replace(INFO, entrypoint=(), command=(word, "vllm"))
    for gate in (Entrypoint((), (word, "vllm")), Entrypoint(cmd=(word, "vllm"))):
        verdict = one(gate, info=info)
        assert (verdict.passed, verdict.seen) == (False, f"{word}: not in PATH")
        assert '["sh", "-c"' in verdict.hint


def test_a_program_for_another_machine_or_without_its_loader(tmp_path: Path) -> None:
    true = Path("/bin/true").read_bytes()
    other = "arm64" if HERE == "amd64" else "amd64"
    machine = {"arm64": b"\xb7", "amd64": b">"}[other]
    (tmp_path / "foreign").write_bytes(true[:18] + machine + true[19:])
    loaders = (b"/lib64/ld-linux-x86-64.so.2\0", b"/lib/ld-linux-aarch64.so.1\0")
    musl = {
        "amd64": b"/lib/ld-musl-x86_64.so.1\0\0\0\0",
        "arm64": b"/lib/ld-musl-aarch64.so.1\0\0",
    }[HERE]
    native = loaders[HERE == "arm64"]
    assert native in true
    (tmp_path / "musl").write_bytes(true.replace(native, musl[: len(native)]))
    for name in ("foreign", "musl"):
        (tmp_path / name).chmod(0o755)
    assert one(Entrypoint(program=str(tmp_path / "foreign"))).seen == (
        f"{tmp_path}/foreign: is for {other}, the image for {HERE}"
    )
    assert one(Entrypoint(program=str(tmp_path / "musl"))).seen.endswith(" is not there")
    assert one(Entrypoint(program="/bin/true")).passed


def test_growth_against_the_former_image() -> None:
    facts = LaneFacts(former=FORMER)
    assert one(Size(growth="6%"), facts=facts).seen == "2.00 GB, +100.00 MB"
    assert one(Size(growth="100 MB"), facts=facts).passed
    grown = one(Size(growth="5 %"), facts=facts)
    assert grown.seen == ("2.00 GB, 100.00 MB more than the lane's image before it; 5 % is allowed")


def test_an_image_that_the_engine_does_not_know() -> None:
    verdict = one(Env("PATH"), info=None)
    assert (verdict.passed, verdict.seen) == (
        False, "could not look: the engine does not know the image",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"kind": "env", "name": "A", "absent": True, "value": "x"}, "absent: leaves nothing"),
        ({"kind": "env", "name": "A B"}, "name: must be the name of an environment variable"),
        ({"kind": "label", "name": "io.imgbuild.lane"}, "is set by imgbuild itself"),
        ({"kind": "label", "name": "org.opencontainers.image.version"}, "set by imgbuild itself"),
        ({"kind": "entrypoint"}, "entrypoint: is missing"),
        ({"kind": "user"}, "name: is missing"),
        ({"kind": "size", "max": "20"}, "max: must be a size such as"),
        ({"kind": "size"}, "max: is missing"),
    ],
)
def test_tables_that_make_no_sense(table: dict[str, object], says: str) -> None:
    gates, findings = parse([table], file=Path("x.toml"))
    assert gates == ()
    assert says in findings[0].what
