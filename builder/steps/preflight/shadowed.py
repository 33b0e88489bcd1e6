"""Stages that a named context takes the place of."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from builder.errors import Finding, Place
from builder.steps.dockerfile import Dockerfile


def shadowed(read: Dockerfile, named: Collection[str], file: Path) -> Iterator[Finding]:
    """Stages with the name of a context that the build gets: BuildKit takes the context."""
    for stage in read.stages:
        if stage.name.lower() in named:
            yield Finding(
                "stage-shadowed",
                f"stage {stage.name} is never built: imgbuild gives the build a context of this "
                "name, and what is taken from the stage is taken from there",
                f"name the stage otherwise: {' and '.join(sorted(named))} are contexts of every "
                "build",
                place=Place(file, stage.line),
            )  # fmt: skip
