"""Everything that can be known before a container starts, all findings at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from builder.errors import Finding, GateError, ImgbuildError, LaneError, Place, ToolFailed
from builder.model.lane import Lane
from builder.model.lock import Lock
from builder.model.values import EngineInfo, PatchedSource
from builder.ports import GitStore
from builder.steps.gates import Gate, marker

OLDEST_ENGINE = (23, 0)
"""The first Docker engine whose buildx takes named contexts (measured: 20.10 does not)."""


class PreflightFailed(ImgbuildError):
    """One error for all findings; its exit code is that of the first finding's family."""

    code = "preflight"
    exit_code = 7


@dataclass(slots=True)
class Preflight:
    """What was checked, and what was found."""

    checks: int = 0
    findings: list[Finding] = field(default_factory=list)
    families: list[type[ImgbuildError]] = field(default_factory=list)

    def check(self, family: type[ImgbuildError], found: Finding | None) -> None:
        self.checks += 1
        if found is not None:
            self.findings.append(found)
            self.families.append(family)

    def settle(self) -> int:
        """The number of checks. Raises: PreflightFailed, with every finding."""
        if self.findings:
            error = PreflightFailed.of(self.findings)
            error.exit_code = self.families[0].exit_code  # type: ignore[misc]
            raise error
        return self.checks


def sources(
    report: Preflight,
    lane: Lane,
    gates: Sequence[tuple[Gate, Place]],
    patched: Mapping[str, PatchedSource],
    *,
    store: GitStore,
) -> None:
    """What the sources alone tell: markers, native paths."""
    for gate, place in gates:
        if isinstance(gate, marker.Marker) and gate.file is not None:
            report.check(GateError, _marker(gate, place, patched[gate.source], store))
    for name, done in sorted(patched.items()):
        native = lane.sources[name].native
        if not native:
            continue
        held = {entry.path for entry in store.entries(done.source.tree)}
        for path in native:
            known = any(p == path or p.startswith(f"{path}/") for p in held)
            report.check(LaneError, None if known else _no_native(lane, name, path))


def machine(
    report: Preflight, lane: Lane, lock: Lock, engine: EngineInfo, platform: str, *, free_bytes: int
) -> None:
    """What the machine tells: engine, platform, free disk (`free_bytes` of the cache)."""
    needed = _needed(lock, platform)
    report.check(ToolFailed, _version(engine))
    report.check(ToolFailed, _platform(lane, engine, platform))
    report.check(ToolFailed, _space(needed, free_bytes, "the cache's disk"))
    if engine.free_bytes is not None:
        report.check(ToolFailed, _space(3 * needed, engine.free_bytes, "the engine's disk"))


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


def _no_native(lane: Lane, name: str, path: str) -> Finding:
    return Finding(
        "native-missing", f"{name}: native names {path}, which the patched tree does not hold",
        "correct the path: a change there would otherwise not be seen as native",
        place=Place(lane.path, key=("sources", name, "native")),
    )  # fmt: skip


def _needed(lock: Lock, platform: str) -> int:
    """Bytes that the packages of a build take; a floor, since sources come on top."""
    packages = (*lock.python.values(), *lock.debs.values())
    sizes = (p.platforms[platform].size for p in packages if platform in p.platforms)
    return 500_000_000 + sum(sizes)


def _version(engine: EngineInfo) -> Finding | None:
    numbers = tuple(int(n) for n in engine.version.split("-")[0].split(".")[:2] if n.isdigit())
    if numbers >= OLDEST_ENGINE:
        return None
    return Finding(
        "engine-old", f"the Docker engine is {engine.version}, which lacks named contexts",
        f"install Docker {OLDEST_ENGINE[0]} or newer, or: scripts/engine start",
    )  # fmt: skip


def _platform(lane: Lane, engine: EngineInfo, platform: str) -> Finding | None:
    if engine.platform == platform:
        return None
    return Finding(
        "platform", f"this engine is {engine.platform}, {lane.name} is built for {platform}",
        f"build on a {platform} machine: DOCKER_HOST or docker context names another engine",
        place=Place(lane.path, key=("platforms",)),
    )  # fmt: skip


def _space(needed: int, free: int, where: str) -> Finding | None:
    if free >= needed:
        return None
    return Finding(
        "disk-full", f"{where} has {free / 1e9:.1f} GB free, this build needs {needed / 1e9:.1f}",
        "free space (docker system df shows the engine's), then try again",
    )  # fmt: skip
