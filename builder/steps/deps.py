"""The deps set: what a source's CMake files would fetch, derived from its locked tree.

What is derived is locked by commit like everything else. It is derived again before a build: a
patch or a new commit that fetches something further is named, not met in the middle of a compile.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from builder.errors import Finding, LaneError, Place, SourceError
from builder.model.ids import is_local_url, is_relative_path, is_url, shown_url
from builder.model.lane import Dep, DepSet, Lane
from builder.model.lock import LockedDep
from builder.model.values import GitPin
from builder.ports import Files, GitStore, Project, RefGone, Say
from builder.steps import cmake, identity, resolve, trees
from builder.steps.cmake import Fetch
from builder.steps.cmake_content import declare
from builder.steps.placed import placed
from builder.steps.submodules import absolute

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class DepsUnclassified(LaneError):
    """A CMake file fetches something that cannot be locked as it stands."""

    code = "deps-unclassified"


def derive(lane: Lane, name: str, tree: str, *, store: GitStore) -> tuple[Fetch, ...]:
    """What the set `name` of a lane stands for, in the patched tree of its source.

    What the lane leaves out is not in it; what the lane declares itself is. Raises:
    DepsUnclassified, with every statement that nobody answers for.
    """
    wanted = lane.dep_sets[name]
    fetches, unclassified = read(wanted, tree, store)
    excused = wanted.leave_out.keys() | lane.own_deps.keys()
    named = {fetch.name for fetch in fetches} | {u.name for u in unclassified}
    seen = named | {f.file for f in fetches} | {u.file for u in unclassified}
    wrong = [
        finding(wanted.from_, u.file, u.line, u.what, u.hint)
        for u in unclassified
        if u.name not in excused and u.file not in excused
    ]
    url = lane.sources[wanted.from_].url
    wrong += _doubtful(wanted, url, [f for f in fetches if f.name not in excused])
    for left in sorted(wanted.leave_out.keys() - seen):
        wrong.append(_of_lane(lane, (name, "leave-out", left), f"nothing fetches {left}"))
    if not fetches and not unclassified:
        wrong.append(_of_lane(lane, (name,), f"{wanted.from_}: its CMake files fetch nothing"))
    if wrong:
        raise DepsUnclassified.of(wrong)
    return tuple(f for f in fetches if f.name not in wanted.leave_out)


def pin(
    fetch: Fetch,
    wanted: DepSet,
    old: LockedDep | None,
    *,
    update: bool,
    store: GitStore,
    root: Path,
    place: Place | None = None,
) -> GitPin:
    """The commit of a fetch: its own, the older lock's for the same tag, or the tag's now."""
    urls = (fetch.url, *wanted.mirrors.get(fetch.name, ()))
    places = tuple(absolute(url, root) for url in urls)
    same = old is not None and (old.url, old.tag) == (fetch.url, fetch.tag)
    if _COMMIT.fullmatch(fetch.tag):
        return GitPin(fetch.name, places, fetch.tag, place=place)
    if old is not None and same and not update:
        return GitPin(fetch.name, places, old.commit, old.reachable_from, place)
    try:
        with placed(fetch.name, place):
            ref, commit = _named(places, fetch.tag, store)
    except RefGone as gone:
        gone.findings = tuple(_at_statement(found, fetch, wanted.from_) for found in gone.findings)
        raise
    return GitPin(fetch.name, places, commit, ref, place)


def lock(
    fetch: Fetch,
    pinned: GitPin,
    lane: Lane,
    name: str,
    *,
    project: Project,
    store: GitStore,
    files: Files,
    say: Say,
) -> LockedDep:
    """Lock a fetch whose pin is in the store. Raises: SubmoduleInvalid, SourceUnavailable."""
    wanted = lane.dep_sets[name]
    into = folder(wanted, fetch)
    tree = store.commit(pinned.commit).tree
    unfilled = dict(_unfilled(fetch, lane, wanted, into, tree, store))
    dep = Dep(fetch.url, into, mirrors=wanted.mirrors.get(fetch.name, ()), unfilled=unfilled)
    locked = resolve.dep(
        pinned, dep, reachable_from=pinned.ref, project=project, store=store, files=files, say=say
    )
    return replace(
        locked, intent=identity.intent(wanted), from_=name, tag=fetch.tag, file=fetch.file,
        variable=fetch.variable, subfolder=fetch.subfolder or None, unfilled=unfilled,
    )  # fmt: skip


def told(own: Mapping[str, LockedDep], fetches: Iterable[Fetch]) -> Mapping[str, LockedDep]:
    """The lane's own deps; one that stands in for a fetch is told by the fetch's variable."""
    known = {fetch.name: fetch for fetch in fetches}
    return {
        name: replace(
            dep, file=known[name].file, variable=dep.variable or known[name].variable,
            subfolder=known[name].subfolder or None,
        )
        if name in known else dep
        for name, dep in own.items()
    }  # fmt: skip


def folder(wanted: DepSet, fetch: Fetch) -> str:
    """Where a fetch lies in the deps tarball."""
    return f"{wanted.into}/{fetch.name}" if wanted.into else fetch.name


def _named(places: Sequence[str], tag: str, store: GitStore) -> tuple[str, str]:
    """The full ref and the commit that a GIT_TAG names now: a tag, else a branch."""
    try:
        return f"refs/tags/{tag}", store.resolve(places, f"refs/tags/{tag}")
    except SourceError:
        with contextlib.suppress(SourceError):
            return f"refs/heads/{tag}", store.resolve(places, f"refs/heads/{tag}")
        raise


def _at_statement(found: Finding, fetch: Fetch, source: str) -> Finding:
    """A tag that is gone stands in the source's file, not in the lane."""
    hint = (
        f"GIT_TAG {fetch.tag} stands in that file of {source}: where it is a variable, give it "
        f"another value in the deps table, define = {{ … }}; or {declare(fetch.name)}, or patch "
        "the file"
    )
    where = Place(Path(source, fetch.file), fetch.line)
    return replace(found, what=f"{found.what} ({fetch.file}:{fetch.line})", hint=hint, place=where)


def _unfilled(
    fetch: Fetch, lane: Lane, wanted: DepSet, into: str, tree: str, store: GitStore
) -> Iterator[tuple[str, str]]:
    """The gitlinks that stay empty, each with its reason."""
    prefix = f"{fetch.name}/"
    for path, reason in sorted(wanted.unfilled.items()):
        if path.startswith(prefix):
            yield path.removeprefix(prefix), reason
    for entry in store.entries(tree):
        if entry.mode != trees.GITLINK or f"{prefix}{entry.path}" in wanted.unfilled:
            continue
        filler = next((n for n, d in lane.own_deps.items() if d.into == f"{into}/{entry.path}"), "")
        if filler:
            yield entry.path, f"filled by [deps.{filler}]"
        elif fetch.submodules is not None and entry.path not in fetch.submodules:
            yield entry.path, f"not in GIT_SUBMODULES of {fetch.file}"


def _doubtful(wanted: DepSet, url: str, fetches: Sequence[Fetch]) -> Iterator[Finding]:
    """Values that CMake would take and a lock must not hold."""
    for fetch in fetches:
        asks = f"{fetch.name}: GIT_REPOSITORY {shown_url(fetch.url)}"
        if not _NAME.fullmatch(fetch.name):
            what = f"{fetch.name!r} is no name for a dep"
        elif not is_url(fetch.url):
            what = f"{asks} is neither https, ssh nor a path, or has room for a secret"
        elif is_local_url(fetch.url) and not is_local_url(url):
            what = f"{asks} is a path on this machine, given by "
            what += "a repository that is not on it"
        elif fetch.subfolder and not is_relative_path(fetch.subfolder):
            what = f"{fetch.name}: SOURCE_SUBDIR {fetch.subfolder} is not below the source"
        elif re.fullmatch(r"[0-9a-f]{7,39}", fetch.tag):
            what = f"{fetch.name}: GIT_TAG {fetch.tag} is an abbreviated commit"
        else:
            continue
        yield finding(wanted.from_, fetch.file, fetch.line, what, declare(fetch.name))


def read(
    wanted: DepSet, tree: str, store: GitStore
) -> tuple[tuple[Fetch, ...], tuple[cmake.Unclassified, ...]]:
    """What the CMake files of a tree fetch, with the files that they include."""

    def text(path: str) -> str | None:
        data = store.blob(tree, path)
        return None if data is None else data.decode("utf-8", "replace")

    paths = {entry.path for entry in store.entries(tree)}
    return cmake.read(texts(wanted.files, tree, store), wanted.define, cmake.Tree(paths, text))


def texts(globs: Sequence[str], tree: str, store: GitStore) -> Mapping[str, str]:
    """The files that the globs name, in the order of the globs; `*` does not cross folders."""
    found: dict[str, str] = {}
    for glob in globs:
        for entry in store.entries(tree):
            fits = fnmatchcase(entry.path, glob) and entry.path.count("/") == glob.count("/")
            if fits and entry.path not in found and entry.mode != trees.GITLINK:
                data = store.blob(tree, entry.path)
                if data is not None:
                    found[entry.path] = data.decode("utf-8", "replace")
    return found


def finding(
    source: str, file: str, line: int, what: str, hint: str, code: str = DepsUnclassified.code
) -> Finding:
    return Finding(
        code, f"{source}: {file}:{line} {what}", hint, place=Place(Path(source, file), line)
    )


def _of_lane(lane: Lane, key: tuple[str, ...], what: str) -> Finding:
    hint = "take it out of the lane"
    place = Place(lane.path, key=("deps", *key))
    return Finding(DepsUnclassified.code, f"deps.{key[0]}: {what}", hint, place=place)
