"""The analysis of Dockerfiles: each finding once where it is due, none where it is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from builder.errors import Finding, Place
from builder.model.lane import Base, Build, Lane, Source
from builder.steps import preflight
from builder.steps.gates import Gate
from builder.steps.gates.log import Log
from builder.steps.gates.package import Package
from builder.steps.gates.pkg_config import PkgConfig

FILE = Path("docker-images/x/Dockerfile")
BASE = "imgbuild-base:1"
LANE = Lane(
    1, "x", "x", ("linux/arm64",), Build("12.1a"),
    {"kern": Source("https://x/kern"), "pure": Source("https://x/pure")},
    {"runtime": Base(rootfs="x.tar")},
)  # fmt: skip
TOKEN = "hf_" + "a1B2" * 8


def findings(
    text: str,
    *gates: Gate,
    packages: set[str] | None = None,
    lane: Lane = LANE,
    contexts: preflight.Contexts | None = None,
    control: Mapping[str, Mapping[str, str]] | None = None,
) -> list[Finding]:
    """`packages` are the base's, None: unknown."""
    report = preflight.Preflight()
    preflight.dockerfile(
        report, lane, [(gate, Place(Path("lane.toml"))) for gate in gates], text.encode(), FILE,
        args={"TORCH_CUDA_ARCH_LIST": lane.build.cuda_arch_list, "BASE_RUNTIME": BASE,
              "MAX_JOBS": "4"},
        cuda={"kern"}, bases={} if packages is None else {BASE: packages}, platform="linux/arm64",
        contexts=contexts or preflight.Contexts(), control=(control or {}).get,
    )  # fmt: skip
    return report.findings


def found(text: str, *gates: Gate, packages: set[str] | None = None) -> list[str]:
    """`level code line` of each finding."""
    return told(findings(text, *gates, packages=packages))


def told(found: Sequence[Finding]) -> list[str]:
    return [f"{f.level} {f.code} {f.place.line if f.place else 0}" for f in found]


HEAD = "ARG BASE_RUNTIME\nFROM ${BASE_RUNTIME} AS base\n"
KERN = "ADD sources/kern-native.tar /src/\n"
LIST = "ARG TORCH_CUDA_ARCH_LIST\nENV TORCH_CUDA_ARCH_LIST=${TORCH_CUDA_ARCH_LIST}\n"
OFF = "RUN --network=none "


def stage(*lines: str) -> str:
    return HEAD + "FROM base\n" + KERN + "".join(f"{line}\n" for line in lines)


MAKE = "make -C /src/kern"
CLONED = HEAD + "FROM base\nENV TORCH_CUDA_ARCH_LIST=9.0\nWORKDIR /x/kern\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEAD + "FROM base\n" + LIST + KERN + OFF + MAKE, []),
        (stage("ARG TORCH_CUDA_ARCH_LIST", OFF + MAKE), []),
        (stage("ARG TORCH_CUDA_ARCH_LIST=9.0a", OFF + MAKE), []),
        (stage(OFF + MAKE), ["error arch-missing 5"]),
        (stage("ENV TORCH_CUDA_ARCH_LIST=12.0a", OFF + MAKE), ["error arch-differs 6"]),
        (stage("ENV TORCH_CUDA_ARCH_LIST='12.1a;9.0a'", OFF + MAKE), ["error arch-differs 6"]),
        (stage("ARG LIST=12.0a", "ENV TORCH_CUDA_ARCH_LIST=$LIST", OFF + MAKE),
         ["error arch-differs 7"]),
        (stage(OFF + "TORCH_CUDA_ARCH_LIST=12.1a " + MAKE), []),
        (stage(OFF + "export TORCH_CUDA_ARCH_LIST=12.0a && " + MAKE), ["error arch-differs 5"]),
        (stage(OFF + "if x; then TORCH_CUDA_ARCH_LIST=9.0 make -C /src/kern; fi"),
         ["warning arch-differs 5"]),
        (stage(OFF + "TORCH_CUDA_ARCH_LIST=$(./list) " + MAKE), []),
        (stage(OFF + "cmake -S /src/kern -B b -DCMAKE_CUDA_ARCHITECTURES=121a"), []),
        (stage("ENV FLASHINFER_CUDA_ARCH_LIST=12.1a", OFF + "pip wheel /src/kern"), []),
        (stage(OFF + "nvcc -arch=sm_120a x.cu"), []),
        (stage(OFF + "nvcc x.cu -o x"), ["error arch-missing 5"]),
        (stage(OFF + "nvcc --version && make --version && which nvcc"), []),
        (stage(OFF + "cd /src/kern && python3 setup.py bdist_wheel"), ["error arch-missing 5"]),
        (stage(OFF + "uv pip install --no-deps /src/kern"), ["error arch-missing 5"]),
        (stage("WORKDIR /src/kern", OFF + "pip install --no-deps ."), ["error arch-missing 6"]),
        (stage(OFF + "pip install -r /src/kern/requirements.txt /wheels/*.whl"), []),
        (stage(OFF + "<<EOF", "cd /src/kern", "ninja -C build", "EOF"), ["error arch-missing 5"]),
        (stage("ADD sources/pure.tar /src/", OFF + "pip install /src/pure"), []),
        (HEAD + "FROM base\nADD sources/kern-rest.tar /src/\nRUN pip install /src/kern", []),
        (stage("ARG TORCH_CUDA_ARCH_LIST", "RUN " + MAKE), ["warning network-open 6"]),
        (HEAD + "FROM base AS a\n" + LIST + "FROM a\n" + KERN + OFF + MAKE,
         ["warning arch-inherited 8"]),
        (HEAD + "FROM base AS a\nARG TORCH_CUDA_ARCH_LIST\nFROM a\n" + KERN + OFF + MAKE,
         ["error arch-missing 7"]),
        (HEAD + "FROM base AS unused\n" + KERN + OFF + MAKE + "\nFROM base\n", []),
        (HEAD + "FROM base\nCOPY . /src\nRUN cd /src && python3 setup.py install\n", []),
        (CLONED + "RUN pip install .", ["warning arch-differs 6"]),
        (CLONED + "ENV USE_PRECOMPILED=1\nRUN pip install .", []),
        (CLONED + "ENV USE_PRECOMPILED=0\nRUN pip install .", ["warning arch-differs 7"]),
        (CLONED + "RUN X_PRECOMPILED_WHEEL_LOCATION=$(ls /w/*.whl) pip install .", []),
        (CLONED + 'ARG USE_PRECOMPILED=\nRUN USE_PRECOMPILED="$USE_PRECOMPILED" pip install .',
         ["warning arch-differs 7"]),
        (stage("ENV USE_PRECOMPILED=1", OFF + MAKE), ["error arch-missing 6"]),
        (HEAD + LIST + "FROM base\nRUN cd /x/kern && pip install .", ["warning arch-inherited 6"]),
        (HEAD + LIST + "FROM base\nRUN cd /kern/x && pip install .", []),
        (HEAD + "FROM base AS a\n" + LIST + "FROM base\nRUN cd /x/kern && pip install .",
         ["warning arch-missing 7"]),
    ],
)  # fmt: skip
def test_architectures_and_network(text: str, expected: list[str]) -> None:
    assert found(text) == expected


CACHED = "RUN --network=none --mount=type=cache,target=%s "
MASKED = ["warning failure-masked 3"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (CACHED % "/build" + "cmake -S /src/kern -B /build", ["warning cache-shared 6"]),
        (CACHED % "/build/,id=b" + "make -C /build/kern", ["warning cache-shared 6"]),
        (CACHED % "/src/kern/build" + "cd /src/kern/build && ninja", ["warning cache-shared 6"]),
        (CACHED % "/build,id=b-${KERN_NATIVE}" + "cmake -S /src/kern -B /build", []),
        (CACHED % "/build,id=b-$BUILD_ID" + "cmake -S /src/kern -B /build", []),
        (CACHED % "/build,id=b-${TORCH_CUDA_ARCH_LIST}" + "cmake -S /src/kern -B/build",
         ["warning cache-shared 6"]),
        (CACHED % "/root/.cache/ccache" + MAKE, []),
        (CACHED % "/root/.cache/uv" + "uv pip install /src/kern", []),
        (CACHED % "/buildings" + "cmake -S /src/kern -B /build", []),
    ],
)  # fmt: skip
def test_caches_of_another_source(line: str, expected: list[str]) -> None:
    assert found(stage("ARG TORCH_CUDA_ARCH_LIST", line)) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("RUN export TAG=$(jq -r .tag x.json) && ./build", MASKED),
        ("RUN export A=1 TAG=`git describe` && ./build", MASKED),
        ('RUN export TAG="v$(jq -r .tag x.json)"; ./build', MASKED),
        ("RUN <<EOF\nset -e\nexport TAG=$(jq -r .tag x.json)\nEOF", MASKED),
        ("RUN TAG=$(jq -r .tag x.json) && export TAG", []),
        ("RUN export N=$(nproc) D=$((1+2)) && ./build", []),
        ("RUN echo 'export TAG=$(jq .)' >>/etc/profile", []),
        ("RUN export TAG='$(jq .)'", []),
        ('RUN export PATH="$HOME/bin:$PATH"', []),
        ("RUN cat >x <<EOF\nexport TAG=$(jq .)\nEOF", []),
    ],
)
def test_failures_behind_export(line: str, expected: list[str]) -> None:
    assert found(HEAD + line + "\n") == expected


DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEAD, []),
        ("FROM scratch\n", []),
        (f"FROM nvidia/cuda:13@{DIGEST}\n", []),
        ("FROM nvidia/cuda:13\n", ["error from-unpinned 1"]),
        ("ARG V=13\nFROM nvidia/cuda:${V}-devel AS a\nFROM scratch\n", ["warning from-unpinned 2"]),
        (f"FROM {DIGEST}\n", ["error from-bare-digest 1"]),
        ("FROM ${BASE_RUNTIME}\n", ["error from-empty 1"]),
        ("ARG BASE_NONE\nFROM ${BASE_NONE}\n", ["error from-empty 2"]),
        (HEAD + "COPY --from=ghcr.io/astral-sh/uv:0.9 /uv /bin/\n", ["error from-unpinned 3"]),
        (HEAD + "RUN --mount=type=bind,from=wheels,target=/w pip install /w/a.whl\n", []),
        (HEAD + "RUN --mount=type=bind,from=x:1,target=/w ls\n", ["error from-unpinned 3"]),
        (HEAD + "FROM base\nCOPY --from=base /a /a\nCOPY --from=0 /a /a\n", []),
        ("# syntax=docker/dockerfile:1\n" + HEAD, ["warning syntax-unpinned 1"]),
        (f"# syntax=docker/dockerfile:1@{DIGEST}\n" + HEAD, []),
        (HEAD + f"ENV HF_TOKEN={TOKEN}\n", ["error secret-in-dockerfile 3"]),
        (HEAD + f"ARG NOTE={TOKEN}\n", ["error secret-in-dockerfile 3"]),
        (HEAD + "ARG GITHUB_TOKEN\n", ["warning secret-argument 3"]),
        (HEAD + "ARG SCCACHE_S3_NO_CREDENTIALS\nARG CACHE_KEY\nENV TOKENIZERS_PARALLELISM=0\n", []),
        (HEAD + "onbuild USER root\n", ["error onbuild 3"]),
        (HEAD + "ONBUILD USER root\nFROM base\n", []),  # run there, and gone
        ("RUN x\n", ["error dockerfile 1"]),
    ],
)  # fmt: skip
def test_references_and_secrets(text: str, expected: list[str]) -> None:
    assert found(text) == expected


STAGES = "FROM base AS Native\nRUN make\nFROM base AS files\nFROM base AS other\nRUN x\nFROM base\n"
STAGES += "COPY --from=native /a /a\nCOPY --from=files /a /b\nRUN y\n"


@pytest.mark.parametrize(
    ("stage", "says"),
    [
        ("", ""),
        ("Native", ""),
        ("native", ""),
        ("stage-4", ""),
        ("native-typo", "does not have; did you mean 'native'?"),
        ("nothing", "does not have; stages that run something: Native, stage-4"),
        ("other", "is not built: the last stage takes nothing from it; stages that"),
        ("files", "has no RUN; stages that run something"),
    ],
)
def test_stages_of_gates_on_the_log(stage: str, says: str) -> None:
    report = preflight.Preflight()
    place = Place(Path("lane.toml"), 7)
    preflight.dockerfile(
        report, LANE, [(Log(must_not=("x",), stage=stage), place)], (HEAD + STAGES).encode(), FILE,
        args={"BASE_RUNTIME": BASE}, cuda=(), bases={},
    )  # fmt: skip
    found = [f for f in report.findings if f.code == "log-stage"]
    assert [(f.level, f.place) for f in found] == ([("error", place)] if says else [])
    assert all(says in f"{f.what}; {f.hint}" for f in found)


URING = Package("liburing-dev")
MISSING = ["error package-not-installed None"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("", MISSING),
        ("RUN apt-get update && apt-get install -y liburing-dev=2.5* curl", []),
        ("RUN apt-get install -y --no-install-recommends liburing2 curl", MISSING),
        ("RUN apt-get install -y build-essential", []),  # may bring it: not known
        ("RUN apt-get install -y $PACKAGES", []),
        ("ENV P='curl liburing-dev'\nRUN apt-get install -y $P", []),
        ("ENV P=curl\nRUN apt-get install -y $P", MISSING),
        ("RUN dpkg -i /debs/liburing2_*.deb /debs/liburing-dev_*.deb", []),
        ("RUN dpkg -i /debs/liburing2_*.deb", MISSING),
        ("RUN dpkg -i /debs/*.deb", []),
        ("COPY install.sh /\nRUN sh /install.sh", []),
        ("RUN ./install.sh", []),
        ("COPY --from=other:1 / /", []),
        ("FROM base AS b\nRUN apt-get install -y liburing-dev\nFROM base", MISSING),
        ("FROM base AS b\nRUN apt-get install -y liburing-dev\nFROM base\nCOPY --from=b / /", []),
        ("FROM base AS b\nRUN apt-get install -y liburing-dev\nFROM b", []),
    ],
)
def test_packages_of_the_last_stage(lines: str, expected: list[str]) -> None:
    text = HEAD + "FROM base\n" + lines + "\n"
    seen = [each for each in found(text, URING, packages={"bash"}) if "package-" in each]
    assert seen == expected
    over_unknown = [e for e in found(text, URING) if "package-" in e]
    assert over_unknown == [e.replace("error", "warning") for e in expected]


def test_packages_that_the_base_brings() -> None:
    assert found(HEAD, URING, packages={"liburing-dev"}) == []


def test_pkg_config_asks_for_its_package() -> None:
    assert found(HEAD, PkgConfig("liburing"), packages={"bash"}) == MISSING
    built = HEAD + "RUN git clone https://x/liburing && make -C liburing install\n"
    assert found(built, PkgConfig("liburing"), packages={"bash"}) == ["warning network-open 3"]
    assert found(HEAD, PkgConfig("some-module"), packages={"bash"}) == []


def test_the_demo_has_no_finding() -> None:
    text = (Path(__file__).parents[3] / "docker-images/demo/Dockerfile").read_text()
    assert found(text, URING, PkgConfig("liburing"), packages={"bash"}) == []
