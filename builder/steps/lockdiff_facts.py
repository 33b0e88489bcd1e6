"""What one side of a comparison says of each entry, from its lock or from the lane alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from builder.model.lane import Dep, DepSet, Lane, Source
from builder.model.lock import Lock, LockedDep, LockedPackage, LockedSource
from builder.model.schema import plain
from builder.steps.gates import Gate

Value = str | tuple[str, ...] | Mapping[str, str] | None
"""None: not known on this side. What does not apply is left out of the facts."""

Facts = dict[str, Value]
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Side:
    """One lane at one state of the project."""

    title: str  # "demo@HEAD~1"
    lane: Lane
    gates: tuple[Gate, ...]
    lock: Lock | None
    build_id: str = ""  # "" without a lock
    image: str | None = None  # the digest of the image folder as it lies there
    patches: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # source: path: sha256


def facts(side: Side) -> dict[Key, Facts]:
    """Every entry of a side by kind and name, in the lane's order."""
    return dict(_entries(side))


def _entries(side: Side) -> Iterator[tuple[Key, Facts]]:
    lane, lock = side.lane, side.lock
    for name, source in lane.sources.items():
        locked = lock.sources.get(name) if lock else None
        yield ("sources", name), _source(source, locked, side.patches.get(name))
    for name, dep in lane.own_deps.items():
        yield ("deps", name), _dep(dep, lock.deps.get(name) if lock else None)
    for name, derived in lane.dep_sets.items():
        yield ("deps", name), _dep_set(name, derived, lock)
    for name, base in lane.base.items():
        held = lock.base.get(name) if lock else None
        digests = _named_digest(base.ref) or (dict(held.platforms) if held else None)
        yield ("base", name), {"from": base.ref or base.rootfs or "", "digest": digests}
    for name, wheel in lane.python.items():
        package = lock.python.get(name) if lock else None
        yield ("python", name), {"wanted": wheel.requirement, **_package(package)}
    for name, deb in lane.debs.items():
        package = lock.debs.get(name) if lock else None
        yield ("debs", name), {"wanted": deb.package, **_package(package)}
    for name, value in lane.build.args.items():
        yield ("args", name), {"value": value}
    for name, value in lane.env.items():
        yield ("env", name), {"value": value}
    for name, value in _build(lane):
        yield ("build", name), {"value": value}
    content = lock.image.content if lock else side.image
    yield ("image", "folder"), {"name": lane.image, "content": content}
    yield from _gates(side.gates)
    for name in ("repository", "tags", "platforms"):
        value = getattr(lane, name)
        yield ("lane", name), {"value": value if isinstance(value, str) else tuple(value)}


def _build(lane: Lane) -> tuple[tuple[str, str], ...]:
    return (("cuda-arch-list", lane.build.cuda_arch_list), ("python", lane.build.python))


def _source(
    source: Source, locked: LockedSource | None, patches: Mapping[str, str] | None
) -> Facts:
    found: Facts = {"url": locked.url if locked else source.url}
    found["commit"] = locked.commit if locked else source.commit
    found["tree"] = locked.tree if locked else source.tree
    if source.compose:
        found["pull-requests"] = _pulls(source, locked)
    if locked:
        found["patches"] = {p.path: p.sha256 for p in locked.patches}
    elif source.patches:
        found["patches"] = patches
    else:
        found["patches"] = {}
    if source.patches:
        found["patch-states"] = {p.path: p.state for p in locked.patches} if locked else None
    untouched = source.tree if not (source.patches or source.compose) else None
    found["result-tree"] = locked.final.tree if locked else source.result_tree or untouched
    if source.submodules != "none":
        found["submodules"] = _submodules(locked)
    if source.native:
        found["native"] = locked.final.native if locked else None
        found["parts"] = _parts(source)
    found["content"] = locked.final.content if locked else None
    return found


def _dep(dep: Dep, locked: LockedDep | None) -> Facts:
    found: Facts = {
        "url": locked.url if locked else dep.url,
        "commit": locked.commit if locked else dep.commit,
        "into": dep.into,
    }
    if dep.submodules != "none":
        found["submodules"] = _submodules(locked)
    return found


def _dep_set(name: str, derived: DepSet, lock: Lock | None) -> Facts:
    """Deps that are derived from a source: what was asked, and the commits that it gave."""
    wanted = plain(derived, leave_out=frozenset({"mirrors"}))
    given = {n: d.commit for n, d in lock.deps.items() if d.from_ == name} if lock else None
    return {"wanted": json.dumps(wanted, sort_keys=True, ensure_ascii=False), "given": given}


def _submodules(locked: LockedSource | LockedDep | None) -> Value:
    return {path: sub.commit for path, sub in locked.submodules.items()} if locked else None


def _pulls(source: Source, locked: LockedSource | None) -> Value:
    """Number and head of each pull request, in order; a head that nobody pinned is unknown."""
    held: Sequence[Any] = getattr(locked, "compose", ()) or source.compose
    heads = [(f"#{pull.pull}", getattr(pull, "head", None)) for pull in held]
    return None if any(head is None for _, head in heads) else tuple(f"{n} {h}" for n, h in heads)


def _parts(source: Source) -> Value:
    """Published ids of the native paths; None where not all of them were published."""
    found = {path: source.parts[path] for path in source.native if path in source.parts}
    return found if len(found) == len(source.native) else None


def _package(locked: LockedPackage | None) -> Facts:
    if locked is None:
        return {"version": None, "files": None}
    files = {platform: file.sha256 for platform, file in locked.platforms.items()}
    return {"version": locked.version, "files": files}


def _named_digest(ref: str | None) -> Value:
    """The digest that a reference holds itself; it is then the same for every platform."""
    digest = (ref or "").partition("@")[2]
    return {"": digest} if digest else None


def _gates(gates: Sequence[Gate]) -> Iterator[tuple[Key, Facts]]:
    """Each gate under a name made of its kind and what it looks at; its table is its value."""
    seen: dict[str, int] = {}
    for gate in gates:
        title = f"{gate.kind} {gate.about}"
        seen[title] = seen.get(title, 0) + 1
        name = title if seen[title] == 1 else f"{title} ({seen[title]})"
        table = plain(gate)
        yield ("gates", name), {"table": json.dumps(table, sort_keys=True, ensure_ascii=False)}
