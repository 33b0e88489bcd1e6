"""Compare the deps that patched trees would fetch with those that are locked, before a build."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from builder.errors import Finding, LaneError, Place
from builder.model.ids import shown_url
from builder.model.lane import DepSet, Lane
from builder.model.lock import Lock, LockedDep
from builder.model.values import PatchedSource
from builder.ports import GitStore
from builder.steps.cmake import Fetch
from builder.steps.deps import derive, finding, read


class DepsDrift(LaneError):
    """The locked deps are not those that the locked tree would fetch."""

    code = "deps-drift"


def check(lane: Lane, lock: Lock, patched: Mapping[str, PatchedSource], *, store: GitStore) -> int:
    """Compare what the patched trees would fetch with the lock; the number of fetches.

    Of a source that is not in `patched` nothing is said.

    Raises: DepsUnclassified; DepsDrift, with everything that differs, by name.
    """
    count, wrong = 0, list[Finding]()
    for name, wanted in sorted(lane.dep_sets.items()):
        if wanted.from_ not in patched:
            continue
        fetches = derive(lane, name, patched[wanted.from_].source.tree, store=store)
        count += len(fetches)
        wrong += _drift(lane, lock, name, fetches)
    covered = {wanted.from_ for wanted in lane.dep_sets.values()}
    for source in sorted(patched.keys() - covered):
        if lane.sources[source].native:
            wrong += _uncovered(lane, source, patched[source].source.tree, store)
    if wrong:
        raise DepsDrift.of(wrong)
    return count


def _drift(lane: Lane, lock: Lock, name: str, fetches: Sequence[Fetch]) -> Iterator[Finding]:
    source = lane.dep_sets[name].from_
    hint = f"if the change is wanted: imgbuild lock {lane.name}"
    for fetch in fetches:
        if what := _differs(lock.deps.get(fetch.name), fetch):
            yield finding(source, fetch.file, fetch.line, what, hint, DepsDrift.code)
    known = {fetch.name for fetch in fetches}
    for other, dep in sorted(lock.deps.items()):
        if dep.from_ == name and other not in known:
            yield Finding(
                DepsDrift.code, f"{other} is locked, and nothing in {source} fetches it any more",
                hint, place=Place(lock.path, key=("deps", other)),
            )  # fmt: skip


def _differs(dep: LockedDep | None, fetch: Fetch) -> str:
    """In what a locked dep is not what would be fetched; empty when it is."""
    if dep is None:
        place = f"{shown_url(fetch.url)} at {fetch.tag}"
        return f"fetches {fetch.name} ({place}), which is not in the lock"
    if dep.from_ is None:
        return ""  # the lane's own stands in for it
    if (dep.url, dep.tag) != (fetch.url, fetch.tag):
        return (
            f"fetches {fetch.name} from {shown_url(fetch.url)} at {fetch.tag}, "
            f"the lock has {shown_url(dep.url)} at {dep.tag}"
        )
    found, locked = (fetch.variable, fetch.subfolder), (dep.variable, dep.subfolder or "")
    if found != locked:
        said = [variable or "no variable" for variable, _ in (found, locked)]
        return f"takes the folder of {fetch.name} from {said[0]}, the lock says {said[1]}"
    return ""


def _uncovered(lane: Lane, source: str, tree: str, store: GitStore) -> Iterator[Finding]:
    """What a source that is compiled would fetch, and no deps table of the lane provides."""
    fetches, unclassified = read(DepSet(source), tree, store)
    hint = f'add to the lane: [deps.{source}-cmake] with from = "{source}"'
    for fetch in fetches:
        if fetch.name not in lane.own_deps:
            what = f"fetches {fetch.name} ({shown_url(fetch.url)}), which no deps table provides"
            yield finding(source, fetch.file, fetch.line, what, hint, DepsDrift.code)
    if fetches:
        for u in unclassified:
            yield finding(source, u.file, u.line, u.what, hint, DepsDrift.code)
