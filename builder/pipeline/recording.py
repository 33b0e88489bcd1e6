"""Keep the record of a run, whatever its end is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from builder.errors import ImgbuildError
from builder.model.lane import Lane
from builder.model.schema import dotted
from builder.model.urls import without_userinfo
from builder.model.values import (
    UNNAMED,
    BuildStep,
    ImageInfo,
    LabelledImage,
    Outcome,
    Record,
    Verdict,
)
from builder.pipeline.timeline import Last, Timeline
from builder.ports import Records, RunFolder


@dataclass(slots=True)
class Recording:
    """A run that is being recorded; leaving the block writes its record.

    An error that passes through is recorded and passes on.
    """

    lane: Lane
    build_id: str
    timeline: Timeline
    records: Records
    run: RunFolder = field(init=False)
    started: str = field(init=False)
    steps: tuple[BuildStep, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    outcome: Outcome = "running"
    image: str = ""
    tags: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        self.run = self.records.start(self.lane.name)
        self.started = datetime.now(UTC).isoformat(timespec="seconds")
        self.run.write(self.record())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.run.write(self.record(error))

    def ended(self, outcome: Literal["built", "unchanged"], image: LabelledImage) -> Record:
        self.outcome, self.image, self.tags = outcome, image.id, image.tags
        return self.record()

    def record(self, error: BaseException | None = None) -> Record:
        return Record(
            id=self.run.id,
            lane=self.lane.name,
            build_id=self.build_id,
            outcome=self._outcome(error),
            started=self.started,
            seconds=self.timeline.seconds,
            stages=tuple(self.timeline.stages),
            steps=self.steps,
            verdicts=self.verdicts,
            image=self.image,
            tags=self.tags,
            log=str(self.run.log) if self.run.log.exists() else "",
            error=None if error is None else _described(error),
        )

    def _outcome(self, error: BaseException | None) -> Outcome:
        if error is None:
            return self.outcome
        return "failed" if isinstance(error, Exception) else "interrupted"


def last_times(lane: str, records: Records) -> Mapping[str, Last]:
    """What a lane's build and its gates took in the last run that did the same; what all other
    stages do depends on what is on this machine already."""
    runs = tuple(reversed(records.runs(lane)))
    judged = next((took for run in runs if run.verdicts and (took := _took(run, "gates"))), None)
    return {"build": _of_build(runs), "gates": lambda _: judged}


def _of_build(runs: Sequence[Record]) -> Last:
    """The time of the last build in which all stages of the Dockerfile ran, and came from no
    cache, that are seen to run in this one."""
    held = [
        ({s.stage for s in run.steps if not s.cached and not s.name.startswith("FROM ")}, took)
        for run in runs
        if run.steps and (took := _took(run, "build"))
    ]
    seen: set[str] = set()

    def last(said: str) -> float | None:
        stage, _, what = said.partition("  ")
        if what and not what.startswith("FROM "):
            seen.add("" if stage == UNNAMED else stage)
        return next((took for ran, took in held if seen and seen <= ran), None)

    return last


def _took(run: Record, stage: str) -> float | None:
    return next((one.seconds for one in run.stages if one.name == stage), None)


def former_logs(records: Records) -> tuple[Path, ...]:
    """The logs of the builds on this machine, of all lanes, the newest first."""
    return tuple(Path(record.log) for record in reversed(records.runs()) if record.log)


def own_log(image: ImageInfo, records: Records) -> Path | None:
    """The log of the build that made this image, if it was made here."""
    for record in reversed(records.runs()):
        of_candidate = any(f"-R{record.id}" in tag for tag in image.tags)
        if record.log and (
            of_candidate or (record.image == image.id and record.outcome == "built")
        ):
            return Path(record.log)
    return None


def _described(error: BaseException) -> Mapping[str, Any]:
    if not isinstance(error, ImgbuildError):
        if not isinstance(error, Exception):
            return {"code": "interrupted", "exit": 130, "findings": []}
        found = {
            "code": "bug",
            "what": without_userinfo(f"{type(error).__name__}: {error}"),
            "hint": "",
        }
        return {"code": "bug", "exit": 70, "findings": [found]}
    return {
        "code": error.findings[0].code,
        "exit": error.exit_code,
        "findings": [
            {
                "code": found.code,
                "level": found.level,
                "what": without_userinfo(found.what),
                "hint": without_userinfo(found.hint),
                "detail": without_userinfo(found.detail),
                "file": str(found.place.file) if found.place else "",
                "key": dotted(found.place.key) if found.place else "",
            }
            for found in error.findings
        ],
    }
