"""ONBUILD in the last stage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from builder.errors import Finding, Place
from builder.steps.dockerfile import Stage


def onbuild(last: Stage, file: Path) -> Iterator[Finding]:
    """ONBUILD in the last stage: each build FROM the image runs it, and labelling is one.

    Those of a base or of another stage run where a stage begins FROM it, and are then gone.
    """
    for instruction in last.named("ONBUILD"):
        yield Finding(
            "onbuild", f"ONBUILD {instruction.text} would run when the image is labelled, after "
            "its gates", f"write it as it is: {instruction.text}; or take it out",
            place=Place(file, instruction.line),
        )  # fmt: skip
