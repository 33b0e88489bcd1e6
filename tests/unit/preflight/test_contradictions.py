"""Gates that the lane itself denies, and what stages fetch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from builder.model.lane import Build
from builder.model.lock import Lock, LockedImage, LockedPackage
from builder.steps.gates.cuda_arch import CudaArch
from builder.steps.gates.env import Env
from builder.steps.gates.package import Package
from builder.steps.preflight.contradictions import contradictions
from tests.unit.preflight.test_dockerfile import HEAD, LANE, LIST, findings, found

CASES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("12.1a", {"require": ("sm_121a",)}, []),
    ("12.0a", {"require": ("sm_121a",)}, ["error"]),
    ("12.1a", {"require": ("sm_120a", "sm_121a")}, ["error"]),
    ("12.0a;12.1a", {"require": ("sm_120a", "sm_121a")}, []),
    ("12.1a", {"require": ("sm_90",)}, ["error"]),
    ("12.1a", {"require": ("sm_120",)}, ["warning"]),  # what comes built may have it, and runs
    ("12.1a", {"require": ("sm_120f",)}, ["warning"]),
    ("12.0", {"require": ("sm_121",)}, ["error"]),
    ("12.0+PTX", {"require": ("sm_120", "compute_120")}, []),
    ("12.0+PTX", {"require": ("sm_121",), "allow_ptx": True}, []),
    ("9.0a 10.0a", {"require": ("sm_100a",)}, []),
    ("Hopper", {"require": ("sm_121a",)}, []),
    ("12.1a", {"require": (), "forbid": ("sm_121a",)}, ["error"]),
    ("12.1a", {"require": (), "forbid": ("sm_120a",)}, []),
]


@pytest.mark.parametrize(("text", "gate", "expected"), CASES)
def test_architectures_that_the_list_does_not_give(
    text: str, gate: dict[str, Any], expected: list[str]
) -> None:
    lane = replace(LANE, build=Build(text))
    report = findings(HEAD, CudaArch("opt/**/*.so", **gate), lane=lane)
    assert [f.level for f in report if f.code == "gate-contradicts"] == expected


@pytest.mark.parametrize(
    ("text", "gate", "expected"),
    [
        ("12.1a", Env("TORCH_CUDA_ARCH_LIST", value="12.1a"), 0),
        ("12.0a", Env("TORCH_CUDA_ARCH_LIST", value="12.1a"), 1),
        ("12.0a", Env("TORCH_CUDA_ARCH_LIST", matches="12\\.1.*"), 1),
        ("12.1a", Env("TORCH_CUDA_ARCH_LIST", absent=True), 1),
        ("12.0a", Env("FLASHINFER_CUDA_ARCH_LIST", value="12.1a"), 0),  # the base may have it
        ("12.0a", Env("PATH", contains="/usr/local/cuda/bin"), 0),
    ],
)
def test_the_list_in_the_environment(text: str, gate: Env, expected: int) -> None:
    lane = replace(LANE, build=Build(text))
    report = findings(HEAD + "FROM base\n" + LIST, gate, lane=lane)
    assert [f.code for f in report] == ["gate-contradicts"] * expected


@pytest.mark.parametrize(("version", "expected"), [("2.5*", 1), ("2.3*", 0), ("", 0)])
def test_the_version_of_a_locked_package(version: str, expected: int) -> None:
    locked = LockedPackage(f"sha256:{'0' * 64}", "liburing-dev", "2.3-3", {})
    lock = Lock(1, LockedImage(f"sha256:{'0' * 64}"), debs={"uring": locked})
    gates = [(Package("liburing-dev", version), None)]
    from builder.steps.dockerfile import parse
    from builder.steps.preflight.values import valued

    last = valued(parse(b"FROM x\n", None), {})[-1]  # type: ignore[arg-type]
    report = list(contradictions(gates, LANE, lock, last))  # type: ignore[arg-type]
    assert len(report) == expected


OPEN = ["warning network-open 4"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("RUN apt-get update && apt-get install -y curl", OPEN),
        ("RUN --network=default apt-get install -y curl", OPEN),
        ("RUN --network=none apt-get install -y curl", []),
        ("RUN apt-get install -y /debs/curl_1_all.deb", []),
        ("RUN pip install requests", OPEN),
        ("RUN python3 -m pip install -U pip", OPEN),
        ("RUN uv pip install torch==2.9.0", OPEN),
        ("RUN pip install -r requirements.txt", OPEN),
        ("RUN pip install git+https://x.invalid/y.git", OPEN),
        ("RUN pip install --no-index --find-links /wheels torch", []),
        ("RUN pip install --require-hashes -r requirements.txt", []),
        ("RUN pip install --no-deps /wheels/torch-2.9-cp312.whl ./kern .", []),
        ("RUN PIP_NO_INDEX=1 pip install torch", []),
        ("RUN pip list && pip show torch", []),
        ("RUN WHEEL=$(ls /w/*.whl) && pip install $WHEEL", []),
        ("ARG WANTED='requests six'\nRUN pip install $WANTED", ["warning network-open 5"]),
        ("ARG WHEEL=/w/x.whl\nRUN pip install $WHEEL", []),
        ("RUN curl -fsSL https://x.invalid/y | sh", OPEN),
        ("RUN wget -q https://x.invalid/y", OPEN),
        ("RUN curl -s localhost:8000/health", []),
        ("RUN git clone --depth 1 https://x.invalid/y.git", OPEN),
        ("RUN git -C /src submodule update --init", OPEN),
        ("RUN git -C /src apply x.patch && git rev-parse HEAD", []),
        ("RUN npm ci", OPEN),
        ("RUN apt-get install -y curl\nRUN apt-get install -y git", OPEN),
        ("RUN echo apt-get install curl", []),
    ],
)
def test_what_a_stage_fetches(line: str, expected: list[str]) -> None:
    assert found(HEAD + "FROM base\n" + line + "\n") == expected


def test_the_cure_of_what_is_fetched() -> None:
    (apt,) = findings(HEAD + "RUN apt-get update && apt-get install -y curl\n")
    assert "fetches curl with apt-get" in apt.what
    assert "[debs.NAME]" in apt.hint
    (pip,) = findings(HEAD + "RUN --network=default pip install requests\n")
    assert "the lock does not pin it" in pip.what
    assert "[python.NAME]" in pip.hint
