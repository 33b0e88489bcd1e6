"""Nodes that receive images, and groups of them: `nodes.toml`, as a person writes it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from builder.model.ids import Name
from builder.model.schema import Check

_DESTINATION = re.compile(
    r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?(?:[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:]+\])"
    r"|ssh://(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?(?:[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:]+\])"
    r"(?::[0-9]{1,5})?"
)
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(kB|MB|GB|kbit|Mbit|Gbit)(?:/s)?")
_UNITS = {"kB": 1e3, "MB": 1e6, "GB": 1e9, "kbit": 125.0, "Mbit": 125e3, "Gbit": 125e6}


def is_destination(text: str) -> bool:
    """What ssh takes as a destination, and never an option."""
    return _DESTINATION.fullmatch(text) is not None


def is_command(words: Sequence[str]) -> bool:
    """Whether it can be started: a program, and no word that none can be given."""
    return bool(words and words[0].strip()) and not any("\0" in word for word in words)


def rate(text: str) -> float | None:
    """Bytes a second of `100 MB` or `400 Mbit`; None when it cannot be kept."""
    match = _RATE.fullmatch(text.strip())
    found = float(match[1]) * _UNITS[match[2]] if match else 0.0
    return found if 1e3 <= found <= 1e12 else None


Destination = Annotated[str, Check(is_destination, "a host, user@host or ssh://user@host:port")]
RATES = 'a rate such as "50 MB" or "400 Mbit" (a second), from "1 kB" to "1000 GB"'
Rate = Annotated[str, Check(lambda text: rate(text) is not None, RATES)]
Command = Annotated[
    tuple[str, ...], Check(is_command, 'a program and its words, such as ["systemctl", "stop"]')
]
Compress = Literal["auto", "zstd", "none"]


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """One machine; what ssh needs to know of it stands in ssh's own config."""

    ssh: Destination | None = None  # None: the node's name
    peer: Destination | None = None  # what the other nodes' ssh calls it
    arch: Literal["amd64", "arm64"] | None = None  # checked before anything moves
    labels: Mapping[Name, str] = field(default_factory=dict)  # for people


@dataclass(frozen=True, slots=True)
class Defaults:
    nodes: Name | None = None  # the group (or node) when --nodes is not given
    compress: Compress = "auto"
    limit_rate: Rate | None = None  # of this host, to all nodes together


@dataclass(frozen=True, slots=True)
class Hooks:
    """Commands as lists of words; a failure stops what follows."""

    before_build: tuple[Command, ...] = ()  # on this host, when something is to be built
    after_build: tuple[Command, ...] = ()  # on this host, also when the build failed
    before_push: tuple[Command, ...] = ()  # on this host
    after_push: tuple[Command, ...] = ()  # on this host, also when the push failed
    before_node: tuple[Command, ...] = ()  # on each node, before anything moves there
    after_node: tuple[Command, ...] = ()  # on each node, also when it failed


@dataclass(frozen=True, slots=True)
class NodesFile:
    """One `nodes.toml`."""

    schema: Literal[1]
    nodes: Mapping[Name, NodeEntry] = field(default_factory=dict)
    groups: Mapping[Name, tuple[str, ...]] = field(default_factory=dict)  # nodes and groups
    defaults: Defaults = Defaults()
    hooks: Hooks = Hooks()


@dataclass(frozen=True, slots=True)
class Node:
    """A machine to reach."""

    name: str
    destination: str  # for ssh
    arch: str | None = None
    peer: str | None = None  # for the other nodes' ssh
