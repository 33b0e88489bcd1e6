"""What a build says of itself in one line."""

from __future__ import annotations

import pytest

from builder.model.values import BuildStep
from builder.steps.candidate import summary

FROM = BuildStep("", "FROM base@sha256:1", 0.3, cached=False)
EXPORT = BuildStep("", "exporting to image", 2.0, cached=False)
CACHED = BuildStep("kern", "RUN make", 0.0, cached=True)


def ran(stage: str, seconds: float, name: str = "RUN x") -> BuildStep:
    return BuildStep(stage, name, seconds, cached=False)


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ((FROM, CACHED, EXPORT), "all from the cache"),
        ((FROM, CACHED, ran("", 3.0), EXPORT), "the image 3.0 s"),  # a stage without a name
        ((CACHED, ran("", 0.01, "COPY imgbuild/ /")), "the image 0.0 s"),
        ((ran("kern", 3.0), ran("kern", 4.1), ran("", 1.0), ran("x", 0.04)),
         "kern 7.1 s, the image 1.0 s"),
    ],
)  # fmt: skip
def test_summary(steps: tuple[BuildStep, ...], says: str) -> None:
    assert summary(steps) == says
