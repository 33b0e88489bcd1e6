"""The kinds on config, build and content against real images: one that is well, one that is not."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from builder.model.values import Verdict
from builder.steps.gates import Gate, LaneFacts, examine
from builder.steps.gates.entrypoint import Entrypoint
from builder.steps.gates.env import Env
from builder.steps.gates.headers import Headers
from builder.steps.gates.label import Label
from builder.steps.gates.layers import Layers
from builder.steps.gates.log import Log
from builder.steps.gates.ptxas import Ptxas
from builder.steps.gates.python_attr import PythonAttr
from builder.steps.gates.secrets import Secrets
from builder.steps.gates.size import Size
from builder.steps.gates.user import User
from builder.steps.gates.wheel_record import WheelRecord
from builder.tools.docker import DockerEngine

BASE = Path(__file__).parents[2] / ".demo/base/rootfs.tar"
TARGETS = ("base", "good", "bad", "owned")
TOKEN = "ghp_" + "aB3x" * 9

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(not BASE.is_file(), reason="no base: scripts/demo-base"),
]

DOCKERFILE = r"""
FROM scratch AS base
ADD rootfs.tar /

FROM base AS good
RUN <<'SH'
set -eu
mkdir -p /tmp/w/demo && cd /tmp/w
printf 'import torch_is_not_here\nclass Aligner:\n    def forward(self): ...\n' >demo/models.py
touch demo/__init__.py
printf '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n' \
    >pyproject.toml
printf '[project]\nname = "demo-dist"\nversion = "1.0"\n[tool.setuptools]\npackages = ["demo"]\n' \
    >>pyproject.toml
python3 -m pip wheel -q --no-index --no-build-isolation --no-deps -w /opt/wheels .
python3 -m pip install -q --no-index --break-system-packages --root-user-action=ignore /opt/wheels/*
mkdir -p /opt/triton/bin
printf '#!/bin/sh\n[ "$1" = --version ] && echo "release 12.8, V12.8.1" && exit\n' \
    >/opt/triton/bin/ptxas-blackwell
printf '[ "$2" = sm_120a ] || { echo "ptxas fatal: Value $2 is not defined"; exit 1; }\n' \
    >>/opt/triton/bin/ptxas-blackwell
chmod 755 /opt/triton/bin/*
echo 'vllm:x:1234:1234::/tmp:/bin/sh' >>/etc/passwd
rm -rf /tmp/w
SH
ENV LIBRARY_PATH=/usr/local/cuda/lib64:/opt/lib
LABEL maintainer=lab
USER vllm
ENTRYPOINT ["python3", "-m", "demo"]
CMD ["--help"]

FROM base AS owned
RUN chown 33:44 /etc/passwd && touch -c /etc/group && chmod 644 /etc/group && \
    python3 - <<'PY'
import os
value = bytes.fromhex("0100000200200000000000000000000000000000")
os.setxattr("/usr/bin/gzip", "security.capability", value)
PY
ENV LD_PRELOAD=/opt/x.so
HEALTHCHECK CMD true
USER nobody

FROM good AS bad
USER root
ARG GIT_TOKEN=@TOKEN@
RUN site=$(python3 -c 'import demo; print(demo.__path__[0])') && \
    echo 'changed = 1' >>$site/models.py && \
    echo "https://me:$GIT_TOKEN@github.example" >/root/.git-credentials && \
    echo "//npm.example/:_authToken=$GIT_TOKEN" >/root/.npmrc
RUN rm /root/.npmrc
ENTRYPOINT ["demo-serve"]
"""


@dataclass(frozen=True)
class Images:
    names: dict[str, str]

    def look(self, target: str, gate: Gate, facts: LaneFacts) -> tuple[Verdict, ...]:
        return examine((gate,), self.names[target], engine=DockerEngine(), facts=facts)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    context = tmp_path_factory.mktemp("kinds")
    (context / "Dockerfile").write_text(DOCKERFILE.replace("@TOKEN@", TOKEN))
    (context / "rootfs.tar").hardlink_to(BASE)
    names = {target: f"imgbuild-test-kinds-{os.getpid()}:{target}" for target in TARGETS}
    for target, name in names.items():
        command = ["docker", "buildx", "build", "--quiet", "--target", target, "--tag", name, "."]
        done = subprocess.run(command, cwd=context, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
    yield Images(names)
    subprocess.run(["docker", "rmi", "--force", *names.values()], capture_output=True, check=True)


@pytest.fixture(scope="module")
def facts(images: Images, tmp_path_factory: pytest.TempPathFactory) -> LaneFacts:
    folder = tmp_path_factory.mktemp("facts")
    log = folder / "build.log"
    lines = ("[a 1/1] RUN cmake", "[a 1/1]   x", "[a 1/1] done in 0.1 s")
    log.write_text("".join(f"    0.100 {line}\n" for line in lines))
    image = images.names["good"]
    made = subprocess.check_output(["docker", "create", image], text=True).strip()
    subprocess.run(["docker", "cp", f"{made}:/opt/wheels", str(folder)], check=True)
    subprocess.run(["docker", "rm", made], check=True, capture_output=True)
    (wheel,) = (folder / "wheels").glob("*.whl")
    former = DockerEngine().image(images.names["base"])
    return LaneFacts(
        "demo", "12.1a", wheels={"demo": wheel}, logs=(log,), former=former,
        bases={"runtime": images.names["base"]},
    )  # fmt: skip


ALLOWED = (
    "opt/**", "usr/local/**", "etc/**", "var/**", "home/**", "tmp/**", "root/**",
)  # fmt: skip
CONFIG = ("ENV LIBRARY_PATH", "LABEL *", "USER", "ENTRYPOINT", "CMD")
GOOD: tuple[tuple[Gate, str], ...] = (
    (Env("LIBRARY_PATH", contains="/usr/local/cuda/lib64"), "'/usr/local/cuda/lib64:/opt/lib'"),
    (Label("maintainer", "lab"), "'lab'"),
    (Entrypoint(("python3", "-m", "demo"), ("--help",)), "is what the image starts"),
    (User(name="vllm", uid=1234, root=False), "USER is vllm, its uid 1234"),
    (Size("2 GB", "50 MB"), ""),
    (PythonAttr("demo.models", "Aligner.forward"), "demo/models.py, line 3"),
    (WheelRecord("demo-dist", wheel="demo"), "1.0, "),
    (Headers(("stdio.h", "pthread.h")), "found and compiled"),
    (Headers(("vector",), "c++"), "found and compiled"),
    (Ptxas(("sm_120a",), ("/opt/triton/bin/ptxas*",)), "taken by /opt/triton/bin/ptxas-blackwell"),
    (Secrets(), "none in "),
    (Layers("runtime", ALLOWED, config=CONFIG), "all of them declared"),
    (Log(must=("^x$",)), "1 line is"),
)


@pytest.mark.parametrize(("gate", "says"), GOOD, ids=[f"{g.kind}" for g, _ in GOOD])
def test_passes(images: Images, facts: LaneFacts, gate: Gate, says: str) -> None:
    (verdict,) = images.look("good", gate, facts)
    assert verdict.passed, verdict
    assert says in verdict.seen


BAD: tuple[tuple[str, Gate, str, str], ...] = (
    ("good", Env("CUDA_HOME"), "is not set", "last stage"),
    ("good", Label("maintainer", "me"), "is 'lab', not 'me'", ""),
    ("bad", Entrypoint(("demo-serve",)), "demo-serve: not in PATH", "which stage"),
    ("bad", Entrypoint(cmd=("--help",)), "CMD is none, not ['--help']", "takes away the CMD"),
    ("bad", User(root=False), "USER is root, its uid 0; it must not be root", "USER"),
    ("good", Size("10 MB"), "over 10 MB", "docker history"),
    ("good", Size(growth="1 B"), "more than the lane's image before it", "docker history"),
    ("good", PythonAttr("demo.models", "Align"), "does not define Align (it has Aligner)", ""),
    ("bad", WheelRecord("demo-dist"), "demo/models.py differs from its RECORD", "after pip"),
    ("good", Headers(("curand_kernel.h",)), "curand_kernel.h: No such file", "-dev package"),
    ("good", Ptxas(("sm_121a",), ("/opt/triton/bin/ptxas*",)), "12.8 refuses sm_121a", "Triton"),
    (
        "good",
        Layers("runtime", ("usr/**", "etc/**"), config=CONFIG),
        "undeclared differences, such as added: opt/",
        "allow",
    ),
    ("good", Log(must=("NVFP4",)), "no line matches 'NVFP4'", ""),
)


@pytest.mark.parametrize(
    ("target", "gate", "says", "hint"),
    BAD,
    ids=[f"{g.kind}-{i}" for i, (_, g, _, _) in enumerate(BAD)],
)
def test_fails(
    images: Images, facts: LaneFacts, target: str, gate: Gate, says: str, hint: str
) -> None:
    verdict = next(v for v in images.look(target, gate, facts) if not v.passed)
    assert says in verdict.seen
    assert hint in verdict.hint


def test_owners_capabilities_and_config(images: Images, facts: LaneFacts) -> None:
    (verdict,) = images.look("owned", Layers("runtime", ()), facts)
    assert verdict.detail.splitlines() == [
        "changed: ENV LD_PRELOAD", "changed: HEALTHCHECK", "changed: USER", "changed: etc/passwd",
        "changed: usr/bin/gzip",
    ]  # fmt: skip
    assert "in `config`" in verdict.hint


def test_a_token_in_history_and_in_a_file(images: Images, facts: LaneFacts) -> None:
    verdicts = images.look("bad", Secrets(), facts)
    about = {v.about.partition(",")[0] for v in verdicts if not v.passed}
    assert about == {"history", "root/.git-credentials", "root/.npmrc"}
    (removed,) = (v for v in verdicts if v.about == "root/.npmrc")
    assert removed.seen.endswith("in layer 3, hidden by a later one")
    assert TOKEN not in str(verdicts)


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="no ptxas here")
def test_the_probe_itself_on_a_real_ptxas() -> None:
    from tests.unit.gates.fake_image import FakeImage

    (verdict,) = examine(
        (Ptxas(("sm_121a",), ("ptxas",)),), "x", engine=FakeImage(), facts=LaneFacts()
    )  # type: ignore[arg-type]
    assert verdict.passed
