"""`imgbuild deps`: the deps set of a lane, as it is locked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from builder.model.lane import Lane
from builder.model.lock import Lock, LockedDep
from builder.ports import GitStore, Project
from builder.steps import deps_env, trees
from builder.steps.deps import derive
from builder.steps.lanes import read_lane, read_lock
from builder.steps.staging import deps_trees


@dataclass(frozen=True, slots=True)
class ListedDep:
    name: str
    locked: LockedDep
    folder: str  # what its variable points at, below the folder of the deps
    used: str  # "vllm: CMakeLists.txt:355", or "declared"
    files: int | None  # None: it is not in the store
    size: int | None  # bytes


@dataclass(frozen=True, slots=True)
class DepList:
    lane: Lane
    lock: Lock
    deps: tuple[ListedDep, ...]

    @property
    def size(self) -> int:
        """Bytes of all that is in the store."""
        return sum(dep.size or 0 for dep in self.deps)


def listed(name: str, *, project: Project, store: GitStore) -> DepList:
    """The deps of a lane, sorted by name; nothing is fetched for it."""
    lane = read_lane(name, project=project).lane
    lock = read_lock(lane)
    lines = _lines(lane, lock, store)
    found = []
    for (_, tree), (key, dep) in zip(deps_trees(lock.deps), sorted(lock.deps.items()), strict=True):
        is_here = all(map(store.holds, (tree.tree, *tree.submodules.values())))
        entries = trees.whole(tree, store=store) if is_here else ()
        held = [e for e in entries if e.mode != trees.GITLINK and not trees.is_desktop_file(e.path)]
        found.append(
            ListedDep(
                key, dep, deps_env.folder_of(dep), _used(key, dep, lane, lines),
                len(held) if is_here else None,
                sum(entry.size for entry in held) if is_here else None,
            )
        )  # fmt: skip
    return DepList(lane, lock, tuple(found))


def _lines(lane: Lane, lock: Lock, store: GitStore) -> Mapping[str, str]:
    """Where each derived dep is fetched, with the line, as far as its source is here."""
    found = {}
    for name, wanted in lane.dep_sets.items():
        source = lock.sources.get(wanted.from_)
        if source is not None and store.holds(source.final.tree):
            for fetch in derive(lane, name, source.final.tree, store=store):
                found[fetch.name] = f"{wanted.from_}: {fetch.file}:{fetch.line}"
    return found


def _used(name: str, dep: LockedDep, lane: Lane, lines: Mapping[str, str]) -> str:
    if dep.file is None:
        return "declared"
    derived = lane.dep_sets.get(dep.from_ or "")
    used = lines.get(name, f"{derived.from_}: {dep.file}" if derived else dep.file)
    return used if dep.from_ else f"declared, for {used}"
