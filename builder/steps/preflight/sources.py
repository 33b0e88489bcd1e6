"""What the patched sources alone tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from builder.errors import Finding, GateError, LaneError, Place
from builder.model.lane import Lane
from builder.model.values import CommitInfo, PatchedSource
from builder.ports import GitStore
from builder.steps.gates import Gate, marker
from builder.steps.preflight.report import Preflight

LastChange: TypeAlias = Callable[[str, str, str], CommitInfo | None]
"""Of a source, a file in it and a text: the newest known commit that added or removed it."""


def sources(
    report: Preflight,
    lane: Lane,
    gates: Sequence[tuple[Gate, Place]],
    patched: Mapping[str, PatchedSource],
    *,
    store: GitStore,
    last_change: LastChange = lambda *_: None,
) -> None:
    """What the sources alone tell: markers, native paths.

    `last_change` is asked for the commit that took a marker away.
    """
    for gate, place in gates:
        if not isinstance(gate, marker.Marker) or gate.file is None:
            continue
        if gate.source in patched:  # else it is not on this machine
            found = _marker(gate, place, patched[gate.source], store)
            report.check(GateError, found and _with_commit(found, gate, last_change))
    for name, done in sorted(patched.items()):
        native = lane.sources[name].native
        if not native:
            continue
        held = {entry.path for entry in store.entries(done.source.tree)}
        for path in native:
            known = any(p == path or p.startswith(f"{path}/") for p in held)
            report.check(LaneError, None if known else _no_native(lane, name, path))


def _marker(
    gate: marker.Marker, place: Place, source: PatchedSource, store: GitStore
) -> Finding | None:
    tree = source.source.tree
    data = store.blob(tree, gate.file or "")
    paths = [entry.path for entry in store.entries(tree)] if data is None else ()
    verdict = marker.look(gate, data, paths=paths)
    if verdict.passed:
        return None
    what = f"{verdict.about}: {verdict.seen}"
    return Finding("gate-marker", what, verdict.hint, verdict.detail, place)


def _with_commit(found: Finding, gate: marker.Marker, last_change: LastChange) -> Finding:
    changes = [last_change(gate.source, gate.file or "", text) for text in gate.texts]
    lines = [
        f"last changed by {c.commit[:12]}, {c.author}: {c.subject}"
        for c in dict.fromkeys(changes)
        if c is not None
    ]
    return replace(found, detail="\n".join(filter(None, [found.detail, *lines])))


def _no_native(lane: Lane, name: str, path: str) -> Finding:
    return Finding(
        "native-missing", f"{name}: native names {path}, which the patched tree does not hold",
        "correct the path: a change there would otherwise not be seen as native",
        place=Place(lane.path, key=("sources", name, "native")),
    )  # fmt: skip
