"""Read lanes and locks, strictly."""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from builder.errors import Finding, LaneError, Place
from builder.model import toml_text
from builder.model.ids import NAME_RULE, is_local_url, is_name
from builder.model.lane import Base, Dep, Lane, Source
from builder.model.lock import Lock
from builder.model.schema import Reader
from builder.model.toml_text import TomlInvalid
from builder.ports import Project
from builder.steps import gates, pulls
from builder.steps.gates import Gate, LaneFacts
from builder.steps.hints import restoring
from builder.steps.runtime_compile import of_runtime_compile


class LaneInvalid(LaneError):
    code = "lane-invalid"


class LockInvalid(LaneError):
    code = "lock-invalid"


class LockMissing(LaneError):
    code = "lock-missing"


class MergeUnfinished(LockInvalid):
    """git's conflict markers stand in the file, or what a merge left out is missing."""


@dataclass(frozen=True, slots=True)
class ReadLane:
    """A lane that holds in itself, with the gates of its image folder, its own, then those that
    follow from what its sources compile at run time."""

    lane: Lane
    gates: tuple[Gate, ...]
    places: tuple[Place, ...]  # of the gates, in their order

    @property
    def facts(self) -> LaneFacts:
        """What gates may know of the lane."""
        places = dict(reversed(self.declared))  # of what is declared twice, the first
        return LaneFacts(self.lane.name, self.lane.build.cuda_arch_list, places=places)

    @property
    def declared(self) -> tuple[tuple[Gate, Place], ...]:
        return tuple(zip(self.gates, self.places, strict=True))


def names(project: Project) -> tuple[str, ...]:
    """All lanes of the project, sorted."""
    found = project.files("locks") or ()
    return tuple(path[:-5] for path, _ in found if path.endswith(".toml") and "/" not in path)


def named(text: str) -> str:
    """The lane that a path to its file, or to its lock, means."""
    name = text.rstrip("/").rpartition("/")[2]
    return name.removesuffix(".toml").removesuffix(".lock")


def taken(lane: Lane, *, project: Project) -> Iterator[Finding]:
    """The other lanes of the project that would move the same tags of the same image name."""
    for other in names(project):
        data = project.read(f"locks/{other}.toml")
        if other == lane.name or data is None:
            continue
        with contextlib.suppress(LaneError):
            raw = _toml(data, project.root / "locks" / f"{other}.toml", LaneInvalid)
            tags = raw.get("tags", ["local"])
            if raw.get("repository") != lane.repository or not isinstance(tags, list):
                continue
            if shared := sorted({*lane.tags} & {tag for tag in tags if isinstance(tag, str)}):
                yield Finding(
                    "name-taken",
                    f"{lane.name} and {other} would both be {lane.repository}:{shared[0]}",
                    "give one of them another repository, or other tags",
                    place=Place(lane.path, key=("repository",)),
                )


def read_lane(name: str, *, project: Project) -> ReadLane:
    """Read `locks/<name>.toml` strictly. Raises: LaneInvalid with every finding."""
    path = project.root / "locks" / f"{name}.toml"
    text = project.read(f"locks/{name}.toml") if is_name(name) else None
    if text is None:
        raise _no_lane(name, path, names(project))
    reader = Reader(path, LaneInvalid.code)
    raw = _toml(text, path, LaneInvalid)
    lane = reader.read(Lane, raw)
    own, findings = gates.parse(_tables(raw), file=path, sources=lane.sources if lane else None)
    reader.findings += findings
    shared: tuple[Gate, ...] = ()
    implied: tuple[Gate, ...] = ()
    implied_places: tuple[Place, ...] = ()
    if lane is not None:
        reader.findings += _lane_findings(lane, path)
        shared, findings = _image_gates(lane, project)
        reader.findings += findings
        implied, implied_places, findings = of_runtime_compile(lane, path)
        reader.findings += findings
    if lane is None or reader.findings:
        raise LaneInvalid.of(reader.findings)
    folder = project.root / image_folder(lane) / "gates.toml"
    places = [Place(folder, key=("gates", i)) for i in range(len(shared))]
    places += [Place(path, key=("gates", i)) for i in range(len(own))]
    every = (*shared, *own, *implied)
    return ReadLane(replace(lane, name=name, path=path), every, (*places, *implied_places))


def read_lock(lane: Lane, *, project: Project | None = None, whole: bool = True) -> Lock:
    """Read the lane's lock strictly. Raises: LockMissing, LockInvalid with every finding.

    With `project` it is read from there (a revision), else from beside the lane. A lock that
    is not `whole` may lack what `imgbuild lock` computes from its other entries.
    """
    path = lane.path.with_suffix(".lock")
    if path.exists() and not path.is_file():
        raise LockInvalid(
            f"{path.name} is no regular file", place=Place(path),
            hint=f"move away what is there, then: imgbuild lock {lane.name}",
        )  # fmt: skip
    try:
        text = path.read_bytes() if project is None else project.read(f"locks/{lane.name}.lock")
    except FileNotFoundError:
        text = None
    if text is None:
        raise LockMissing(
            f"{lane.name} has no lock yet",
            place=Place(path),
            hint=f"resolve it: imgbuild lock {lane.name}",
        )
    return replace(lock_of(text, path, lane.name, whole=whole), path=path)


def lock_of(
    text: bytes | Mapping[str, object], path: Path, lane: str, *, whole: bool = True
) -> Lock:
    """A lock from its text, or its table. Raises: LockInvalid with every finding."""
    reader = Reader(path, LockInvalid.code)
    raw = _toml(text, path, LockInvalid) if isinstance(text, bytes) else text
    lock = reader.read(Lock, raw)
    if lock is None or reader.findings:
        raise LockInvalid.of(_with_hint(reader.findings, restoring(lane)))
    if whole and lock.deps and lock.deps_archive is None:
        raise MergeUnfinished(
            "the digest of the deps tarball is missing: a merge joined deps of both sides",
            hint=f"compute it from the merged deps: imgbuild lock {lane}",
            place=Place(path, key=("deps",)),
        )
    return lock


def image_folder(lane: Lane) -> str:
    return f"docker-images/{lane.image}"


def _lane_findings(lane: Lane, path: Path) -> Iterator[Finding]:
    """What the schema cannot say: conditions across keys and files."""

    def finding(key: tuple[str | int, ...], what: str, hint: str = "") -> Finding:
        return Finding(LaneInvalid.code, what, hint, place=Place(path, key=key))

    if not lane.platforms:
        yield finding(("platforms",), "platforms: names no platform")
    if "host" in lane.platforms and len(lane.platforms) > 1:
        yield finding(("platforms",), "platforms: host stands alone")
    if not (lane.sources or lane.python or lane.debs):
        yield finding((), "the lane has no [sources.NAME], and no packages either")
    entries: Mapping[str, Mapping[str, Source | Dep]]
    entries = {"sources": lane.sources, "deps": lane.own_deps}
    for kind, tables in entries.items():
        for name, source in sorted(tables.items()):
            if source.commit is None and source.track.ref is None:
                yield finding(
                    (kind, name), f"{name}: neither commit nor track is given",
                    'add commit = "…", or track = { branch = "main" }',
                )  # fmt: skip
            if source.track.branch is not None and source.track.tag is not None:
                yield finding((kind, name, "track"), f"{name}: track names a branch and a tag")
    for name, wanted in sorted(lane.sources.items()):
        yield from (finding(*fault) for fault in pulls.wrong(name, wanted))
    for name, base in sorted(lane.base.items()):
        yield from _base_findings(name, base, finding)
        if base.rootfs is not None and len(lane.platforms) > 1:
            yield finding(
                ("platforms",), f"platforms: base {name} is one tar, which serves one platform",
                'build for the machine that locks: platforms = ["host"]',
            )  # fmt: skip
    if lane.python and not lane.build.python:
        yield finding(
            ("build",), "build.python is missing: wheels are chosen for it",
            'add python = "3.12" (the image\'s own version) to [build]',
        )  # fmt: skip
    for name, derived in sorted(lane.dep_sets.items()):
        if derived.from_ not in lane.sources:
            known = ", ".join(sorted(lane.sources))
            yield finding(
                ("deps", name, "from"), f"{name}: there is no source {derived.from_}",
                f"sources of this lane: {known}",
            )  # fmt: skip
    yield from _twice(lane, path)
    taken: dict[str, str] = {}
    for name, dep in sorted(lane.own_deps.items()):
        other = next((o for place, o in taken.items() if _nested(place, dep.into)), None)
        if other:
            yield finding(("deps", name, "into"), f"{name} and {other} overlap below {dep.into}")
        taken[dep.into] = name


def _base_findings(name: str, base: Base, finding: Any) -> Iterator[Finding]:
    if (base.ref is None) == (base.rootfs is None):
        yield finding(("base", name), f"{name}: needs exactly one of ref and rootfs")
    if base.rootfs is not None and not is_local_url("/" + base.rootfs):
        yield finding(("base", name, "rootfs"), f"{name}: rootfs must be a path")


def _twice(lane: Lane, path: Path) -> Iterator[Finding]:
    """Two entries for one distribution: they would overwrite each other at install."""
    asked = {n: re.split(r"[^\w.-]", w.requirement.strip())[0] for n, w in lane.python.items()}
    wheels = {name: re.sub(r"[-_.]+", "-", wanted).lower() for name, wanted in asked.items()}
    debs = {name: deb.package for name, deb in lane.debs.items()}
    for kind, wanted in (("python", wheels), ("debs", debs)):
        first: dict[str, str] = {}
        for name, distribution in sorted(wanted.items()):
            other = first.setdefault(distribution, name)
            if other != name:
                yield Finding(
                    "package-twice", f"{name} and {other} are both {distribution}",
                    "keep one of the two tables", place=Place(path, key=(kind, name)),
                )  # fmt: skip


def _image_gates(lane: Lane, project: Project) -> tuple[tuple[Gate, ...], tuple[Finding, ...]]:
    path = f"{image_folder(lane)}/gates.toml"
    text = project.read(path)
    if text is None:
        return (), ()
    file = project.root / path
    raw = _toml(text, file, LaneInvalid)
    reader = Reader(file, LaneInvalid.code)
    for key in sorted(set(raw) - {"gates"}):
        reader.report((key,), "unknown key", "this file holds [[gates]] only")
    parsed, findings = gates.parse(_tables(raw), file=file, sources=lane.sources)
    return parsed, (*reader.findings, *findings)


def _tables(raw: Mapping[str, object]) -> list[Mapping[str, object]]:
    """The gate tables that are tables; the lane's own schema reports the others."""
    found = raw.get("gates", [])
    return [t for t in found if isinstance(t, Mapping)] if isinstance(found, list) else []


def _toml(data: bytes, path: Path, error: type[LaneError]) -> Mapping[str, object]:
    try:
        return toml_text.parse(data)
    except TomlInvalid as bad:
        found = bad.finding(error.code, path)
        if b"<<<<<<<" in data:
            hint = "the file holds an unfinished merge: keep one side between the markers, then: "
            hint += f"imgbuild lock {path.stem}"
            found = replace(found, hint=hint)
            error = MergeUnfinished if error is LockInvalid else error
        raise error.of([found]) from bad


def _nested(a: str, b: str) -> bool:
    return a == b or a.startswith(f"{b}/") or b.startswith(f"{a}/")


def _no_lane(name: str, path: Path, known: Sequence[str]) -> LaneInvalid:
    if name in known and not is_name(name):
        return LaneInvalid(
            f"{name!r} is no lane's name: it must be {NAME_RULE}", place=Place(path),
            hint=f"rename its file: {path.name}",
        )  # fmt: skip
    hint = (
        f"lanes of this project: {', '.join(known)}" if known else "this project has no lanes yet"
    )
    if near := difflib.get_close_matches(named(name), known, n=1):
        hint = f"did you mean {near[0]}?"
    rule = "" if is_name(name) else f": a lane has {NAME_RULE}"
    return LaneInvalid(f"there is no lane {name!r}{rule}", hint=hint)


def _with_hint(findings: Sequence[Finding], hint: str) -> list[Finding]:
    return [replace(f, hint=hint) for f in findings]
