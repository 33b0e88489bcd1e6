"""Files that this machine's nvcc makes: what one object lacks, another does not make good."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from builder.steps.gates import LaneFacts, examine
from builder.steps.gates.cuda_arch import CudaArch
from tests.unit.gates.fake_image import FakeImage

pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc here")

SOURCES = {
    "a.cu": "__global__ void ka(float *x) { x[threadIdx.x] *= 2; }\n",
    "b.cu": "__global__ void kb(float *x) { x[threadIdx.x] *= 3; }\n",
    "table.cu": "__constant__ float table[9000] = {1, 2, 3};\n",
    "device.cu": "__device__ __noinline__ float device(float x) { return x * x; }\n",
}
GATE = CudaArch("opt/x.so", ("sm_121a",))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in SOURCES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def nvcc(folder: Path, *words: str) -> None:
    command = ["nvcc", "-Xcompiler", "-fPIC", *words]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)


def compiled(folder: Path, name: str, arch: str, *more: str) -> str:
    made = f"{name}-{arch}.o"
    code = f"arch=compute_{arch},code=sm_{arch}"
    nvcc(folder, "-c", f"-gencode={code}", *more, f"{name}.cu", "-o", made)
    return made


def seen(data: bytes) -> tuple[bool, str]:
    image = FakeImage({"opt/x.so": data})
    (verdict,) = examine((GATE,), "x", engine=image, facts=LaneFacts())  # type: ignore[arg-type]
    return verdict.passed, verdict.seen


def test_two_sources_for_two_targets_in_one_library(folder: Path) -> None:
    parts = [compiled(folder, "a", "120"), compiled(folder, "b", "121a")]
    nvcc(folder, "-shared", *parts, "-o", "x.so")
    assert seen((folder / "x.so").read_bytes()) == (
        False, "1 of 2 objects in it has sm_120, not sm_121a, such as that of _Z2kaPf",
    )  # fmt: skip
    parts[0] = compiled(folder, "a", "121a")
    nvcc(folder, "-shared", *parts, "-o", "x.so")
    assert seen((folder / "x.so").read_bytes()) == (True, "1 file: sm_121a")


@pytest.mark.parametrize("mode", [(), ("-Xfatbin", "-compress-all", "--compress-mode=speed")])
@pytest.mark.parametrize("other", ["table", "device"])
def test_what_is_no_kernel_does_not_stand_in_for_one(
    folder: Path, other: str, mode: tuple[str, ...]
) -> None:
    parts = [
        compiled(folder, "a", "120", "-rdc=true", *mode),
        compiled(folder, other, "121a", "-rdc=true", *mode),
    ]
    subprocess.run(["ld", "-r", *parts, "-o", "x.so"], cwd=folder, check=True)
    assert seen((folder / "x.so").read_bytes()) == (False, "has sm_120, not sm_121a")
    gencode = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in ("120", "121a")]
    nvcc(folder, "-shared", "-rdc=true", *gencode, *parts, "-o", "x.so")
    passed, said = seen((folder / "x.so").read_bytes())
    assert not passed
    assert "sm_120, not sm_121a" in said
