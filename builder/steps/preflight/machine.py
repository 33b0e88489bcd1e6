"""What the machine and its engine tell."""

from __future__ import annotations

from builder.errors import Finding, Place, ToolFailed
from builder.model.lane import Lane
from builder.model.lock import Lock
from builder.model.values import EngineInfo
from builder.steps.preflight.report import Preflight

OLDEST_ENGINE = (23, 0)
"""The first Docker engine whose buildx takes named contexts (measured: 20.10 does not)."""


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
