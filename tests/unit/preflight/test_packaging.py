"""Which Python builds compile, by trees of the shapes that are met; the image of the real lanes
over such trees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from builder.errors import Finding
from builder.model.lane import Base, Build, Lane, Source
from builder.steps import preflight
from builder.steps.preflight.packaging import packs_only

ROOT = Path(__file__).parents[3]
SETUPTOOLS = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
IN_TREE = '[build-system]\nrequires = []\nbuild-backend = "build_backend"\nbackend-path = ["."]\n'
EXTENSION = (
    "from torch.utils.cpp_extension import BuildExtension, CUDAExtension\nfrom setuptools import"
    " setup\nsetup(ext_modules=[CUDAExtension('x._C', [])], cmdclass={'build_ext': BuildExtension})"
)
PACKS = "import shutil, subprocess\nfrom setuptools import build_meta as orig\n"
Tree = dict[str, str]
# FlashInfer's wheel takes its CUDA files as data for its JIT compiler; b12x has benchmarks in CUDA.
FLASHINFER: Tree = {
    "pyproject.toml": IN_TREE,
    "build_backend.py": PACKS + "from build_utils import version\n['ninja']; ['nvcc', '--version']",
    "build_utils.py": "version = '0.6.17'\n",
    "csrc/norm.cu": "", "include/flashinfer/norm.cuh": "",
    "flashinfer-jit-cache/pyproject.toml": IN_TREE,
    "flashinfer-jit-cache/build_backend.py": PACKS + "from flashinfer.aot import compile_all\n",
}  # fmt: skip
B12X: Tree = {"pyproject.toml": SETUPTOOLS, "benchmarks/probe.cu": "", "b12x/__init__.py": ""}
TREES: dict[str, Tree] = {
    "vllm": {"setup.py": "class CMakeExtension(Extension): ...", "csrc/ops.cu": ""},
    "lmcache": {
        "pyproject.toml": SETUPTOOLS, "setup.py": "from setup_extensions import common\n",
        "setup_extensions/common.py": EXTENSION, "csrc/mem.cu": "",
    },
    "b12x": B12X,
    "flashinfer": FLASHINFER,
    "flashkda": {"setup.py": EXTENSION, "csrc/smxx/kda.cu": ""},
    "deepgemm": {"setup.py": EXTENSION, "deep_gemm/include/gemm.cuh": ""},
}  # fmt: skip


@pytest.mark.parametrize(
    ("tree", "folder", "expected"),
    [
        (FLASHINFER, "", True),
        (FLASHINFER, "flashinfer-jit-cache", False),
        (B12X, "", True),
        ({"setup.py": EXTENSION}, "", False),
        ({"setup.py": "from setuptools import setup\nsetup()"}, "", True),
        (TREES["lmcache"], "", False),
        ({"pyproject.toml": SETUPTOOLS + '[tool.setuptools]\next-modules = []'}, "", False),
        ({"pyproject.toml": SETUPTOOLS.replace("setuptools.build_meta", "mesonpy")}, "", False),
        ({"pyproject.toml": SETUPTOOLS.replace("setuptools.build_meta", "hatchling.build"),
          "setup.py": EXTENSION}, "", True),
        ({"pyproject.toml": IN_TREE}, "", False),  # its backend is not there
        ({"pyproject.toml": "[build-system"}, "", False),
        ({"python/setup.py": "setup()", "setup.py": EXTENSION}, "python", True),
    ],
)  # fmt: skip
def test_what_a_python_build_compiles(tree: Tree, folder: str, expected: bool) -> None:
    assert packs_only(folder, tree, reading(tree)) is expected


def reading(tree: Tree) -> Callable[[str], bytes | None]:
    return lambda path: tree[path].encode() if path in tree else None


def jovian(trees: dict[str, Tree], text: str, args: dict[str, str]) -> list[Finding]:
    """What is said of the image of the real lanes."""
    lane = Lane(
        1, "glm53-jovian", "x", ("linux/arm64",), Build("12.1a", args=args),
        {name: Source(f"https://x/{name}") for name in trees}, {"runtime": Base(ref="x")},
    )  # fmt: skip
    cuda, plain = preflight.device_code({n: (t, reading(t)) for n, t in trees.items()}, lane)
    report = preflight.Preflight()
    preflight.dockerfile(
        report, lane, [], text.encode(), ROOT / "docker-images/glm53-jovian/Dockerfile",
        args={"TORCH_CUDA_ARCH_LIST": "12.1a", "BASE_RUNTIME": f"x@sha256:{'0' * 64}", **args},
        cuda=cuda, plain=plain, bases={}, platform="linux/arm64",
        contexts=preflight.Contexts(None, {"wheels": {}, "debs": {}}),
    )  # fmt: skip
    return report.findings


DOCKERFILE = (ROOT / "docker-images/glm53-jovian/Dockerfile").read_text()


@pytest.mark.parametrize("without", [set(), {"deepgemm"}, {"flashinfer", "flashkda"}])
@pytest.mark.parametrize("args", [{}, {"BASE_KIND": "vllm"}])
def test_the_image_of_the_real_lanes_has_no_finding(
    without: set[str], args: dict[str, str]
) -> None:
    trees = {name: tree for name, tree in TREES.items() if name not in without}
    assert jovian(trees, DOCKERFILE, args) == []


@pytest.mark.parametrize("name", ["flashkda", "deepgemm", "lmcache", "vllm"])
def test_but_for_a_stage_that_compiles_without_its_list(name: str) -> None:
    stage = name if name in ("flashkda", "deepgemm") else f"{name}-native"
    head, start, rest = DOCKERFILE.partition(f" AS {stage}\n")
    declared = "ARG TORCH_CUDA_ARCH_LIST\n"
    env = "ENV TORCH_CUDA_ARCH_LIST=${TORCH_CUDA_ARCH_LIST}\n"
    text = head + start + rest.replace(declared, "", 1).replace(env, "", 1)
    (found,) = jovian(TREES, text, {})
    assert found.code == "arch-missing"
    assert f"stage {stage} compiles" in found.what
