"""Build a candidate: the staged context, through buildx, under a temporary tag."""

from __future__ import annotations

from pathlib import Path

from builder.engine_ports import Engine
from builder.model.lane import Lane
from builder.model.lock import Lock
from builder.model.values import BuildRequest, BuildStep, BuiltImage, StagedContext
from builder.ports import RunFolder, Say
from builder.steps.bases import base_reference, ensure_base
from builder.steps.image import build_args
from builder.steps.labels import candidate_reference
from builder.steps.packages import Supplies
from builder.steps.rebuild_stages import BuildInputs
from builder.steps.step_inputs import run_inputs

_WORK = ("ADD ", "COPY ", "RUN ", "WORKDIR ")


def build(
    lane: Lane,
    lock: Lock,
    context: StagedContext,
    supplies: Supplies,
    run: RunFolder,
    inputs: BuildInputs,
    *,
    dockerfile: Path,
    platform: str,
    no_cache: bool,
    engine: Engine,
    say: Say,
) -> BuiltImage:
    """Load the bases that are tars, then build. A failure leaves no image, and the log.

    `dockerfile` is the one that people edit: findings name its lines.
    The log begins with what each RUN is made from, for gates on what it printed.
    Raises: BuildFailed, BaseDiffers, BuildArgInvalid.
    """
    bases = {
        name: ensure_base(
            name, locked, platform, rootfs=supplies.rootfs[name], engine=engine, say=say
        )
        if name in supplies.rootfs
        else base_reference(name, locked, platform)
        for name, locked in sorted(lock.base.items())
    }
    request = BuildRequest(
        context=context.path,
        named=context.named,
        args=build_args(lane, lock, bases),
        labels={},
        tag=candidate_reference(lane.name, run.id),
        platform=platform,
        log=run.log,
        no_cache=no_cache,
        dockerfile=dockerfile,
        notes=tuple(map(str, run_inputs(inputs, platform))),
    )
    image, steps = engine.build(request, say=say)
    return BuiltImage(image, request.tag, run.log, steps)


def summary(steps: tuple[BuildStep, ...]) -> str:
    """ "kern-cuda 7.1 s, minipkg 1.2 s", the longest stages first, or "all from the cache".

    Stages without a name are told as the image, which the last one is.
    """
    times: dict[str, float] = {}
    for step in steps:
        if not step.cached and step.name.startswith(_WORK):
            stage = step.stage or "the image"
            times[stage] = times.get(stage, 0.0) + step.seconds
    longest = sorted(times.items(), key=lambda item: -item[1])[:3]
    shown = [f"{stage} {seconds:.1f} s" for stage, seconds in longest]
    long = [text for text in shown if not text.endswith(" 0.0 s")]
    return ", ".join(long or shown[:1]) or "all from the cache"
