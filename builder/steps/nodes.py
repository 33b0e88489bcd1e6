"""Read `nodes.toml` and find the nodes that a person means."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from builder.errors import Finding, LaneError, Place, UsageError
from builder.model import toml_text
from builder.model.nodes import Defaults, Hooks, Node, NodeEntry, NodesFile, is_destination
from builder.model.schema import Reader
from builder.model.toml_text import TomlInvalid

FILE = "nodes.toml"
_CODE = "nodes"


class NodesError(LaneError):
    """nodes.toml is not as it must be."""

    code = _CODE


class NodeUnknown(UsageError):
    code = "node-unknown"


@dataclass(frozen=True, slots=True)
class Known:
    """All files together; a later file's node or group replaces an earlier one's."""

    nodes: Mapping[str, NodeEntry] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    defaults: Defaults = field(default_factory=Defaults)
    hooks: Hooks = field(default_factory=Hooks)
    files: tuple[Path, ...] = ()


def read(texts: Sequence[tuple[Path, bytes]]) -> Known:
    """The user's file, then the project's. Raises: NodesError with every finding."""
    files, findings = [], list[Finding]()
    for path, data in texts:
        try:
            raw = toml_text.parse(data)
        except TomlInvalid as bad:
            findings.append(bad.finding(_CODE, path))
            continue
        reader = Reader(path, _CODE)
        if (found := reader.read(NodesFile, raw)) is not None:
            files.append(found)
        findings += reader.findings
    known = _merged(files, tuple(path for path, _ in texts))
    findings += [] if findings else _wrong_groups(known)
    if findings:
        raise NodesError.of(findings)
    return known


def choose(known: Known, asked: str | None) -> tuple[Node, ...]:
    """The nodes of `a,b,group`, each once, in the order named. `user@host` is taken as it is.

    Raises: NodeUnknown.
    """
    words = [w.strip() for w in (asked or known.defaults.nodes or "").split(",") if w.strip()]
    if not words:
        raise UsageError(
            "no nodes are named",
            hint='imgbuild push --nodes GROUP, or nodes = "GROUP" under [defaults] in nodes.toml',
        )
    found: dict[str, Node] = {}
    unknown: list[Finding] = []
    for word in words:
        if word in known.nodes or word in known.groups:
            for name in _members(known, word):
                entry = known.nodes[name]
                found.setdefault(name, Node(name, entry.ssh or name, entry.arch, entry.peer))
        elif ("@" in word or word.startswith("ssh://")) and is_destination(word):
            name = word.rpartition("@")[2].removeprefix("ssh://")
            found.setdefault(name, Node(name, word))
        else:
            unknown.append(_with_password(word) or _unknown(known, word))
    if unknown:
        raise NodeUnknown.of(unknown)
    if not found:
        raise UsageError(f"{', '.join(words)} holds no node", hint="name its nodes in nodes.toml")
    return tuple(found.values())


def _merged(files: Sequence[NodesFile], paths: tuple[Path, ...]) -> Known:
    nodes: dict[str, NodeEntry] = {}
    groups: dict[str, tuple[str, ...]] = {}
    defaults = Defaults()
    for one in files:
        nodes |= one.nodes
        groups |= one.groups
        defaults = Defaults(
            one.defaults.nodes or defaults.nodes,
            one.defaults.compress if one.defaults.compress != "auto" else defaults.compress,
            one.defaults.limit_rate or defaults.limit_rate,
        )
    hooks = next((one.hooks for one in reversed(files) if one.hooks != Hooks()), Hooks())
    return Known(nodes, groups, defaults, hooks, paths)


def _wrong_groups(known: Known) -> Iterator[Finding]:
    file = known.files[-1] if known.files else Path(FILE)
    for group, members in sorted(known.groups.items()):
        at = Place(file, key=("groups", group))
        if group in known.nodes:
            yield Finding(_CODE, f"{group} is a node and a group", "rename one of them", place=at)
        for member in members:
            if member not in known.nodes and member not in known.groups:
                yield Finding(
                    _CODE, f"groups.{group}: {_unknown(known, member).what}",
                    _unknown(known, member).hint, place=at,
                )  # fmt: skip
        if cycle := _cycle(known, group, ()):
            yield Finding(
                _CODE, f"groups.{group}: holds itself: {' > '.join(cycle)}",
                "take one of them out", place=at,
            )  # fmt: skip


def _cycle(known: Known, name: str, above: tuple[str, ...]) -> tuple[str, ...]:
    if name in above:
        return (*above[above.index(name) :], name)
    for member in known.groups.get(name, ()):
        if found := _cycle(known, member, (*above, name)):
            return found
    return ()


def _members(known: Known, name: str) -> Iterator[str]:
    if name in known.nodes:
        yield name
    else:
        for member in known.groups[name]:
            yield from _members(known, member)


def _unknown(known: Known, word: str) -> Finding:
    names = sorted({*known.nodes, *known.groups})
    near = difflib.get_close_matches(word, names, n=1)
    if near:
        hint = f"did you mean {near[0]}?"
    elif names:
        hint = f"known: {', '.join(names)}; or user@host"
    else:
        hint = f"write it into {FILE}, or name it as user@host"
    return Finding(NodeUnknown.code, f"no node or group is called {_shown(word)}", hint)


def _with_password(word: str) -> Finding | None:
    user, colon, _ = word.removeprefix("ssh://").rpartition("@")[0].partition(":")
    if not colon:
        return None
    plain = f"{user}@{word.rpartition('@')[2]}"
    return Finding(
        NodeUnknown.code, f"{plain} stands with a password, which ssh takes from nobody's words",
        f"ssh-copy-id {plain}, then --nodes {plain}; the password may be in the shell's history",
    )  # fmt: skip


def _shown(word: str) -> str:
    """What is no name, without what may be a password in it: a comma may have parted that."""
    return re.sub(r":(?!//).*", ":…", word)
