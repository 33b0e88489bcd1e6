"""What a lane and its builds tell the gates; only what some gate asks for is looked up."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from builder.engine_ports import Engine
from builder.model.lane import Lane
from builder.model.lock import Lock
from builder.ports import Files, GitStore
from builder.steps.bases import base_reference
from builder.steps.gates.gate import Gate, LaneFacts
from builder.steps.gates.size import Size
from builder.steps.gates.wheel_record import WheelRecord


def gather(
    gates: Sequence[Gate],
    facts: LaneFacts,
    lane: Lane,
    lock: Lock,
    platform: str,
    *,
    logs: Sequence[Path],
    store: GitStore,
    files: Files,
    engine: Engine,
) -> LaneFacts:
    """The facts of a lane, completed for these gates. `logs`: the image's own first."""
    grows = any(isinstance(gate, Size) and gate.growth for gate in gates)
    return replace(
        facts,
        wheels=_wheels(gates, lock, platform, files),
        sources=_sources(lock, store),
        logs=tuple(logs),
        former=engine.image(f"{lane.repository}:{lane.tags[-1]}") if grows and lane.tags else None,
        bases={
            name: base_reference(name, base, platform)
            for name, base in sorted(lock.base.items())
            if platform in base.platforms
        },
    )


def _wheels(gates: Sequence[Gate], lock: Lock, platform: str, files: Files) -> Mapping[str, Path]:
    names = {gate.wheel for gate in gates if isinstance(gate, WheelRecord) and gate.wheel}
    found = {}
    for name in sorted(names & set(lock.python)):
        locked = lock.python[name].platforms.get(platform)
        path = files.path(locked.sha256) if locked else None
        if path is not None:
            found[name] = path
    return found


def _sources(lock: Lock, store: GitStore) -> Callable[[str], Mapping[str, str] | None]:
    def of(name: str) -> Mapping[str, str] | None:
        """Path and sha256 of each file of the patched source; None when it is not here."""
        locked = lock.sources.get(name)
        if locked is None or not store.holds(locked.final.tree):
            return None
        entries = [e for e in store.entries(locked.final.tree) if e.mode in ("100644", "100755")]
        digests = {
            blob: hashlib.sha256(data).hexdigest()
            for blob, data in store.stream([entry.object for entry in entries])
        }
        return {entry.path: digests[entry.object] for entry in entries}

    return of
