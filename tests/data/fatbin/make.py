"""Makes the fatbins of this folder: the .nv_fatbin and __nv_relfatbin of small shared objects.

usage: python tests/data/fatbin/make.py [NVCC]      (CUDA 13.0 made what is committed)
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = {
    "kernel": "__global__ void scale(float a, float *x) { x[threadIdx.x] *= a; }\n",
    "empty": "extern int none(void);\n",
}


def gencode(*pairs: str) -> list[str]:
    """`121a:sm_121a` for machine code, `120:compute_120` for PTX."""
    split = [pair.split(":") for pair in pairs]
    return [f"-gencode=arch=compute_{arch},code={code}" for arch, code in split]


PACKED = ["-Xfatbin", "-compress-all"]
FATBINS: dict[str, tuple[str, list[str]]] = {
    "sm_121a": ("kernel", gencode("121a:sm_121a")),
    "sm_120a": ("kernel", gencode("120a:sm_120a")),
    "sm_120f": ("kernel", gencode("120f:sm_120f")),
    "sm_121f": ("kernel", gencode("121f:sm_121f")),
    "sm_90a": ("kernel", gencode("90a:sm_90a")),
    "ptx_120": ("kernel", gencode("120:compute_120")),
    "ptx_121a": ("kernel", gencode("121a:compute_121a")),
    "several": ("kernel", gencode("120:sm_120", "121a:sm_121a", "120:compute_120")),
    "zstd": ("kernel", [*gencode("121a:sm_121a"), *PACKED, "--compress-mode=size"]),
    "lz4": ("kernel", [*gencode("121a:sm_121a"), *PACKED, "--compress-mode=speed"]),
    "rdc": ("kernel", ["-rdc=true", *gencode("121a:sm_121a")]),
    "stub": ("empty", gencode("121a:sm_121a")),
    "stub-zstd": ("empty", [*gencode("121a:sm_121a"), *PACKED, "--compress-mode=size"]),
}


def main(nvcc: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in SOURCES.items():
            Path(folder, f"{name}.cu").write_text(text)
        for name, (source, options) in FATBINS.items():
            library = Path(folder, f"{name}.so")
            subprocess.run(
                [nvcc, "-shared", "-Xcompiler", "-fPIC", *options, "-o", library, f"{source}.cu"],
                cwd=folder, check=True,
            )  # fmt: skip
            for section in ("nv_fatbin", "__nv_relfatbin"):
                dump(library, section, HERE / f"{name}.{section.strip('_')}")


def dump(library: Path, section: str, into: Path) -> None:
    into.unlink(missing_ok=True)
    name = section if section.startswith("__") else f".{section}"
    subprocess.run(  # a section that is not there makes no file, and a warning
        ["objcopy", "--dump-section", f"{name}={into}", library, "/dev/null"],
        check=False, stderr=subprocess.DEVNULL,
    )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "nvcc")
