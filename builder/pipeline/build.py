"""`imgbuild build`: from a lane and its lock to a proven, labelled image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from builder.engine_ports import Engine
from builder.index_ports import PackageIndex
from builder.model.counts import plural
from builder.model.nodes import Hooks
from builder.model.values import Record, Verdict
from builder.pipeline.build_hooks import hooked
from builder.pipeline.check import before, free_bytes
from builder.pipeline.compare import inputs
from builder.pipeline.gate import said
from builder.pipeline.prove import prove
from builder.pipeline.recording import Recording, former_logs, last_times
from builder.pipeline.stage import stage_patched
from builder.pipeline.timeline import Timeline
from builder.ports import ContextStore, Files, GitStore, Progress, Project, Records
from builder.steps import candidate, gate_facts, gates, identity, labels, preflight
from builder.steps.lanes import image_folder, read_lane, read_lock


@dataclass(frozen=True, slots=True)
class Options:
    platform: str | None = None  # None: the engine's own
    no_cache: bool = False  # run every step of the Dockerfile again
    force: bool = False  # build although the image is there
    hooks: Hooks = field(default_factory=Hooks)


def build(
    name: str,
    options: Options,
    *,
    project: Project,
    cache: Path,
    store: GitStore,
    files: Files,
    contexts: ContextStore,
    engine: Engine,
    wheels: Callable[[str], PackageIndex],
    debs: Callable[[], PackageIndex],
    records: Records,
    progress: Progress,
    judged: Callable[[Sequence[Verdict]], None] = lambda _: None,
    final: Callable[[str], None] = lambda _: None,
) -> Record:
    """Build a lane; the record of the run, which is also kept on disk when it fails.

    A failure before the stage `label` moves no tag of the lane. A failed gate leaves the
    candidate and the log, and says where; `judged` hears the verdicts in any case, `final` the
    candidate's id once its layers change no more. Raises: errors of every family but distribution.
    """
    read = read_lane(name, project=project)
    lane, lock = read.lane, read_lock(read.lane)
    build_id = identity.build_id(lane, lock)
    timeline = Timeline(progress, last_times(lane.name, records))
    progress.title(f"{lane.name} · {identity.counted(lane, lock)} · build {build_id[:12]}")

    with Recording(lane, build_id, timeline, records) as recording:
        run = recording.run
        patched = prove(lane, lock, project=project, store=store, files=files, timeline=timeline)

        with timeline.stage("preflight") as line:
            about = engine.describe()
            platform = options.platform or about.platform
            free = free_bytes(cache)
            report = preflight.Preflight()
            before(
                report, read, lock, patched, platform,
                project=project, store=store, files=files, engine=engine,
            )  # fmt: skip
            preflight.machine(report, lane, lock, about, platform, free_bytes=free)
            line.done(plural(report.settle(), "check"))
        for warning in report.warnings:
            progress.note(f"warning[{warning.code}]: {warning.what}")

        there = labels.built(lane, build_id, engine=engine)
        if there is not None and not (options.force or options.no_cache):
            there, moved = labels.restore(there, lane, build_id, engine=engine)
            progress.note(f"nothing changed: image {there.id[7:19]} is this build, gates passed")
            if moved:
                progress.note(f"moved back to it: {', '.join(moved)}")
            return recording.ended("unchanged", there)

        with hooked(options.hooks, lane, build_id, timeline):
            staged = stage_patched(
                lane, lock, patched, platform, timeline=timeline, project=project, store=store,
                files=files, contexts=contexts, wheels=wheels, debs=debs,
            )  # fmt: skip

            with timeline.stage("build") as line:
                built = candidate.build(
                    lane, lock, staged.context, staged.supplies, run,
                    inputs(lane, lock, project).build,
                    dockerfile=project.root / image_folder(lane) / "Dockerfile",
                    platform=platform, no_cache=options.no_cache, engine=engine, say=line.say,
                )  # fmt: skip
                recording.steps = built.steps
                line.done(candidate.summary(built.steps))

            final(built.id)
            with timeline.stage("gates") as line:
                engine.sweep()
                ended = partial(records.ended, lane.name)
                labels.drop_candidates(lane.name, keep=run.id, ended=ended, engine=engine)
                facts = gate_facts.gather(
                    read.gates, read.facts, lane, lock, platform,
                    logs=[run.log, *former_logs(records)], store=store, files=files, engine=engine,
                )  # fmt: skip
                recording.verdicts = gates.examine(read.gates, built.id, engine=engine, facts=facts)
                judged(recording.verdicts)
                line.done(said(recording.verdicts))
                passed = gates.judge(built, recording.verdicts)

            with timeline.stage("label") as line:
                says = labels.labels(
                    lane, lock, build_id=build_id,
                    lock_digest=identity.sha256(staged.lock_text), verdicts=passed.verdicts,
                )  # fmt: skip
                image = labels.label(
                    passed, says, labels.references(lane, build_id),
                    platform=platform, epoch=lock.epoch, engine=engine,
                )  # fmt: skip
                line.done(", ".join(reversed(image.tags)))
            recording.ended("built", image)
        return recording.record()
