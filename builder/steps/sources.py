"""Which commits a lane needs, and the proof that they hold what the lock says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from builder.errors import Finding, Place, SourceError
from builder.model.counts import plural
from builder.model.lane import Dep, Lane, Source
from builder.model.lock import Lock, LockedDep, LockedSource, LockedSubmodule
from builder.model.values import GitPin, SourceTree, VerifiedSource
from builder.ports import Files, GitStore, Say
from builder.steps import staging, trees
from builder.steps.hints import restoring
from builder.steps.submodules import absolute, given_urls, relative, resolve_submodules
from builder.steps.trees import source_tree

__all__ = [
    "CommitMissing", "ContentMismatch", "SourceMismatch", "TreeMismatch", "composed", "entries",
    "lane_entry", "not_here", "pins", "resolve_submodules", "source_tree", "source_urls", "verify",
]  # fmt: skip


class SourceMismatch(SourceError):
    """A source is not what the lock says."""

    code = "source-mismatch"


class CommitMissing(SourceMismatch):
    code = "commit-missing"


class TreeMismatch(SourceMismatch):
    code = "tree-mismatch"


class ContentMismatch(SourceMismatch):
    code = "content-mismatch"


_CLASSES: Mapping[str, type[SourceError]] = {
    CommitMissing.code: CommitMissing,
    TreeMismatch.code: TreeMismatch,
    ContentMismatch.code: ContentMismatch,
    trees.TreeUnsafe.code: trees.TreeUnsafe,
}


def pins(lane: Lane, lock: Lock, *, root: Path) -> tuple[GitPin, ...]:
    """All commits of a lock, one pin each, sorted by name; mirrors and refs from the lane."""
    found: list[GitPin] = []
    for name, source in lock.sources.items():
        place = Place(lock.path, key=("sources", name))
        found += _pins_of(name, source, lane.sources.get(name), root, place)
    for name, dep in lock.deps.items():
        place = Place(lane.path if dep.from_ else lock.path, key=("deps", dep.from_ or name))
        found += _pins_of(name, dep, lane_entry(name, dep, lane), root, place)
    merged: dict[str, GitPin] = {}
    for pin in sorted(found, key=lambda pin: pin.name):
        known = merged.get(pin.commit)
        merged[pin.commit] = pin if known is None else _joined(known, pin)
    return tuple(sorted(merged.values(), key=lambda pin: pin.name))


def entries(lock: Lock) -> Mapping[str, LockedSource | LockedDep]:
    """All that is fetched, by its key in the lock: `sources.vllm`, `deps.cutlass`."""
    return {
        **{f"sources.{name}": locked for name, locked in sorted(lock.sources.items())},
        **{f"deps.{name}": locked for name, locked in sorted(lock.deps.items())},
    }


def not_here(lock: Lock, *, store: GitStore) -> tuple[str, ...]:
    """The keys of what the store lacks a commit of, a submodule's too."""

    def is_here(locked: LockedSource | LockedDep) -> bool:
        commits = (locked.commit, *(sub.commit for sub in locked.submodules.values()))
        return all(map(store.has, commits))

    return tuple(key for key, locked in entries(lock).items() if not is_here(locked))


def source_urls(wanted: Source | Dep, *, root: Path) -> tuple[str, ...]:
    """Where a source may be had: the lane's URL first, then its mirrors; as git is given them."""
    return _absolute((wanted.url, *wanted.mirrors), root)


def verify(
    name: str,
    locked: LockedSource | LockedDep,
    *,
    place: Place,
    store: GitStore,
    files: Files,
    say: Say,
) -> VerifiedSource:
    """Prove that the commits hold the locked trees, safe to unpack, and the locked content.

    `place` is the source's table in the lock. Raises: CommitMissing, TreeMismatch,
    ContentMismatch or TreeUnsafe, with all findings of the source.
    """
    source = source_tree(name, locked)
    wrong = [*_tree_findings(name, locked, place, store)]
    if _is_composed(locked) and not wrong:
        source = trees.before_compose(name, locked.tree, locked.submodules, store=store)
    if not wrong:
        wrong += _content_findings(source, locked, place, store, files)
    if not wrong:
        wrong += _time_findings(name, locked, place, store)
    if wrong:
        raise _CLASSES[wrong[0].code].of(wrong)
    if left := staging.left_out(source, store=store):
        say(f"{name}: {plural(len(left), 'macOS file')} (._*, .DS_Store) left out")
    return VerifiedSource(source)


def composed(name: str, locked: LockedSource, *, place: Place, store: GitStore) -> SourceTree:
    """The source as its pull requests left it, which is in the store; its gitlinks are proven.

    Raises: TreeMismatch.
    """
    paths = sorted(locked.submodules)
    wrong = [f for path in paths for f in _gitlink(name, path, locked, place, store)]
    if wrong := wrong or [*_urls(name, locked, place, store)]:
        raise TreeMismatch.of(wrong)
    filled = {path: locked.submodules[path].tree for path in paths}
    return SourceTree(name, locked.composed_tree, filled)


def _is_composed(locked: LockedSource | LockedDep) -> bool:
    return isinstance(locked, LockedSource) and bool(locked.compose)


def _pins_of(
    name: str,
    locked: LockedSource | LockedDep,
    wanted: Source | Dep | None,
    root: Path,
    place: Place,
) -> Iterator[GitPin]:
    mirrors = wanted.mirrors if wanted else ()
    ref = locked.reachable_from or (wanted.track.ref if wanted else None)
    yield GitPin(name, _absolute((locked.url, *mirrors), root), locked.commit, ref, place)
    for path, sub in locked.submodules.items():
        urls = (sub.url, *_beside(sub.url, locked.url, mirrors))
        yield GitPin(f"{name}/{path}", _absolute(urls, root), sub.commit, place=place)


def lane_entry(name: str, locked: LockedSource | LockedDep, lane: Lane) -> Source | Dep | None:
    """The lane's table of an entry; of a derived dep, one with the mirrors that its set names."""
    if isinstance(locked, LockedSource):
        return lane.sources.get(name)
    derived = lane.dep_sets.get(locked.from_ or "")
    if derived is None:
        return lane.own_deps.get(name)
    return Dep(locked.url, locked.into, mirrors=derived.mirrors.get(name, ()))


def _beside(url: str, parent: str, mirrors: Sequence[str]) -> Iterator[str]:
    """Where mirrors of the parent may have a submodule that lies beside the parent itself."""
    folder, _, last = url.rpartition("/")
    if folder and folder == parent.rstrip("/").rpartition("/")[0]:
        yield from (relative(f"../{last}", mirror) for mirror in mirrors)


def _absolute(urls: Iterable[str], root: Path) -> tuple[str, ...]:
    return tuple(dict.fromkeys(absolute(url, root) for url in urls))


def _joined(a: GitPin, b: GitPin) -> GitPin:
    urls = tuple(dict.fromkeys((*a.urls, *b.urls)))
    return GitPin(a.name, urls, a.commit, a.ref or b.ref, a.place)


def _tree_findings(
    name: str, locked: LockedSource | LockedDep, place: Place, store: GitStore
) -> Iterator[Finding]:
    wrong = [*_commit(name, locked.commit, locked.tree, place, (), store)]
    yield from wrong
    for path, sub in sorted(locked.submodules.items()):
        key = ("submodules", path)
        # The gitlinks of a wrong tree tell nothing; those of a composed one are looked at later.
        if not wrong and not _is_composed(locked):
            yield from _gitlink(name, path, locked, place, store)
        yield from _commit(f"{name}/{path}", sub.commit, sub.tree, place, key, store)
    if not wrong and not _is_composed(locked):
        yield from _urls(name, locked, place, store)


def _time_findings(
    name: str, locked: LockedSource | LockedDep, place: Place, store: GitStore
) -> Iterator[Finding]:
    if store.has(locked.commit) and store.commit(locked.commit).time != locked.time:
        yield Finding(
            TreeMismatch.code, f"{name}: the lock's time is not the commit's",
            restoring(place.file.stem), place=_at(place, "time"),
        )  # fmt: skip


def _commit(
    name: str, commit: str, tree: str, place: Place, key: tuple[str, ...], store: GitStore
) -> Iterator[Finding]:
    if not store.has(commit):
        yield Finding(
            CommitMissing.code, f"{name}: commit {commit:.12} is not in the store",
            f"imgbuild fetch {place.file.stem}", place=_at(place, *key, "commit"),
        )  # fmt: skip
        return
    found = store.commit(commit).tree
    if found != tree:
        yield Finding(
            TreeMismatch.code,
            f"{name}: the commit holds tree {found:.12}, the lock says {tree:.12}",
            restoring(place.file.stem),
            place=_at(place, *key, "tree"),
        )


def _gitlink(
    name: str, path: str, locked: LockedSource | LockedDep, place: Place, store: GitStore
) -> Iterator[Finding]:
    """Compare the gitlink that stands in the superproject's tree with the lock."""
    subs: Mapping[str, LockedSubmodule] = locked.submodules
    above = next((p for p in trees.parents(path) if p in subs), None)
    whole = locked.composed_tree if isinstance(locked, LockedSource) else locked.tree
    tree = subs[above].tree if above else whole
    inside = path[len(above) + 1 :] if above else path
    try:
        entries = store.entries(tree)
    except SourceError as unread:
        yield from unread.findings
        return
    found = next((e.object for e in entries if e.path == inside and e.mode == trees.GITLINK), None)
    if found != subs[path].commit:
        held = f"commit {found:.12}" if found else "nothing"
        yield Finding(
            TreeMismatch.code,
            f"{name}: the gitlink {path} holds {held}, the lock says {subs[path].commit:.12}",
            restoring(place.file.stem),
            place=_at(place, "submodules", path, "commit"),
        )


def _urls(
    name: str, locked: LockedSource | LockedDep, place: Place, store: GitStore
) -> Iterator[Finding]:
    """Compare where submodules come from with what `.gitmodules` says."""
    whole = locked.composed_tree if isinstance(locked, LockedSource) else locked.tree
    for path, url in given_urls(locked.url, whole, locked.submodules, store=store).items():
        if url != locked.submodules[path].url:
            yield Finding(
                TreeMismatch.code,
                f"{name}: the submodule {path} comes from {url or 'nowhere'} by .gitmodules, "
                f"the lock says {locked.submodules[path].url}",
                restoring(place.file.stem), place=_at(place, "submodules", path, "url"),
            )  # fmt: skip


def _content_findings(
    source: SourceTree,
    locked: LockedSource | LockedDep,
    place: Place,
    store: GitStore,
    files: Files,
) -> Iterator[Finding]:
    try:
        found = staging.content(source, store=store, files=files)
    except trees.TreeUnsafe as unsafe:
        yield from unsafe.findings
        return
    if found != locked.content:
        yield Finding(
            ContentMismatch.code,
            f"{source.name}: the content is {found:.19}, the lock says {locked.content:.19}, "
            "though the trees are the same",
            "the lock was edited, or git's hash was broken: do not build from it; "
            + restoring(place.file.stem),
            place=_at(place, "content"),
        )


def _at(place: Place, *key: str) -> Place:
    return Place(place.file, key=(*place.key, *key))
