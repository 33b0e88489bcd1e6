"""Submodules, resolved by us: `.gitmodules` is read as a blob, each gitlink is a pin of its own.

git itself never sees them as submodules, so no `update = !command`, no hook and no path of
theirs is ever acted on (CVE-2018-11235, CVE-2018-17456, CVE-2024-32002, CVE-2025-48384).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from builder.errors import Finding, SourceError
from builder.model.ids import MAX_URL, is_local_url, is_relative_path, is_url, shown_url
from builder.model.lock import LockedSubmodule
from builder.model.values import GitPin, TreeEntry
from builder.ports import GitStore, Say
from builder.steps import trees

Wanted = Literal["all", "none"] | Sequence[str]


class SubmoduleInvalid(SourceError):
    """A gitlink cannot be filled, or nobody said that it need not be."""

    code = "submodule"


@dataclass(frozen=True, slots=True)
class _Level:
    """One repository in whose tree gitlinks are looked for."""

    prefix: str  # "" or "third_party/x/"
    urls: tuple[str, ...]  # of the repository, its mirrors behind
    tree: str


@dataclass(slots=True)
class _Choice:
    """Which gitlinks to fill, which to leave; what was wrong so far."""

    name: str
    wanted: Wanted
    unfilled: Mapping[str, str]
    seen: set[str] = field(default_factory=set)
    wrong: list[Finding] = field(default_factory=list)

    def fills(self, path: str) -> bool:
        self.seen.add(path)
        listed = self.wanted == "all" or (self.wanted != "none" and path in self.wanted)
        if path in self.unfilled or not listed:
            self._judge_left(path)
            return False
        return True

    def report(self, what: str, hint: str = "") -> None:
        self.wrong.append(Finding(SubmoduleInvalid.code, f"{self.name}: {what}", hint))

    def finish(self) -> None:
        listed = () if isinstance(self.wanted, str) else self.wanted
        for path in sorted({*listed, *self.unfilled} - self.seen):
            known = ", ".join(sorted(self.seen)) or "it has none"
            self.report(f"there is no gitlink at {path}", f"its gitlinks: {known}")
        if self.wrong:
            raise SubmoduleInvalid.of(self.wrong)

    def _judge_left(self, path: str) -> None:
        if path not in self.unfilled:
            self.report(
                f"the gitlink {path} is not filled, and nothing says that it need not be",
                f'add it to submodules, or write unfilled = {{ "{path}" = "<why not needed>" }} '
                "in the lane",
            )
        elif not isinstance(self.wanted, str) and path in self.wanted:
            self.report(f"{path} is in submodules and in unfilled", "take it out of one of them")


def resolve_submodules(
    name: str,
    url: str,
    tree: str,
    wanted: Wanted,
    unfilled: Mapping[str, str],
    *,
    store: GitStore,
    root: Path,
    mirrors: Sequence[str] = (),
    say: Say,
) -> Mapping[str, LockedSubmodule]:
    """Fetch what fills the gitlinks of a tree, nested ones too, by their path in the source.

    Raises: SubmoduleInvalid, SourceUnavailable.
    """
    choice = _Choice(name, wanted, unfilled)
    found: dict[str, LockedSubmodule] = {}
    levels = [_Level("", (url, *mirrors), tree)]
    while levels:
        pins = {path: pin for level in levels for path, pin in _pins(level, choice, store)}
        store.fetch([_absolute(pin, root) for pin in pins.values()], say=say)
        levels = []
        for path, pin in pins.items():
            inside = store.commit(pin.commit).tree
            found[path] = LockedSubmodule(pin.urls[0], pin.commit, inside)
            levels.append(_Level(f"{path}/", pin.urls, inside))
    choice.finish()
    return {path: found[path] for path in sorted(found)}


def given_urls(
    url: str, tree: str, submodules: Mapping[str, LockedSubmodule], *, store: GitStore
) -> Mapping[str, str]:
    """The URL that `.gitmodules` gives each locked submodule, "" where it gives none.

    `url` is that of the source, `tree` the one whose gitlinks are filled.
    """
    levels = {"": (url, tree)} | {path: (sub.url, sub.tree) for path, sub in submodules.items()}
    declared: dict[str, Mapping[str, str]] = {}
    found = {}
    for path in sorted(submodules):
        above = next((parent for parent in trees.parents(path) if parent in submodules), "")
        if above not in declared:
            entries = store.entries(levels[above][1])
            file = next((entry for entry in entries if entry.path == ".gitmodules"), None)
            declared[above] = _by_path(file, store) if file is not None else {}
        given = declared[above].get(path[len(above) + 1 :] if above else path)
        with contextlib.suppress(ValueError):
            found[path] = "" if given is None else relative(given, levels[above][0])
    return {path: found.get(path, "") for path in submodules}


def relative(url: str, parent: str) -> str:
    """A submodule's URL as git resolves it against its superproject's.

    The rules are those of `relative_url` in git's remote.c. Raises: ValueError.
    """
    if not url.startswith(("./", "../")):
        return url
    base = parent.rstrip("/")
    while url.startswith(("./", "../")):
        if url.startswith("../"):
            base = _chopped(base)
        url = url.partition("/")[2]
    joint = "" if base.endswith(":") else "/"
    return f"{base}{joint}{url}".rstrip("/")


def absolute(url: str, root: Path) -> str:
    """A URL as git is given it: a path from the project's root is made absolute."""
    return str((root / url).resolve()) if url.startswith(("./", "../")) else url


def _pins(level: _Level, choice: _Choice, store: GitStore) -> Iterator[tuple[str, GitPin]]:
    entries = store.entries(level.tree)
    links = [entry for entry in entries if entry.mode == trees.GITLINK]
    filled = [link for link in links if choice.fills(level.prefix + link.path)]
    declared = _declared(entries, level, choice, store) if filled else {}
    for link in filled:
        path = level.prefix + link.path
        urls = _urls(path, declared.get(link.path), level, choice)
        if urls:
            yield path, GitPin(f"{choice.name}/{path}", urls, link.object)


def _declared(
    entries: Sequence[TreeEntry], level: _Level, choice: _Choice, store: GitStore
) -> dict[str, str]:
    """The URL that `.gitmodules` gives for each path."""
    file = next((entry for entry in entries if entry.path == ".gitmodules"), None)
    if file is None:
        return {}
    if file.mode == trees.SYMLINK:
        choice.report(f"{level.prefix}.gitmodules is a symlink", "git refuses that too")
        return {}
    try:
        return _by_path(file, store)
    except SourceError as unread:
        choice.report(f"{level.prefix}.gitmodules: {unread}", unread.findings[0].hint)
        return {}


def _by_path(file: TreeEntry, store: GitStore) -> dict[str, str]:
    modules: dict[str, dict[str, str]] = {}
    for key, value in store.settings(file.object):
        section, _, setting = key.rpartition(".")
        if section.startswith("submodule.") and setting in ("path", "url"):
            modules.setdefault(section, {})[setting] = value
    return {
        m["path"].rstrip("/"): m["url"] for m in modules.values() if {"path", "url"} <= m.keys()
    }


def _urls(path: str, url: str | None, level: _Level, choice: _Choice) -> tuple[str, ...]:
    """Where a submodule may be had: its own URL, then where a relative one leads from mirrors."""
    if url is None:
        choice.report(
            f"the gitlink {path} has no URL in {level.prefix}.gitmodules",
            f'if the build does not need it: unfilled = {{ "{path}" = "<why not needed>" }}',
        )
        return ()
    try:
        urls = tuple(dict.fromkeys(relative(url, parent) for parent in level.urls))
    except ValueError as wrong:
        choice.report(f"the submodule {path} has the URL {shown_url(url)!r}: {wrong}")
        return ()
    says = _refused(path, urls[0], level)
    if says:
        choice.report(
            f"the submodule {path} has the URL {shown_url(url)!r}: {says}",
            f'if the build does not need it: unfilled = {{ "{path}" = "<why not needed>" }}',
        )
        return ()
    return (urls[0], *(other for other in urls[1:] if is_url(other)))


def _refused(path: str, url: str, level: _Level) -> str:
    if not is_relative_path(path):
        return "its path is not below the source"
    if len(url) > MAX_URL:
        return f"it is longer than {MAX_URL} characters"
    if not is_url(url) or url.startswith("-"):
        return "neither https, nor ssh, nor a path (and no password may stand in it)"
    if is_local_url(url) and not is_local_url(level.urls[0]):
        return "a path on this machine, given by a repository that is not on it"
    return ""


def _chopped(base: str) -> str:
    _, found, rest = base.rpartition("://")
    if found and "/" not in rest:
        raise ValueError("it leads above its superproject's host")
    for separator in ("/", ":"):
        head, found, _ = base.rpartition(separator)
        if found and head:
            return head + (":" if separator == ":" else "")
    raise ValueError("it leads above its superproject's host")


def _absolute(pin: GitPin, root: Path) -> GitPin:
    return GitPin(pin.name, tuple(absolute(url, root) for url in pin.urls), pin.commit, pin.ref)
