"""Print which of the named sources and wheels are installed, by the names of distributions."""

import importlib.metadata
import re
import sys

OTHERWISE = {"flashinfer": "flashinfer-python", "deepgemm": "deep-gemm", "flashkda": "flash-kda"}


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


names = [word.rpartition("/")[2].partition("-")[0] if "/" in word else word for word in sys.argv]
wanted = {plain(OTHERWISE.get(name, name)) for name in names[1:]}
held = {plain(found.metadata["Name"] or "") for found in importlib.metadata.distributions()}
sys.stdout.write(" ".join(sorted(wanted & held)))
