"""Gates on what an image's config says: env, label, entrypoint, user, size."""

from __future__ import annotations

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

INFO = ImageInfo(
    "sha256:1", (), {"maintainer": "lab", "com.nvidia.cuda": "13.0"}, (),
    {"PATH": "/usr/bin:/bin", "LIBRARY_PATH": "/usr/local/cuda/lib64"}, "arm64", 2_000_000_000, "",
    ("sh", "-c"), ("serve",), "", "/work",
)  # fmt: skip
FORMER = replace(INFO, size=1_900_000_000)


def one(gate: Gate, *, facts: LaneFacts = LaneFacts(), info: ImageInfo | None = INFO) -> Verdict:  # noqa: B008
    (verdict,) = examine((gate,), "x", engine=FakeImage(info=info), facts=facts)  # type: ignore[arg-type]
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
        (User(name=""), "USER is not set, its uid "),
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
        (User(name="vllm"), "USER is not set, its uid ", "/etc/passwd"),
        (User(uid=4242), "USER is not set, its uid ", ""),
        (Size("1.5 GB"), "2.00 GB, 500.00 MB over 1.5 GB", "docker history"),
    ],
)  # fmt: skip
def test_failed(gate: Gate, says: str, hint: str) -> None:
    verdict = one(gate)
    assert not verdict.passed
    assert verdict.seen.startswith(says)
    assert hint in verdict.hint


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
