"""Builds through buildx on a real engine: what is said, kept, tried again and ended."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from builder.model.values import BuildRequest, BuildStep
from builder.tools import buildx
from builder.tools.build_failure import (
    BaseUnknown,
    BuildFailed,
    DiskFull,
    DockerfileInvalid,
    NoNetwork,
    OutOfMemory,
)
from tests.integration.conftest import EPOCH, ROOT, Bench

pytestmark = pytest.mark.docker
Build = Callable[..., tuple[str, tuple[BuildStep, ...]]]


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def build(bench: Bench, tag: str, tmp_path: Path, said: list[str]) -> Build:
    """Build a Dockerfile whose BASE_SMALL is the small base."""

    def run(dockerfile: str, **named: Path) -> tuple[str, tuple[BuildStep, ...]]:
        context = tmp_path / "context"
        context.mkdir(exist_ok=True)
        (context / "Dockerfile").write_text(f"ARG BASE_SMALL\n{dockerfile}")
        args = {
            "BASE_SMALL": bench.base,
            "SOURCE_DATE_EPOCH": str(EPOCH),
            "NONCE": uuid.uuid4().hex,
        }
        request = BuildRequest(
            context, named, args, {"made.by": "a test"}, tag, bench.platform, tmp_path / "build.log"
        )
        return buildx.build(request, say=said.append, pause_s=0.1)

    return run


def test_a_build_says_what_goes_on_and_keeps_the_log(
    build: Build, bench: Bench, tag: str, tmp_path: Path, said: list[str]
) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels/x.whl").write_text("wheel")
    image, steps = build(
        "FROM ${BASE_SMALL} AS kern-cuda\nARG NONCE\n"
        "RUN echo nvcc cast.cu; echo '\033[31mbell\007'; mkdir /out; touch /out/lib\n"
        "FROM ${BASE_SMALL}\nCOPY --from=kern-cuda /out /out\nCOPY --from=wheels x.whl /\n",
        wheels=tmp_path / "wheels",
    )
    found = bench.engine.image(tag)
    assert found is not None
    assert found.id == image
    assert found.labels == {"made.by": "a test"}
    assert "kern-cuda  nvcc cast.cu" in said
    assert "kern-cuda  bell\\x07" in said
    run = next(step for step in steps if step.name.startswith("RUN"))
    assert (run.stage, run.cached) == ("kern-cuda", False)
    assert run.seconds > 0
    log = (tmp_path / "build.log").read_text()
    assert re.search(r"^ +\d+\.\d{3} \[kern-cuda 2/2\]   nvcc cast\.cu$", log, re.MULTILINE)
    assert re.search(r"^ +\d+\.\d{3} \[kern-cuda 2/2\] done in ", log, re.MULTILINE)
    assert "\033" not in log


def test_the_failing_steps_own_error_is_shown(build: Build, tmp_path: Path) -> None:
    with pytest.raises(BuildFailed) as failed:
        build(
            "FROM ${BASE_SMALL} AS other\nRUN sleep 60\n"
            "FROM ${BASE_SMALL} AS kern-cuda\n"
            "RUN echo 'FAILED: cast.o'; echo 'cast.cu(3): error: no such thing';"
            "    for i in $(seq 200); do echo ptxas info $i; done; echo ninja: stopped; exit 2\n"
            "FROM other\nCOPY --from=kern-cuda /etc /etc\n"
        )
    (finding,) = failed.value.findings
    assert finding.what.startswith("kern-cuda: RUN echo 'FAILED")
    assert finding.what.endswith("ended with code 2")
    assert "cast.cu(3): error: no such thing" in finding.detail
    assert "ptxas info 200" not in finding.detail
    assert finding.place is not None
    assert (finding.place.file, finding.place.line) == (tmp_path / "context/Dockerfile", 5)
    assert str(tmp_path / "build.log") in finding.hint
    assert "ptxas info 200" in (tmp_path / "build.log").read_text()


@pytest.mark.parametrize(
    ("dockerfile", "kind"),
    [
        ("FROM ${BASE_SMALL}\nFOO x\n", DockerfileInvalid),
        ("FROM localhost:1/no-such-image:1\n", BaseUnknown),
        ("FROM ${BASE_SMALL}\nRUN echo Could not resolve host: example.org; exit 6\n", NoNetwork),
        ("FROM ${BASE_SMALL}\nRUN echo ld: No space left on device; exit 1\n", DiskFull),
        ("FROM ${BASE_SMALL}\nRUN exit 137\n", OutOfMemory),
        ("FROM ${BASE_SMALL}\nCOPY no-such-file /\n", BuildFailed),
    ],
)
def test_kinds_of_failures(
    dockerfile: str, kind: type[BuildFailed], build: Build, said: list[str]
) -> None:
    with pytest.raises(BuildFailed) as failed:
        build(dockerfile)
    assert type(failed.value) is kind
    assert not any("trying again" in text for text in said)


def test_a_transient_failure_is_tried_again_with_the_cache(
    build: Build, said: list[str], tmp_path: Path
) -> None:
    cache = uuid.uuid4().hex
    _, steps = build(
        "FROM ${BASE_SMALL} AS deps\nARG NONCE\nRUN echo long work\n"
        f"RUN --mount=type=cache,id={cache},target=/c "
        "[ -e /c/2 ] && exit 0; [ -e /c/1 ] && touch /c/2; touch /c/1;"
        " echo 'E: Failed to fetch x.deb  503  Service Unavailable'; exit 100\n"
    )
    assert [text for text in said if "trying again" in text] == [
        "a server answered 5xx: trying again in 0.1 s, with what is done in the cache"
    ] * 2
    assert next(step for step in steps if "long work" in step.name).cached
    assert (tmp_path / "build.log").read_text().count("503  Service Unavailable") >= 2


def test_a_failure_that_stays_is_an_error_after_three_tries(build: Build, said: list[str]) -> None:
    with pytest.raises(BuildFailed) as failed:
        build("FROM ${BASE_SMALL}\nRUN echo 'curl: (22) returned error: 502'; exit 22\n")
    assert sum("trying again" in text for text in said) == 2
    assert "returned error: 502" in failed.value.findings[0].detail


def test_the_network_is_off(build: Build) -> None:
    build("FROM ${BASE_SMALL}\nARG NONCE\nRUN [ \"$(ls /sys/class/net)\" = lo ]\n")  # fmt: skip


INTERRUPTED = """
import sys
from pathlib import Path
from builder.model.values import BuildRequest
from builder.tools.docker import DockerEngine
context, base, platform, tag = sys.argv[1:]
request = BuildRequest(
    Path(context), {}, {"BASE_SMALL": base}, {}, tag, platform, Path(context) / "../build.log"
)
DockerEngine().build(request, say=lambda text: print(text, flush=True))
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_build_ends_in_the_engine_too(
    how: signal.Signals, bench: Bench, tag: str, tmp_path: Path
) -> None:
    context, seconds = tmp_path / "context", 100_000 + uuid.uuid4().int % 100_000
    context.mkdir()
    (context / "Dockerfile").write_text(
        f"ARG BASE_SMALL\nFROM ${{BASE_SMALL}}\nRUN echo begun; sleep {seconds}\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, context, bench.base, bench.platform, tag],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as running:  # fmt: skip
        try:
            assert running.stdout
            assert any("image  begun" in line for line in running.stdout)
            assert within(10, lambda: alive(seconds))
            running.send_signal(how)
            assert running.wait(30) != 0
        finally:
            running.kill()
    assert within(20, lambda: not alive(seconds))
    assert bench.engine.image(tag) is None


def within(limit_s: float, holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def alive(seconds: int) -> bool:
    """Whether the build's `sleep` runs on this machine, or buildx itself."""
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if f"sleep\0{seconds}\0".encode() in line.read_bytes():
                return True
    return False
