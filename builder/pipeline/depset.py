"""Lock the deps of a lane: those it declares, and those that are derived from locked sources."""

from __future__ import annotations

from collections.abc import Mapping

from builder.errors import LaneError, Place
from builder.model.lane import Lane
from builder.model.lock import Lock, LockedDep, LockedSource
from builder.model.values import GitPin
from builder.ports import Files, GitStore, Project, Say
from builder.steps import deps, resolve
from builder.steps.cmake import Fetch


class DepTwice(LaneError):
    """Two deps tables of a lane stand for one dep."""

    code = "dep-twice"


def lock_deps(
    lane: Lane,
    old: Lock | None,
    sources: Mapping[str, LockedSource],
    pins: Mapping[str, GitPin],
    refs: Mapping[tuple[str, str], str | None],
    moving: frozenset[str],
    *,
    project: Project,
    store: GitStore,
    files: Files,
    say: Say,
) -> Mapping[str, LockedDep]:
    """Every dep of a lane by name. `pins` and `refs` are of the declared ones, in the store.

    Raises: DepsUnclassified, DepTwice, SubmoduleInvalid, SourceUnavailable.
    """
    own = {
        name: resolve.dep(
            pinned, lane.own_deps[name], reachable_from=refs["deps", name],
            project=project, store=store, files=files, say=say,
        )
        for name, pinned in pins.items()
    }  # fmt: skip
    derived: dict[str, LockedDep] = {}
    found: list[Fetch] = []
    for name, wanted in sorted(lane.dep_sets.items()):
        fetches = deps.derive(lane, name, sources[wanted.from_].final.tree, store=store)
        found += fetches
        further = {f.name: f for f in fetches if f.name not in own}
        if twice := sorted(derived.keys() & further.keys()):
            place = Place(lane.path, key=("deps", name))
            raise DepTwice(
                f"{name} and {derived[twice[0]].from_} both stand for {twice[0]}",
                hint=f"declare it once: [deps.{twice[0]}] with url, commit and into", place=place,
            )  # fmt: skip
        former = old.deps if old else {}
        wanted_pins = {
            key: deps.pin(
                fetch, wanted, former.get(key),
                update=name in moving, store=store, root=project.root,
                place=Place(lane.path, key=("deps", name)),
            )
            for key, fetch in further.items()
        }  # fmt: skip
        store.fetch([*wanted_pins.values()], say=say)
        for key, fetch in further.items():
            derived[key] = deps.lock(
                fetch, wanted_pins[key], lane, name,
                project=project, store=store, files=files, say=say,
            )  # fmt: skip
    return {**deps.told(own, found), **derived}
