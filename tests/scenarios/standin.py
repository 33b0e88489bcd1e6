"""Small sources that stand in for those of the lane r36: the same files, switches and gitlinks."""

from __future__ import annotations

from pathlib import Path

from tests.integration.repositories import Content, Repo

KERNEL = """
#include <cutlass/version.h>
__global__ void %s_kernel(float *x) { x[threadIdx.x] += CUTLASS_VERSION; }
extern "C" int %s(float *x) { %s_kernel<<<1, 32>>>(x); return CUTLASS_VERSION; }
"""
NVCC = """
import os, subprocess
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


class Nvcc(build_ext):
    def build_extension(self, ext):
        target = self.get_ext_fullpath(ext.name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        arch = {arch}
        subprocess.run(
            ["nvcc", "-O1", "-shared", "-Xcompiler", "-fPIC", "-I", "{include}",
             "-gencode", f"arch=compute_{{arch}},code=sm_{{arch}}", "-o", target, *ext.sources],
            check=True,
        )


"""
FROM_LIST = 'os.environ["TORCH_CUDA_ARCH_LIST"].replace(".", "")'
VLLM_CMAKE = """
cmake_minimum_required(VERSION 3.18)
project(vllm_extensions LANGUAGES CXX)
include(FetchContent)
set(CUTLASS_REVISION "v4.0.0")
if(DEFINED ENV{{VLLM_CUTLASS_SRC_DIR}})
  set(VLLM_CUTLASS_SRC_DIR $ENV{{VLLM_CUTLASS_SRC_DIR}})
endif()
if(VLLM_CUTLASS_SRC_DIR)
  FetchContent_Declare(cutlass SOURCE_DIR ${{VLLM_CUTLASS_SRC_DIR}})
else()
  FetchContent_Declare(cutlass GIT_REPOSITORY {cutlass} GIT_TAG ${{CUTLASS_REVISION}}
                       GIT_SHALLOW TRUE)
endif()
FetchContent_MakeAvailable(cutlass)
include(cmake/external_projects/flash_attn.cmake)
string(REPLACE "." "" arch "$ENV{{TORCH_CUDA_ARCH_LIST}}")
add_custom_command(OUTPUT _C.abi3.so
  COMMAND nvcc -O1 -shared -Xcompiler -fPIC -I ${{cutlass_SOURCE_DIR}}/include
          -I ${{flash-attn_SOURCE_DIR}}/csrc/cutlass/include
          -gencode arch=compute_${{arch}},code=sm_${{arch}}
          -o _C.abi3.so ${{CMAKE_SOURCE_DIR}}/csrc/ops.cu
  DEPENDS csrc/ops.cu)
add_custom_target(_C ALL DEPENDS _C.abi3.so)
install(FILES ${{CMAKE_BINARY_DIR}}/_C.abi3.so DESTINATION vllm)
"""
FLASH_CMAKE = """
if(DEFINED ENV{{FLASH_SRC_DIR}})
  set(FLASH_SRC_DIR $ENV{{FLASH_SRC_DIR}})
endif()
if(FLASH_SRC_DIR)
  FetchContent_Declare(flash-attn SOURCE_DIR ${{FLASH_SRC_DIR}})
else()
  FetchContent_Declare(flash-attn GIT_REPOSITORY {flash} GIT_TAG {commit}
                       GIT_SUBMODULES "csrc/cutlass")
endif()
FetchContent_MakeAvailable(flash-attn)
install(CODE "
  file(MAKE_DIRECTORY \\"\\${{CMAKE_INSTALL_PREFIX}}/vllm\\")
  file(CREATE_LINK \\"${{flash-attn_SOURCE_DIR}}/flash_attn/cute\\"
                   \\"\\${{CMAKE_INSTALL_PREFIX}}/vllm/cute\\" SYMBOLIC)")
"""
VLLM_SETUP = """
import os
from setuptools import find_packages, setup

assert os.environ["VLLM_TARGET_DEVICE"] == "empty", "nothing is to be compiled here"
setup(name="vllm", version=os.environ["VLLM_VERSION_OVERRIDE"], packages=find_packages())
"""
LMCACHE_SETUP = (
    NVCC.format(arch=FROM_LIST, include="csrc")
    + """
none = os.environ.get("NO_CUDA_EXT") == "1"
setup(name="lmcache", version=os.environ["SETUPTOOLS_SCM_PRETEND_VERSION_FOR_LMCACHE"],
      packages=[] if not os.path.isdir("lmcache") else ["lmcache"], cmdclass={"build_ext": Nvcc},
      ext_modules=[] if none else [Extension("lmcache.c_ops", ["csrc/ops.cu"])])
"""
)
FLASHKDA_SETUP = (
    """
import subprocess
subprocess.run(["git", "submodule", "update", "--init", "cutlass"])
"""
    + NVCC.format(arch='os.environ["FLASH_KDA_CUDA_ARCHS"]', include="cutlass/include")
    + """
setup(name="flash_kda", version="0.0.1" + os.environ["FLASH_KDA_VERSION_SUFFIX"],
      packages=["flash_kda"], cmdclass={"build_ext": Nvcc},
      ext_modules=[Extension("flash_kda_C", ["csrc/kda.cu"])])
"""
)
DEEPGEMM_SETUP = """
import os
from setuptools import Extension, setup

assert os.environ["DG_FORCE_BUILD"] == "1" and os.environ["DG_USE_LOCAL_VERSION"] == "0"
assert os.path.exists("third-party/fmt/fmt.h")
setup(name="deep_gemm", version="2.0.0", packages=["deep_gemm"],
      ext_modules=[Extension("deep_gemm._C", ["csrc/python_api.cpp"])])
"""
PLAIN_SETUP = 'from setuptools import setup\nsetup(name="{}", version="1.0", packages=["{}"])\n'

LANE = """
schema = 1
description = "A stand-in for r36-ds41"
image = "glm53-jovian"
repository = "{repository}"
platforms = ["host"]
[build]
cuda-arch-list = "12.1a"
python = "3.11"
args = {{ MAX_JOBS = "2" }}
[env]
VLLM_ATTENTION_BACKEND = "B12X"
GREETING = 'a "quoted" $HOME'
[base.runtime]
rootfs = ".demo/base/rootfs.tar"
made-by = "scripts/demo-base"

[sources.vllm]
url = "./repos/vllm.git"
track = {{ branch = "main" }}
native = ["CMakeLists.txt", "cmake", "csrc"]
[sources.lmcache]
url = "./repos/lmcache.git"
track = {{ branch = "main" }}
native = ["csrc", "setup.py"]
[sources.b12x]
url = "./repos/b12x.git"
track = {{ branch = "main" }}
[sources.flashinfer]
url = "./repos/flashinfer.git"
track = {{ branch = "main" }}
[sources.flashkda]
url = "./repos/flashkda.git"
track = {{ branch = "main" }}
[sources.deepgemm]
url = "./repos/deepgemm.git"
track = {{ branch = "main" }}

[deps.vllm-cmake]
from = "vllm"

[python.nvcc]
requirement = "nvidia-cuda-nvcc==13.5.37"
[python.crt]
requirement = "nvidia-cuda-crt==13.5.37"
[python.runtime]
requirement = "nvidia-cuda-runtime==13.5.37"
[python.nvvm]
requirement = "nvidia-nvvm==13.5.37"
[python.cccl]
requirement = "nvidia-cuda-cccl==13.3.5.0.6"
[python.cmake]
requirement = "cmake==3.31.6"
[python.ninja]
requirement = "ninja==1.11.1.4"
[debs.liburing-dev]
package = "liburing-dev"
[debs.liburing2]
package = "liburing2"

[[gates]]
kind = "marker"
source = "b12x"
file = "b12x/oneshot.py"
contains = "_PREPARED_ONESHOT_LAUNCHERS"
[[gates]]
kind = "cuda-arch"
files = ["opt/glm53/site/lmcache/*.so", "opt/glm53/site/flash_kda_C*.so"]
require = ["sm_121a"]
min-files = 2
[[gates]]
kind = "python"
import = "deep_gemm"
"""


class Sources:
    """The repositories, below `<project>/repos`."""

    def __init__(self, root: Path) -> None:
        def repo(name: str) -> Repo:
            return Repo(root / "repos" / f"{name}.git")

        self.cutlass, self.fmt, self.flash = repo("cutlass"), repo("fmt"), repo("flash")
        version: Content = "#define CUTLASS_VERSION 400\n"
        commit = self.cutlass.commit({"include/cutlass/version.h": version})
        self.cutlass.git("tag", "v4.0.0", commit)
        c_fmt = self.fmt.commit({"fmt.h": "fmt\n"})
        flash = self.flash.commit(
            {
                "flash_attn/cute/x.py": "import flash_attn.cute\n",
                **_module("csrc/cutlass", "../cutlass.git", commit),
            }
        )
        urls = {name: f"file://{root}/repos/{name}.git" for name in ("cutlass", "flash")}
        self.vllm, self.lmcache, self.flashkda = repo("vllm"), repo("lmcache"), repo("flashkda")
        self.vllm_files: dict[str, Content] = {
            "CMakeLists.txt": VLLM_CMAKE.format(**urls),
            "cmake/external_projects/flash_attn.cmake": FLASH_CMAKE.format(commit=flash, **urls),
            "csrc/ops.cu": KERNEL % (("vllm",) * 3),
            "setup.py": VLLM_SETUP,
            "vllm/__init__.py": "x = 1\n",
        }
        self.vllm.commit(self.vllm_files)
        self.lmcache.commit(
            {
                "setup.py": LMCACHE_SETUP,
                "csrc/ops.cu": (KERNEL % (("lmcache",) * 3)).replace("cutlass/", ""),
                "csrc/version.h": version,
                "lmcache/__init__.py": "",
            }
        )
        self.flashkda_files: dict[str, Content] = {
            "setup.py": FLASHKDA_SETUP,
            "csrc/kda.cu": KERNEL % (("kda",) * 3),
            "flash_kda/__init__.py": "",
            **_module("cutlass", "../cutlass.git", commit),
        }
        self.flashkda.commit(self.flashkda_files)
        repo("deepgemm").commit(
            {
                "setup.py": DEEPGEMM_SETUP,
                "csrc/python_api.cpp": 'extern "C" void *PyInit__C() { return nullptr; }\n',
                "deep_gemm/__init__.py": "",
                **_module("third-party/fmt", "../fmt.git", c_fmt),
            }
        )
        marker = "_PREPARED_ONESHOT_LAUNCHERS = {}\n"
        setup = PLAIN_SETUP.format("b12x", "b12x")
        repo("b12x").commit(
            {"setup.py": setup, "b12x/__init__.py": "", "b12x/oneshot.py": marker,
             "benchmarks/probe.cu": KERNEL % (("probe",) * 3)}
        )  # fmt: skip
        setup = PLAIN_SETUP.format("flashinfer-python", "flashinfer")
        repo("flashinfer").commit(
            {"setup.py": setup, "flashinfer/__init__.py": "",
             "csrc/norm.cu": KERNEL % (("norm",) * 3)}
        )  # fmt: skip


def _module(path: str, url: str, commit: str) -> dict[str, Content]:
    text = f'[submodule "{path}"]\n\tpath = {path}\n\turl = {url}\n'
    return {".gitmodules": text, path: ("160000", commit)}
