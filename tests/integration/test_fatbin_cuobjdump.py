"""Our reading of fatbins against NVIDIA's own, from PyPI."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from builder.steps.gates.fatbin import architectures

DATA = Path(__file__).parents[1] / "data" / "fatbin"
PACKAGE = "nvidia-cuda-cuobjdump>=13,<14"
NAMES = sorted(path.stem for path in DATA.glob("*.nv_fatbin"))

pytestmark = pytest.mark.network


@pytest.fixture(scope="module")
def cuobjdump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("cuobjdump")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target]
    subprocess.run([*command, PACKAGE], check=True, timeout=300)
    return target / "nvidia/cu13/bin/cuobjdump"


@pytest.mark.parametrize("name", NAMES)
def test_agrees(cuobjdump: Path, name: str) -> None:
    """But for `f`, which cuobjdump does not show, and stubs, which it lists."""
    file = DATA / f"{name}.nv_fatbin"
    listed: set[str] = set()
    for option in ("--list-elf", "--list-ptx"):
        done = subprocess.run([cuobjdump, option, file], capture_output=True, text=True)
        for arch, kind in re.findall(r"\.sm_(\d+a?)\.(cubin|ptx)", done.stdout):
            listed.add(f"{'sm' if kind == 'cubin' else 'compute'}_{arch}")
    ours = {str(arch).removesuffix("f") for arch in architectures(file.read_bytes())}
    assert listed
    assert ours == (set() if name.startswith("stub") else listed)
