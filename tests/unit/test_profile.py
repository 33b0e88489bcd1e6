"""Which of an image's variables are its lane's."""

from __future__ import annotations

import pytest

from builder.cli.commands.inspect import profile
from builder.model.values import ImageInfo

OURS = {"io.imgbuild.lane": "demo"}


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ({**OURS, "io.imgbuild.env": "A GONE"}, [("A", "x=1")]),
        (OURS, []),
        ({}, [("A", "x=1"), ("CUDA_HOME", "/c")]),
    ],
)
def test_profile(labels: dict[str, str], found: list[tuple[str, str]]) -> None:
    env = {"PATH": "/bin", "CUDA_HOME": "/c", "A": "x=1"}
    assert profile(ImageInfo("sha256:x", (), labels, (), env, "amd64", 1, "")) == found
