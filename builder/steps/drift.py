"""Tell when a lock no longer follows from its lane, patches and image folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from builder.errors import Finding, LaneError, Place
from builder.model.lane import Base, Deb, Dep, Lane, Source, Wheel
from builder.model.lock import Lock, LockedPackage
from builder.ports import Project
from builder.steps import delta, identity
from builder.steps.image import folder_digest
from builder.steps.lanes import image_folder
from builder.steps.patches import read_sets
from builder.steps.unresolved import image_missing

Entry: TypeAlias = Source | Dep | Base | Wheel | Deb


class LockOutdated(LaneError):
    code = "lock-outdated"


def drift(lane: Lane, lock: Lock, *, project: Project) -> tuple[Finding, ...]:
    """Everything in which the lock no longer follows from lane, patches and image folder."""
    return (
        *_tables_drift(lane, lock),
        *_depset_drift(lane, lock),
        *_platform_drift(lane, lock),
        *_patch_drift(lane, lock, project),
        *_delta_drift(lane, lock, project),
        *_image_drift(lane, lock, project),
    )


def _tables_drift(lane: Lane, lock: Lock) -> Iterator[Finding]:
    for kind, wanted, locked in identity.tables(lane, lock):
        for name in sorted(wanted.keys() | locked.keys()):
            if name not in locked:
                yield _stale(lane, (kind, name), f"{name} is not locked yet")
            elif name not in wanted:
                place = Place(lock.path, key=(kind, name))
                yield _stale(lane, (kind, name), f"{name} is locked, the lane has none", place)
            elif identity.intent(wanted[name]) != locked[name].intent:
                yield _stale(lane, (kind, name), f"{name} was changed after it was locked")
            else:
                for key, said in _edited(wanted[name], locked[name]):
                    place = Place(lock.path, key=(kind, name, key))
                    yield _stale(lane, (), f"{name}: the lock's {key} is not {said}", place)


def _edited(wanted: Entry, locked: Any) -> Iterator[tuple[str, str]]:
    """Values of a lock that were edited by hand: the lane says something else itself."""
    if isinstance(wanted, Source | Dep):
        if locked.url != wanted.url:
            yield "url", "the lane's"
        if wanted.commit is not None and locked.commit != wanted.commit:
            yield "commit", "the lane's"
        if isinstance(wanted, Dep) and locked.into != wanted.into:
            yield "into", "the lane's"
        if locked.reachable_from not in (None, wanted.track.ref):
            yield "reachable-from", "the ref that the lane tracks"
    elif isinstance(wanted, Base):
        digest = (wanted.ref or "").partition("@")[2]
        if locked.ref != wanted.ref:
            yield "ref", "the lane's"
        if not locked.platforms or (digest and {*locked.platforms.values()} != {digest}):
            yield "platforms", "what the lane pins"
    elif isinstance(wanted, Deb):
        if locked.name != wanted.package:
            yield "name", "the lane's package"
    else:
        yield from _other_wheel(wanted.requirement, locked)


def _other_wheel(requirement: str, locked: LockedPackage) -> Iterator[tuple[str, str]]:
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name
    from packaging.version import InvalidVersion

    try:
        asked = Requirement(requirement)
        if canonicalize_name(asked.name) != canonicalize_name(locked.name):
            yield "name", f"that of {requirement}"
        elif not asked.specifier.contains(locked.version, prereleases=True):
            yield "version", f"one of {requirement}"
    except (InvalidRequirement, InvalidVersion):
        yield "version", f"one of {requirement}"


def _depset_drift(lane: Lane, lock: Lock) -> Iterator[Finding]:
    """Sets that stand for derived deps; what they derive is compared once sources are here."""
    locked = {dep.from_: dep.intent for dep in lock.deps.values() if dep.from_ is not None}
    for name in sorted(lane.dep_sets.keys() | locked.keys()):
        if name not in locked:
            if lane.dep_sets[name].leave_out.keys() | lane.own_deps.keys():
                continue  # all that it derives may be left out, or declared
            yield _stale(lane, ("deps", name), f"{name} is not locked yet")
        elif name not in lane.dep_sets:
            yield _stale(lane, ("deps", name), f"{name} is locked, the lane has none")
        elif identity.intent(lane.dep_sets[name]) != locked[name]:
            yield _stale(lane, ("deps", name), f"{name} was changed after it was locked")


def _platform_drift(lane: Lane, lock: Lock) -> Iterator[Finding]:
    if "host" in lane.platforms:
        return
    for kind, locked in (("base", lock.base), ("python", lock.python), ("debs", lock.debs)):
        for name in sorted(locked):
            missing = set(lane.platforms) - set(locked[name].platforms)
            for platform in sorted(missing):
                yield _stale(lane, (kind, name), f"{name} is not locked for {platform}")


def _patch_drift(lane: Lane, lock: Lock, project: Project) -> Iterator[Finding]:
    for name in sorted(lane.sources.keys() & lock.sources.keys()):
        found = {p.path: p.sha256 for p in read_sets(lane.sources[name].patches, project=project)}
        locked = {p.path: p.sha256 for p in lock.sources[name].patches}
        for path in sorted(found.keys() - locked.keys()):
            yield _stale(lane, ("sources", name, "patches"), f"{path} is not locked yet")
        for i, path in enumerate(locked):
            place = Place(lock.path, key=("sources", name, "patches", i, "sha256"))
            if path not in found:
                yield _stale(lane, (), f"{path} is locked, but no series names it", place)
            elif found[path] != locked[path]:
                yield _stale(lane, (), f"{path} was changed after it was locked", place)
        if found.keys() == locked.keys() and [*found] != [*locked]:
            yield _stale(lane, ("sources", name, "patches"), f"{name}: another order of patches")


def _delta_drift(lane: Lane, lock: Lock, project: Project) -> Iterator[Finding]:
    """A delta may be missing while heads can be had; one that is there is the locked one."""
    for name, locked in sorted(lock.sources.items()):
        path = delta.path(lane.name, name)
        data = project.read(path) if locked.delta is not None else None
        if data is not None and identity.sha256(data) != locked.delta:
            place = Place(lock.path, key=("sources", name, "delta"))
            yield _stale(lane, (), f"{path} was changed after it was locked", place)


def _image_drift(lane: Lane, lock: Lock, project: Project) -> Iterator[Finding]:
    if missing := image_missing(lane, project=project):
        yield missing
        return
    found = folder_digest(image_folder(lane), project=project)
    if found != lock.image.content:
        yield _stale(
            lane, (), f"{image_folder(lane)} was changed after it was locked",
            Place(lock.path, key=("image", "content")),
        )  # fmt: skip


def _stale(
    lane: Lane, key: tuple[str | int, ...], what: str, place: Place | None = None
) -> Finding:
    return Finding(
        LockOutdated.code, what, f"if the change is wanted: imgbuild lock {lane.name}",
        place=place or Place(lane.path, key=key),
    )  # fmt: skip
