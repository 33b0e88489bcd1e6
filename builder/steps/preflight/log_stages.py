"""Gates on what a stage prints: that the Dockerfile has it, and that it is built and runs."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from pathlib import Path

from builder.errors import Finding, Place
from builder.steps.dockerfile import Dockerfile
from builder.steps.gates import Gate
from builder.steps.gates.log import Log


def log_stages(
    gate: Gate, place: Place, read: Dockerfile, needed: Collection[int], file: Path
) -> Iterator[Finding]:
    """`needed` are the stages that the image is made of, by index."""
    if not isinstance(gate, Log) or not gate.stage:
        return
    wanted = gate.stage.lower()
    same = [stage for stage in read.stages if stage.title.lower() == wanted]
    prints = [s.title for s in read.stages if s.index in needed and s.named("RUN")]
    if not same:
        what = f"stage {gate.stage}, which {file.name} does not have"
    elif not any(stage.index in needed for stage in same):
        what = f"stage {gate.stage}, which is not built: the last stage takes nothing from it"
    elif wanted not in map(str.lower, prints):
        what = f"stage {gate.stage}, which has no RUN"
    else:
        return
    near = difflib.get_close_matches(wanted, map(str.lower, prints), n=1, cutoff=0.6)
    known = f"stages that run something: {', '.join(prints) or 'none'}"
    hint = f"did you mean {near[0]!r}?" if near and near[0] != wanted else known
    yield Finding("log-stage", f"the gate on the log is for {what}", hint, place=place)
