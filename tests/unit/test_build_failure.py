"""Telling failures of a build apart, and finding the line that matters."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from builder.errors import Place
from builder.model.values import BuildRequest
from builder.tools.build_failure import (
    BaseUnknown,
    BuildFailed,
    DiskFull,
    DockerfileInvalid,
    EngineGone,
    Evidence,
    NoNetwork,
    OutOfMemory,
    excerpt,
    explain,
    transient,
)
from builder.tools.buildx import Narrator
from builder.tools.rawjson import Vertex, Vertices, decode

RECORDED = Path(__file__).parents[1] / "data/rawjson"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def ran(*output: str, run: str = "RUN make", error: str = "") -> Evidence:
    """A step `kern-cuda 3/5` that failed with this output."""
    error = error or 'process "/bin/sh -c make" did not complete successfully: exit code: 2'
    vertex = Vertex("d", f"[kern-cuda 3/5] {run}", NOW, NOW, error=error, lines=list(output))
    return Evidence(vertex, [f"ERROR: failed to solve: {error}"], Path("Dockerfile"), Path("b.log"))


def recorded(name: str) -> Evidence:
    vertices, texts = Vertices(), []
    for message in decode((RECORDED / name).read_bytes().splitlines()):
        if isinstance(message, str):
            texts.append(message)
        else:
            list(vertices.apply(message))
    failed = next((v for v in vertices.by_digest.values() if v.failed), None)
    return Evidence(failed, texts, Path("Dockerfile"), Path("b.log"))


def test_a_line_is_that_of_the_file_that_people_edit(tmp_path: Path) -> None:
    words = BuildRequest(tmp_path / "context", {}, {}, {}, "x:1", "linux/arm64", tmp_path / "log")
    with (tmp_path / "log").open("wb") as log:
        heard = Narrator(log, lambda _: None)
        heard.hear("Dockerfile:25")
        own = tmp_path / "docker-images/mine/Dockerfile"
        error = explain(heard.evidence(replace(words, dockerfile=own)), returncode=1)
        assert error.findings[0].place == Place(own, 25)
        error = explain(heard.evidence(words), returncode=1)
        assert error.findings[0].place == Place(tmp_path / "context/Dockerfile", 25)


def test_the_compilers_error_is_shown_and_not_ninjas_last_line() -> None:
    error = explain(recorded("compile-error.txt"), returncode=1)
    (finding,) = error.findings
    assert type(error) is BuildFailed
    assert error.exit_code == 6
    assert finding.code == "build-failed"
    assert finding.what.startswith("kern-cuda: RUN ")
    assert finding.what.endswith("ended with code 1")
    assert 'cast.cu(3): error: identifier "foo" is undefined' in finding.detail.splitlines()
    assert len(finding.detail.splitlines()) <= 21
    assert finding.hint == "the whole log: b.log"
    assert finding.place is not None
    assert finding.place.line == 7


@pytest.mark.parametrize(
    "line",
    [
        'cast.cu(3): error: identifier "foo" is undefined',
        "a.cpp:1:10: fatal error: torch/all.h: No such file or directory",
        "a.o: undefined reference to `cudaMalloc'",
        "/usr/bin/ld: cannot find -lcudart: No such file or directory",
        "CMake Error at CMakeLists.txt:12 (find_package):",
        "nvcc fatal   : Unsupported gpu architecture 'compute_121a'",
        "ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'",
        "error[E0308]: mismatched types",
        "E: Unable to locate package liburing-dev",
        "Traceback (most recent call last):",
        "/bin/sh: 1: nvcc: not found",
    ],
)
def test_the_region_of_the_first_error(line: str) -> None:
    output = [f"[{i}/99] Building CXX" for i in range(80)]
    output[50] = line
    shown = excerpt([*output, "ninja: build stopped: subcommand failed."])
    assert shown[2] == line
    assert shown[-1] == "…"
    assert len(shown) == 21


def test_a_warning_is_no_error_and_without_one_the_last_lines_are_shown() -> None:
    output = [f"x.cpp:{i}: warning: unused [-Werror=unused]" for i in range(40)]
    assert excerpt(output) == output[-20:]


@pytest.mark.parametrize(
    "line",
    [
        "E: Failed to fetch http://m/y.deb  503  Service Unavailable [IP: 192.0.2.1 80]",
        "urllib.error.HTTPError: HTTP Error 502: Bad Gateway",
        "curl: (22) The requested URL returned error: 504",
        "toomanyrequests: You have reached your pull rate limit",
        "429 Too Many Requests",
        "curl: (56) Recv failure: Connection reset by peer",
        "net/http: TLS handshake timeout",
        "ReadTimeoutError: HTTPSConnectionPool: Read timed out. (read timeout=15)",
    ],
)
def test_transient_failures_are_tried_again(line: str) -> None:
    assert transient(ran("Get:1 …", line, "E: Unable to fetch some archives"))


@pytest.mark.parametrize(
    "output",
    [
        ("a.cu(3): error: no operator matches",),
        ("WARNING: Retrying after connection broken by 'ReadTimeoutError'", "a.c:1: error: x", ""),
        ("503 tests passed, 1 failed",),
        ("allocating 429 Megabytes",),
    ],
)
def test_real_failures_are_not(output: tuple[str, ...]) -> None:
    assert transient(ran(*output)) is None


def test_what_the_command_says_is_not_what_happened() -> None:
    command = (
        'process "/bin/sh -c make || echo Connection timed out" did not complete: exit code: 2'
    )
    assert transient(ran("x", error=command)) is None


def test_a_name_does_not_resolve_where_there_is_no_network() -> None:
    words = "Temporary failure in name resolution"
    assert transient(ran(words)) is None
    assert isinstance(explain(ran(words), returncode=1), NoNetwork)
    assert transient(ran(words, run="RUN --mount=type=cache,target=/x --network=default make"))


def test_kinds() -> None:
    full = explain(ran("as: write: No space left on device"), returncode=1)
    assert isinstance(full, DiskFull)
    killed = 'process "/bin/sh -c make" did not complete successfully: exit code: 137'
    assert isinstance(explain(ran("nvcc a.cu", error=killed), returncode=1), OutOfMemory)
    by_kernel = "c++: fatal error: Killed signal terminated program cc1plus"
    assert isinstance(explain(ran(by_kernel), returncode=1), OutOfMemory)
    unknown = explain(recorded("unknown-base.txt"), returncode=1)
    assert isinstance(unknown, BaseUnknown)
    assert "nosuchimage:1" in unknown.findings[0].what
    parse = explain(recorded("parse-error.txt"), returncode=1)
    assert isinstance(parse, DockerfileInvalid)
    assert "unknown instruction: FOO" in parse.findings[0].what
    assert parse.findings[0].place is not None
    assert parse.findings[0].place.line == 3


def test_the_engine_that_went_away() -> None:
    said = ["ERROR: failed to receive status: rpc error: code = Unavailable desc = EOF"]
    evidence = Evidence(None, said, Path("Dockerfile"), Path("b.log"))
    assert isinstance(explain(evidence, returncode=1), EngineGone)
    assert transient(evidence) is None
