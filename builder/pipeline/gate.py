"""`imgbuild gate`: the gates of a lane on any image."""

from __future__ import annotations

from builder.errors import UsageError
from builder.model.values import ImageInfo, Verdict
from builder.pipeline.inspect import find
from builder.pipeline.timeline import Timeline
from builder.ports import Engine, Progress, Project
from builder.steps import gates
from builder.steps.lanes import read_lane


def gate(
    reference: str, lane: str | None, *, project: Project, engine: Engine, progress: Progress
) -> tuple[ImageInfo, tuple[Verdict, ...]]:
    """Run the gates of `lane` (the image's own, when None). Raises: UsageError."""
    image = find(reference, engine=engine)
    name = lane or image.labels.get("io.imgbuild.lane")
    if name is None:
        raise UsageError(
            f"{reference} names no lane",
            hint=f"say whose gates to run: imgbuild gate {reference} --lane LANE",
        )
    read = read_lane(name, project=project)
    progress.title(f"{reference} · {len(read.gates)} gates of {name}")
    with Timeline(progress).stage("gates") as line:
        verdicts = gates.examine(read.gates, image.id, engine=engine, facts=read.facts)
        line.done(said(verdicts))
    return image, verdicts


def said(verdicts: tuple[Verdict, ...]) -> str:
    """ "11 of 11"."""
    return f"{sum(v.passed for v in verdicts)} of {len(verdicts)}"
