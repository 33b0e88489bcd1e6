"""What a source compiles at run time becomes gates, each with its place in the lane."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.errors import ImgbuildError
from builder.steps.gates.headers import Headers
from builder.steps.gates.link import Link
from builder.steps.gates.package import Package
from builder.steps.gates.pkg_config import PkgConfig
from builder.steps.lanes import read_lane
from builder.tools.project import ProjectFolder

LANE = f"""
schema = 1
image = "x"
repository = "x"
platforms = ["host"]
[build]
cuda-arch-list = "12.1a"
[sources.b12x]
url = "https://x/b12x.git"
commit = "{"1" * 40}"
[[sources.b12x.runtime-compile]]
@KEYS@
[base.runtime]
ref = "x:1"
"""


def project(root: Path, keys: str) -> ProjectFolder:
    (root / "locks").mkdir()
    (root / "docker-images").mkdir()
    (root / "locks/x.toml").write_text(LANE.replace("@KEYS@", keys))
    return ProjectFolder(root)


def test_gates(tmp_path: Path) -> None:
    keys = (
        'packages = ["liburing-dev"]\npkg-config = ["liburing"]\n'
        'libraries = ["cudart"]\nheaders = ["liburing.h"]'
    )
    read = read_lane("x", project=project(tmp_path, keys))
    assert read.gates == (
        Package("liburing-dev"), PkgConfig("liburing"), Link(("cudart",)), Headers(("liburing.h",)),
    )  # fmt: skip
    keys_ = {place.key for place in read.places}
    assert keys_ == {("sources", "b12x", "runtime-compile", 0)}


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ("", "b12x: runtime-compile names nothing"),
        ('libraries = ["-lcudart"]', "must be the name behind -l"),
        ('pakages = ["a"]', "unknown key"),
    ],
)
def test_tables_that_make_no_sense(tmp_path: Path, keys: str, says: str) -> None:
    with pytest.raises(ImgbuildError) as error:
        read_lane("x", project=project(tmp_path, keys))
    assert any(says in found.what for found in error.value.findings)
