"""What runs again, as text and JSON: for `explain` and `plan`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from builder.cli.text import duration, one_line, size, table
from builder.pipeline.plan import Plan
from builder.steps.rebuild import Rebuild
from builder.steps.rebuild_stages import StageRun

_SHOWN = 4


def explained(found: Rebuild) -> Iterator[str]:
    """The first input that differs, then the pipeline, then the Dockerfile's stages."""
    if found.first is None:
        yield "nothing that a build takes differs"
        return
    what, stage = found.first
    yield f"first: {one_line(what)} (stage {stage})"
    yield ""
    rows = [(a.name, _listed(a.why)) for a in found.again if a.name != "preflight"]
    yield from table(rows, indent="  ")
    yield ""
    yield from stages(found.stages, {})


def planned(plan: Plan) -> Iterator[str]:
    """What a build would do, stage by stage."""
    yield f"{plan.lane} · build {plan.build_id[:12]}"
    if plan.nothing_to_do:
        yield f"nothing to do: image {plan.image[7:19]} is this build, gates passed"
    yield from table(
        [
            ("fetch", _missing(*plan.commits, "commits")),
            ("stage", _missing(*plan.archives, "archives")),
            ("", _downloads(plan)),
            ("build", plan.engine or ("the image is there" if plan.image else "no image yet")),
        ],
        indent="  ",
    )
    if plan.image:
        return
    yield ""
    if plan.again is None:
        yield _no_basis(plan)
    elif plan.since is not None:
        yield f"since build {plan.since.build_id[:12]} ({plan.since.started}):"
        if plan.again.first is None:
            yield "  no input differs; what the engine's cache still has does not run again"
        else:
            yield f"  first: {one_line(plan.again.first[0])} (stage {plan.again.first[1]})"
            yield from stages(plan.again.stages, plan.seconds)


def stages(runs: tuple[StageRun, ...], seconds: Mapping[str, float]) -> Iterator[str]:
    """A line for each stage of the Dockerfile: from which line it runs, and why."""
    rows = []
    for run in runs:
        took = seconds.get(run.name)
        last = f"last time {duration(took)}" if took is not None and run.runs else ""
        rows.append((run.title, _from(run), _why(run), last))
    yield from table([("Dockerfile stage", "", "because of", ""), *rows], indent="  ")


def rebuild_json(found: Rebuild | None, seconds: Mapping[str, float]) -> Mapping[str, Any] | None:
    if found is None:
        return None
    return {
        "first": None if found.first is None else
        {"input": found.first[0], "stage": found.first[1]},
        "pipeline": [{"stage": a.name, "runs": bool(a.why), "why": list(a.why)}
                     for a in found.again],
        "dockerfile": [
            {
                "stage": run.title,
                "line": run.line,
                "runs": run.runs,
                "needed": run.needed,
                "last-seconds": seconds.get(run.name),
                "reasons": [
                    {"line": r.line, "instruction": r.why, "cause": r.cause} for r in run.reasons
                ],
            }
            for run in found.stages
        ],
    }  # fmt: skip


def plan_json(plan: Plan) -> Mapping[str, Any]:
    return {
        "lane": plan.lane,
        "build-id": plan.build_id,
        "nothing-to-do": plan.nothing_to_do,
        "fetch": list(plan.commits[1]),
        "write": list(plan.archives[1]),
        "download": [{"file": f, "size": s} for f, s in plan.packages[1].items()],
        "engine": plan.engine or None,
        "image": plan.image or None,
        "since": plan.since.build_id if plan.since else None,
        "changes": rebuild_json(plan.again, plan.seconds),
    }


def _from(run: StageRun) -> str:
    if not run.needed:
        return "not needed"
    return f"runs from line {run.reasons[0].line}" if run.reasons else "from the cache"


def _why(run: StageRun) -> str:
    causes = dict.fromkeys(f"{one_line(r.cause)}" for r in run.reasons)
    return _listed(tuple(causes)) if run.needed and causes else ""


def _listed(names: tuple[str, ...]) -> str:
    if not names:
        return "nothing again"
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(one_line, names[:_SHOWN])) + more


def _missing(count: int, missing: tuple[str, ...], what: str) -> str:
    if not missing:
        return f"{count} {what}, all here"
    return f"{len(missing)} of {count} {what}: {_listed(missing)}"


def _downloads(plan: Plan) -> str:
    count, missing = plan.packages
    if not missing:
        return f"wheels and debs: {count}, all here"
    return f"wheels and debs: {len(missing)} of {count} to download, {size(sum(missing.values()))}"


def _no_basis(plan: Plan) -> str:
    if plan.since is None:
        return "no build of this lane is recorded on this machine: every stage runs"
    return (
        f"the inputs of build {plan.since.build_id[:12]} are no longer in the cache: which "
        "stages run again is not known, the engine's own cache decides"
    )
