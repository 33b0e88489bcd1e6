"""`imgbuild gate`: the gates of a lane on any image."""

from __future__ import annotations

from builder.engine_ports import Engine
from builder.errors import LaneError, UsageError
from builder.model.label_names import LANE
from builder.model.values import ImageInfo, Verdict
from builder.pipeline.inspect import find
from builder.pipeline.recording import former_logs, own_log
from builder.pipeline.timeline import Timeline
from builder.ports import Files, GitStore, Progress, Project, Records
from builder.steps import gate_facts, gates
from builder.steps.gates import LaneFacts
from builder.steps.lanes import ReadLane, read_lane, read_lock


def gate(
    reference: str,
    lane: str | None,
    *,
    project: Project,
    store: GitStore,
    files: Files,
    records: Records,
    engine: Engine,
    progress: Progress,
) -> tuple[ImageInfo, tuple[Verdict, ...]]:
    """Run the gates of `lane` (the image's own, when None). Raises: UsageError.

    Gates that need the lock, the sources, the wheels or the log of the build look at what of
    them is on this machine; without it they could not look.
    """
    image = find(reference, engine=engine, project=project)
    name = lane or image.labels.get(LANE)
    if name is None:
        raise UsageError(
            f"{reference} names no lane",
            hint=f"say whose gates to run: imgbuild gate {reference} --lane LANE",
        )
    read = read_lane(name, project=project)
    progress.title(f"{reference} · gates of {name}")  # one may give several verdicts
    with Timeline(progress).stage("gates") as line:
        facts = _facts(read, image, store, files, records, engine)
        verdicts = gates.examine(read.gates, image.id, engine=engine, facts=facts)
        line.done(said(verdicts), good=all(verdict.passed for verdict in verdicts))
    return image, verdicts


def said(verdicts: tuple[Verdict, ...]) -> str:
    """ "11 of 11"."""
    return f"{sum(v.passed for v in verdicts)} of {len(verdicts)}"


def _facts(
    read: ReadLane,
    image: ImageInfo,
    store: GitStore,
    files: Files,
    records: Records,
    engine: Engine,
) -> LaneFacts:
    try:
        lock = read_lock(read.lane)
    except LaneError:
        return read.facts
    own = own_log(image, records)
    return gate_facts.gather(
        read.gates, read.facts, read.lane, lock, f"linux/{image.architecture}",
        logs=[own, *former_logs(records)] if own else (), store=store, files=files, engine=engine,
    )  # fmt: skip
