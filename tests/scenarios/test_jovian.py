"""The image for GB10 with sources that stand in: every stage runs, with a real nvcc."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builder.steps import identity, lanes
from builder.tools.project import ProjectFolder
from tests.scenarios.conftest import Workplace, copy_project, docker
from tests.scenarios.standin import LANE, Sources

pytestmark = pytest.mark.docker

COMPILING = {"deepgemm", "flashkda", "lmcache-native", "vllm-native"}
IMAGE = "docker-images/glm53-jovian"


class Bench:
    """The stand-in lane and its sources in a project of their own; what was built first."""

    def __init__(self, root: Path, cache: Path) -> None:
        env = {"IMGBUILD_CACHE": str(cache), "IMGBUILD_STATE": str(root / "state")}
        self.place = Workplace(copy_project(root / "project"), env)
        self.root = self.place.root
        self.tag = f"imgbuild-standin-{root.name.lower()}"
        (self.root / "locks/standin.toml").write_text(LANE.format(repository=self.tag))
        self.sources = Sources(self.root)
        self.lock()
        self.first = self.build()

    def lock(self, *update: str) -> None:
        self.place.good("lock", "standin", *(("--update", *update) if update else ()))

    def build(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(self.place.good("build", "standin", "--json").out)
        return record

    def refused(self) -> str:
        """What a build says that must fail before a container is started."""
        done = self.place.run("build", "standin")
        assert done.code != 0
        assert not re.search(r"^  (\.\.|ok) build", done.err, re.MULTILINE), done.err
        return done.err


def ran(record: dict[str, Any]) -> set[str]:
    """The stages of which a RUN was not from the cache, by the build's record."""
    return {
        step["stage"]
        for step in record["steps"]
        if not step["cached"] and step["name"].startswith("RUN") and step["stage"]
    }


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("jovian"), shared_cache)
    yield made
    for line in docker("images", "--format", "{{.Repository}}:{{.Tag}}", f"{made.tag}*").split():
        subprocess.run(["docker", "rmi", "-f", line], capture_output=True, check=False)


def test_every_stage_runs_and_every_gate_holds(bench: Bench) -> None:
    record = bench.first
    assert {v["gate"] for v in record["verdicts"]} >= {"cuda-arch", "link", "pkg-config"}
    assert all(v["passed"] for v in record["verdicts"])
    probe = """
        cd /opt/glm53/site && python3 -m pip list --format freeze
        cat vllm/cute/x.py; ls -d lmcache/c_ops*.so flash_kda_C*.so; ls -d /src /out /build
        true
    """
    told = docker("run", "--rm", "--network", "none", f"{bench.tag}:local", "sh", "-c", probe)
    lines = told.splitlines()
    commit = bench.sources.vllm.git("rev-parse", "main")
    assert f"vllm==0.1.dev0+glm53.standin.{commit[:8]}" in lines
    assert "import vllm.vllm_flash_attn.cute" in lines, "a link into the deps was left"
    assert len([line for line in lines if line.endswith(".so")]) == 2
    assert not {"/src", "/out", "/build"} & set(lines)


def test_the_profile_is_in_the_image_and_can_be_exported(bench: Bench) -> None:
    exported = bench.place.good("inspect", f"{bench.tag}:local", "--env-file").out
    assert exported == 'GREETING=a "quoted" $HOME\nVLLM_ATTENTION_BACKEND=B12X\n'
    assert "VLLM_ATTENTION_BACKEND  B12X" in bench.place.good("inspect", f"{bench.tag}:local").out
    env = docker("image", "inspect", "-f", "{{json .Config.Env}}", f"{bench.tag}:local")
    held = dict(line.partition("=")[::2] for line in json.loads(env))
    assert held["GREETING"] == 'a "quoted" $HOME'
    lane = lanes.read_lane("standin", project=ProjectFolder(bench.root)).lane
    fingerprint = identity.cache_fingerprint(lane, lanes.read_lock(lane))[:12]
    assert held["TRITON_CACHE_DIR"] == f"/var/cache/glm53/{fingerprint}/triton"


def test_a_change_in_python_compiles_nothing(bench: Bench) -> None:
    bench.sources.vllm_files["vllm/__init__.py"] = "x = 2\n"
    bench.sources.vllm.commit(bench.sources.vllm_files)
    bench.lock("vllm")
    assert ran(bench.build()) == {"vllm"}


def test_a_change_in_csrc_runs_one_native_stage(bench: Bench) -> None:
    text = str(bench.sources.vllm_files["csrc/ops.cu"])
    bench.sources.vllm_files["csrc/ops.cu"] = text.replace("1, 32", "1, 64")
    bench.sources.vllm.commit(bench.sources.vllm_files)
    bench.lock("vllm")
    assert ran(bench.build()) & COMPILING == {"vllm-native"}


def test_another_environment_is_another_image_and_runs_nothing(bench: Bench) -> None:
    bench.place.edit("locks/standin.toml", ('"B12X"', '"FLASHINFER"'))
    bench.lock()
    record = bench.build()
    assert ran(record) == set()
    assert record["build_id"] != bench.first["build_id"]
    exported = bench.place.good("inspect", f"{bench.tag}:local", "--env-file").out
    assert "VLLM_ATTENTION_BACKEND=FLASHINFER\n" in exported


# --- what is caught before the build, by name


@pytest.fixture
def broken(bench: Bench) -> Iterator[Bench]:
    """The same project, put back afterwards."""
    kept = bench.root.with_name("kept")
    shutil.copytree(bench.root / "locks", kept / "locks")
    shutil.copytree(bench.root / IMAGE, kept / IMAGE)
    yield bench
    for part in ("locks", IMAGE):
        shutil.rmtree(bench.root / part)
        shutil.move(kept / part, bench.root / part)
    shutil.rmtree(kept)


def test_an_empty_submodule(broken: Bench) -> None:
    broken.place.edit(
        "locks/standin.toml",
        ("[sources.deepgemm]", '[sources.deepgemm]\nsubmodules = "none"'),
    )
    done = broken.place.run("lock", "standin")
    assert done.code == 4
    assert "deepgemm: the gitlink third-party/fmt is not filled" in done.err


def test_a_submodule_taken_out_of_the_lock(broken: Bench) -> None:
    path = broken.root / "locks/standin.lock"
    text = path.read_text()
    found = re.search(r"\[sources\.flashkda\.submodules\.cutlass\]\n(?:\S.*\n)+\n?", text)
    assert found is not None
    path.write_text(text.replace(found[0], ""))
    said = broken.refused()
    assert "flashkda" in said
    assert "error[content-mismatch]" in said


def test_a_dep_taken_out_of_the_lock(broken: Bench) -> None:
    path = broken.root / "locks/standin.lock"
    text = path.read_text()
    found = re.search(r"\[deps\.cutlass\]\n(?:\S.*\n)+\n?", text)
    assert found is not None
    path.write_text(text.replace(found[0], ""))
    said = broken.refused()
    assert "error[deps-drift]: vllm: CMakeLists.txt:12 fetches cutlass" in said


@pytest.mark.parametrize("stage", sorted(COMPILING - {"deepgemm"}))
def test_one_stage_without_its_architectures(broken: Bench, stage: str) -> None:
    path = broken.root / IMAGE / "Dockerfile"
    text = path.read_text()
    start = text.index(f" AS {stage}\n")
    declared = "ENV TORCH_CUDA_ARCH_LIST=${TORCH_CUDA_ARCH_LIST}\n"
    at = text.index(declared, start)
    path.write_text(text[:at] + text[at + len(declared) :])
    text = path.read_text()
    argument = "ARG TORCH_CUDA_ARCH_LIST\n"
    at = text.index(argument, start)
    path.write_text(text[:at] + text[at + len(argument) :])
    broken.lock()
    said = broken.refused()
    assert "error[arch-missing]" in said
    assert f"stage {stage} compiles" in said


# --- files that someone baked into an image, and an image that is extended


def test_files_baked_into_an_image_become_a_patch_set(broken: Bench) -> None:
    site = "/usr/local/lib/python3.11/dist-packages"
    recipe = f"""
        FROM {broken.tag}:local
        RUN cd {site} && echo 'x = 3' >vllm/__init__.py && echo 'y = 1' >vllm/extra.py && \
            mkdir /opt/overlay && sha256sum "$PWD"/vllm/*.py b12x/oneshot.py >/opt/overlay/list && \
            sed -i "s|  b12x|  $PWD/b12x|" /opt/overlay/list
    """
    image = f"{broken.tag}:baked"
    subprocess.run(["docker", "build", "-q", "-t", image, "-"], input=recipe, text=True, check=True,
                   capture_output=True)  # fmt: skip
    words = ("patch", "extract", image, "--manifest", "/opt/overlay/list", "--lane", "standin")
    done = broken.place.good(*words, "--source", "vllm", "--set", "overlay")
    assert f"not of vllm: {site}/b12x/oneshot.py" in done.out
    names = [line for line in done.out.splitlines() if line.startswith("+ ")]
    assert [n.rpartition("-vllm-")[2] for n in names] == ["__init__.py.patch", "extra.py.patch"]
    broken.place.edit(
        "locks/standin.toml", ("[sources.vllm]", '[sources.vllm]\npatches = ["vllm/overlay"]')
    )
    assert broken.place.good("patch", "check", "standin").out.count("applied") == 2
    broken.lock()
    assert ran(broken.build()) & COMPILING == set()
    shutil.rmtree(broken.root / "patches/vllm")


EXTENDED = """
schema = 1
image = "extend"
repository = "{repository}"
platforms = ["host"]
[build]
cuda-arch-list = "12.1a"
python = "3.11"
[base.image]
rootfs = ".demo/base/rootfs.tar"
made-by = "scripts/demo-base"
[python.iniconfig]
requirement = "iniconfig==2.0.0"
[[gates]]
kind = "wheel-record"
distribution = "iniconfig"
wheel = "iniconfig"
[[gates]]
kind = "layers"
base = "image"
files = ["usr/**", "opt/**"]
allow = [
    "usr/local/lib/python3.11/dist-packages/iniconfig*",
    "usr/local/lib/python3.11/dist-packages/iniconfig*/**",
]
"""


def test_an_image_is_extended_and_nothing_else_changes(bench: Bench) -> None:
    lane = bench.root / "locks/extended.toml"
    lane.write_text(EXTENDED.format(repository=f"{bench.tag}-extended"))
    try:
        bench.place.good("lock", "extended")
        record = json.loads(bench.place.good("build", "extended", "--json").out)
        assert {v["gate"] for v in record["verdicts"]} == {"wheel-record", "layers"}
        bench.place.edit(
            "docker-images/extend/Dockerfile",
            ("--root /out", "--root /out -v"),
            ("find /out -exec", "touch /out/usr/local/lib/more\nfind /out -exec"),
        )
        bench.place.good("lock", "extended")
        done = bench.place.run("build", "extended")
        assert done.code == 7
        assert "error[gate-layers]" in done.err
        assert "usr/local/lib/more" in done.err
        bench.place.edit("locks/extended.toml", ('"iniconfig==2.0.0"', '"setuptools==66.1.1"'),
                         ("[python.iniconfig]", "[python.setuptools]"))  # fmt: skip
        bench.place.edit("locks/extended.toml", ('wheel = "iniconfig"', 'wheel = "setuptools"'))
        bench.place.good("lock", "extended")
        assert "the base holds setuptools already" in bench.place.run("build", "extended").err
    finally:
        lane.unlink()
        lane.with_suffix(".lock").unlink()
