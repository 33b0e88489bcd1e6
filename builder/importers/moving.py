"""Whether a resolved document still says what its lane says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from builder.errors import Finding, LaneError
from builder.model.foreign import Claims
from builder.model.lane import Pull, Source


class ExportImpossible(LaneError):
    """A format needs a value that a lane does not hold."""

    code = "export-impossible"


def same(claims: Claims, sources: Mapping[str, Source], derived: str) -> tuple[str, ...]:
    """Notes on what the document leaves out of the lane; `derived` is what a change would undo.

    Raises: ExportImpossible with every value that the lane has otherwise.
    """
    findings = [
        Finding(
            ExportImpossible.code,
            f"{claim.name}.{key}: the imported file has {before}, the lane now {now}",
            f"{derived} would be wrong, and only the format's own tool makes it anew",
        )
        for claim in claims.sources
        if claim.name in sources
        for key, before, now in changes(claim.table, sources[claim.name])
    ]
    if findings:
        raise ExportImpossible.of(findings)
    return tuple(
        f"{name}: the lane's own patches ({', '.join(table.patches)}) are not in this format"
        for name, table in sorted(sources.items())
        if table.patches and not any(c.name == name and c.patches for c in claims.sources)
    )


def changes(before: Source, now: Source) -> Iterator[tuple[str, str, str]]:
    """(lane key, before, now) of what a foreign lock also says."""
    for key in ("url", "commit", "tree", "result_tree", "compose_strategy"):
        old, new = getattr(before, key), getattr(now, key)
        if old and old != new and not (key == "commit" and new is None):
            yield key.replace("_", "-"), str(old), str(new or "none")
    if before.track.ref is not None and now.track.ref not in (None, before.track.ref):
        yield "track", before.track.ref, str(now.track.ref)
    if _heads(before.compose) != _heads(now.compose):
        yield "compose", _listed(before.compose), _listed(now.compose)


def _heads(pulls: tuple[Pull, ...]) -> list[tuple[int, str | None, tuple[str, ...]]]:
    return [(p.pull, p.head, p.commits) for p in pulls]


def _listed(pulls: tuple[Pull, ...]) -> str:
    return ", ".join(f"#{p.pull}@{p.head or 'its head':.12}" for p in pulls) or "none"
