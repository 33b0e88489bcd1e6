"""`imgbuild lock`: from a lane to its lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from builder.errors import Finding, Place, UsageError, each
from builder.index_ports import PackageIndex, Registry
from builder.model.counts import plural
from builder.model.lane import Dep, Lane, Source
from builder.model.lock import Lock, LockedDep, LockedImage, LockedPackage, LockedSource
from builder.model.schema import plain
from builder.model.values import GitPin
from builder.pipeline.depset import lock_deps
from builder.pipeline.following import follow
from builder.ports import Files, GitStore, Progress, Project, Say, StageLine
from builder.steps import bases, delta, identity, resolve, unresolved
from builder.steps.changes import Changes, collect, differing
from builder.steps.hints import at_tips
from builder.steps.image import folder_digest
from builder.steps.lanes import LockMissing, image_folder, read_lane, read_lock
from builder.steps.patches import read_sets
from builder.steps.placed import placed
from builder.tools.toml import lock_text, with_commit

S = TypeVar("S", Source, Dep)
KINDS = ("sources", "deps", "base", "python", "debs")


@dataclass(frozen=True, slots=True)
class LockReport:
    lane: Lane
    lock: Lock
    changes: tuple[tuple[str, Any, Any], ...]  # (key path, before, after), sorted
    written: bool
    warnings: tuple[Finding, ...] = ()
    moved: Changes | None = None  # of an update


def lock(
    name: str,
    *,
    update: frozenset[str] | None,
    host: str,
    project: Project,
    store: GitStore,
    files: Files,
    wheels: Callable[[str], PackageIndex],
    debs: Callable[[], PackageIndex],
    registry: Registry,
    progress: Progress,
) -> LockReport:
    """Resolve a lane and write its lock; untouched when nothing changed.

    `update` names the entries that move to their tracked refs: empty means all, None none.
    `host` is the platform that "host" in the lane stands for. On any error the lane and the
    lock stay as they were.
    """
    lane = read_lane(name, project=project).lane
    unresolved.obstacles(lane, project=project)
    moving = _moving(lane, update)
    progress.title(f"{lane.name} · {_counted(lane, project)}")
    old = _older(lane)
    platforms = [host if p == "host" else p for p in lane.platforms]

    tables: Mapping[str, Mapping[str, Source | Dep]]
    tables = {"sources": lane.sources, "deps": lane.own_deps}
    with progress.stage("resolve") as line:
        every = [(kind, key) for kind, entries in tables.items() for key in sorted(entries)]
        pinned = each(
            every,
            lambda at: resolve.pin(
                at[1], tables[at[0]][at[1]], getattr(old, at[0]).get(at[1]) if old else None,
                update=at[1] in moving, store=store, root=project.root,
                place=Place(lane.path, key=at),
            ),
        )  # fmt: skip
        pins = {kind: {k: pinned[kind, k] for k in sorted(tables[kind])} for kind in tables}
        lane = _moved(lane, pins, moving)
        followed = follow(lane, old, pins, moving, store=store, say=line.say)
        line.done(plural(sum(map(len, pins.values())), "commit"))
    with progress.stage("fetch") as line:
        fetched = store.fetch([p for k in pins.values() for p in k.values()], say=line.say)
        line.done(fetch_summary(fetched))
    with progress.stage("sources") as line, at_tips(moving):
        sources = each(
            pins["sources"],
            lambda key: resolve.source(
                pins["sources"][key], lane.sources[key], lane=lane.path,
                old=_kept(lane.sources[key], old, key, moving),
                former=old.sources.get(key) if old else None,
                reachable_from=followed.refs["sources", key],
                project=project, store=store, files=files, say=line.say,
            ),
        )  # fmt: skip
        deps = lock_deps(
            lane, old, sources, pins["deps"], followed.refs, moving,
            project=project, store=store, files=files, say=line.say,
        )  # fmt: skip
        if old is not None and (wrong := [*_edited(lane, old, sources, deps, moving)]):
            raise resolve.LockEdited.of(wrong)
        archive = resolve.deps_archive(deps, store=store, files=files)
        line.done(_sources_summary(sources))
    with progress.stage("packages") as line:
        ask = (lane, old, moving, platforms)
        index = {"python": lambda: wheels(lane.build.python), "debs": debs}
        made: Mapping[str, Callable[[], Mapping[str, Any]]] = {
            "base": lambda: each(
                sorted(lane.base),
                lambda key: bases.resolve_base(
                    key, lane.base[key], old.base.get(key) if old else None, platforms, lane,
                    update=key in moving, project=project, files=files, registry=registry,
                ),
            ),
            **{
                kind: partial(_packages, kind, *ask, asked, files, line.say)
                for kind, asked in index.items()
            },
        }  # fmt: skip
        base, python, packages = each(made, lambda kind: made[kind]()).values()
        said = ((base, "base"), (python, "wheel"), (packages, "deb"))
        line.done(", ".join(plural(len(table), word) for table, word in said if table))
    with progress.stage("write") as line:
        image = LockedImage(folder_digest(image_folder(lane), project=project))
        new = Lock(1, image, sources, base, deps, archive, python, packages)
        report = _write(lane, old, new, project, files, line)
    if old is None or update is None:
        return replace(report, warnings=followed.warnings)
    with progress.stage("changes") as line:
        found = collect(old, new, lane, root=project.root, store=store, say=line.say)
        line.done(f"{plural(len(found.sources), 'source')} updated")
    return replace(report, warnings=followed.warnings, moved=found)


def fetch_summary(fetched: tuple[Any, ...]) -> str:
    """What a fetch brought: "2 of 4 commits, 3.1 MB"."""
    new = [f for f in fetched if f.url is not None]
    if not new:
        return "nothing new"
    return (
        f"{len(new)} of {plural(len(fetched), 'commit')}, {sum(f.size for f in new) / 1e6:.1f} MB"
    )


def _moving(lane: Lane, update: frozenset[str] | None) -> frozenset[str]:
    known = frozenset(n for kind in KINDS for n in getattr(lane, kind))
    if update is None:
        return frozenset()
    if unknown := sorted(update - known):
        raise UsageError(
            f"{lane.name} has no entry {unknown[0]!r}", hint=f"entries: {', '.join(sorted(known))}"
        )
    return update or known


def _older(lane: Lane) -> Lock | None:
    """What is locked. One that cannot be read is an error: its pins would be lost."""
    try:
        return read_lock(lane, whole=False)
    except LockMissing:
        return None


def _packages(
    kind: str,
    lane: Lane,
    old: Lock | None,
    moving: frozenset[str],
    platforms: list[str],
    index: Callable[[], PackageIndex],
    files: Files,
    say: Say,
) -> Mapping[str, LockedPackage]:
    """Lock the tables of `kind` ("python" or "debs"), whose versions are asked with == and =."""
    equals = {"python": "==", "debs": "="}[kind]
    found = {}
    for key, wanted in sorted(getattr(lane, kind).items()):
        request = wanted.requirement if kind == "python" else wanted.package
        say(request)
        former = getattr(old, kind).get(key) if old else None
        with placed(key, Place(lane.path, key=(kind, key))):
            found[key] = resolve.package(
                wanted, request,
                former if resolve.keeps(wanted, former, update=key in moving) else None,
                platforms=platforms, index=index, files=files,
                exact=lambda name, version: f"{name}{equals}{version}",
            )  # fmt: skip
    return found


def _moved(lane: Lane, pins: Mapping[str, Mapping[str, GitPin]], moving: frozenset[str]) -> Lane:
    """The lane with the commits it names itself moved to the new pins."""

    def at(kind: str, key: str, wanted: S) -> S:
        if key not in moving or wanted.commit is None:
            return wanted
        commit = pins[kind][key].commit
        if commit == wanted.commit or isinstance(wanted, Dep):
            return replace(wanted, commit=commit)
        # what was published of the former commit says nothing of this one
        return replace(wanted, commit=commit, tree=None, parts={}, result_tree=None)

    return replace(
        lane,
        sources={key: at("sources", key, wanted) for key, wanted in lane.sources.items()},
        deps={
            **{key: at("deps", key, wanted) for key, wanted in lane.own_deps.items()},
            **lane.dep_sets,
        },
    )


def _kept(
    wanted: Source, old: Lock | None, key: str, moving: frozenset[str]
) -> LockedSource | None:
    """The older lock's entry when it stays."""
    former = old.sources.get(key) if old else None
    return former if resolve.keeps(wanted, former, update=key in moving) else None


def _edited(
    lane: Lane,
    old: Lock,
    sources: Mapping[str, LockedSource],
    deps: Mapping[str, LockedDep],
    moving: frozenset[str],
) -> Iterator[Finding]:
    """What the older lock says of kept entries, and their commits do not."""
    every: Mapping[str, Mapping[str, LockedSource | LockedDep]]
    every = {"sources": sources, "deps": deps}
    for kind, entries in every.items():
        for name, new in sorted(entries.items()):
            former = getattr(old, kind).get(name)
            if former is not None and former.intent == new.intent and name not in moving:
                place = Place(lane.path.with_suffix(".lock"), key=(kind, name))
                yield from resolve.edited(former, new, place)


def _write(
    lane: Lane, old: Lock | None, new: Lock, project: Project, files: Files, line: StageLine
) -> LockReport:
    differs = tuple(differing(plain(old) if old else {}, plain(new)))
    text = lock_text(new, lane.name).encode()
    path = f"locks/{lane.name}.lock"
    written = project.read(path) != text
    if written:
        _write_commits(lane, project)
        project.write(path, text)
    deltas = delta.publish(lane.name, new.sources, project=project, files=files)
    files_written = ", ".join([path, *deltas] if written else deltas)
    told = f"{files_written}, build {identity.build_id(lane, new)[:12]}"
    line.done(told if files_written else "no change")
    return LockReport(lane, new, differs, written)


def _write_commits(lane: Lane, project: Project) -> None:
    """Write into the lane's file the commits in which it differs from `lane`."""
    path = f"locks/{lane.name}.toml"
    before = (project.read(path) or b"").decode()
    written = read_lane(lane.name, project=project).lane
    text = before
    tables: Mapping[str, tuple[Mapping[str, Source | Dep], Mapping[str, Source | Dep]]] = {
        "sources": (lane.sources, written.sources), "deps": (lane.own_deps, written.own_deps),
    }  # fmt: skip
    for kind, (moved, former) in tables.items():
        for key, wanted in sorted(moved.items()):
            if wanted.commit is not None and wanted.commit != former[key].commit:
                text = with_commit(text, kind, key, wanted.commit)
    if text != before:
        project.write(path, text.encode())


def _counted(lane: Lane, project: Project) -> str:
    found = [p for s in lane.sources.values() for p in read_sets(s.patches, project=project)]
    counts = (
        (lane.sources, "source"), (lane.deps, "dep"), (found, "patch"), (lane.python, "wheel"),
        (lane.debs, "deb"),
    )  # fmt: skip
    return ", ".join(plural(len(table), word) for table, word in counts if table)


def _sources_summary(sources: Mapping[str, Any]) -> str:
    modules = sum(len(s.submodules) for s in sources.values())
    patches = sum(len(s.patches) for s in sources.values())
    counts = ((len(sources), "source"), (modules, "submodule"), (patches, "patch"))
    return ", ".join(plural(n, word) for n, word in counts if n)
