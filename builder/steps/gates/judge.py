"""From verdicts to evidence: only an image whose gates all hold goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from builder.errors import Finding, GateError, Place
from builder.model.values import BuiltImage, PassedGates, Verdict


class GatesFailed(GateError):
    """Some gates of a candidate do not hold; one finding for each failed verdict."""

    code = "gate-failed"


def judge(image: BuiltImage, verdicts: Sequence[Verdict]) -> PassedGates:
    """Raises: GatesFailed; the candidate and its log stay, and the last finding says where."""
    findings = [_finding(verdict) for verdict in verdicts if not verdict.passed]
    if findings:
        raise GatesFailed.of([*findings, _kept(image)])
    return PassedGates(image, tuple(verdicts))


def _finding(verdict: Verdict) -> Finding:
    what = f"{verdict.gate} {verdict.about}: {verdict.seen}"
    place = Place(Path(verdict.file), verdict.line) if verdict.file else None
    return Finding(f"gate-{verdict.gate}", what, verdict.hint, verdict.detail, place)


def _kept(image: BuiltImage) -> Finding:
    return Finding(
        "gate-candidate",
        f"until the next build of its lane the candidate is kept as {image.reference}, "
        f"the log of its build at {image.log}",
        f"docker run --rm -it --entrypoint sh {image.reference}",
        level="warning",
    )
