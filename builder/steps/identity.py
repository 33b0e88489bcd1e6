"""Digests of what people and `imgbuild lock` wrote: intents, the build id.

The canonical form of a value is JSON (RFC 8259) of its table as in the file, keys sorted by
code point, no white space, UTF-8, fields at their default left out. It does not depend on
comments, key order, line ends or the spelling of strings in TOML.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from builder.model.counts import plural
from builder.model.lane import Lane
from builder.model.lock import Lock, LockedDep, LockedSource
from builder.model.schema import plain

ADVISORY = frozenset({"mirrors", "description", "made_by", "imported", "title", "caches"})
"""Fields that say where a thing may be had, or tell people something: no input of a build."""

_NOT_IN_BUILD = ADVISORY | {"track", "intent", "reachable_from", "unreachable", "delta"}
_PUBLISHED = frozenset({"tree", "parts", "result_tree"})  # of a lane's source: proven, then said
_PINNED = frozenset({"commit", "head"})  # by the lane, maybe; the lock has them in any case


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def canonical(value: Any, *, leave_out: frozenset[str] = ADVISORY) -> bytes:
    table = plain(value, leave_out=leave_out)
    return json.dumps(table, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def intent(table: Any) -> str:
    """The digest of one table of a lane, as the lock keeps it."""
    return sha256(canonical(table))


def inputs(lane: Lane, lock: Lock) -> bytes:
    """All inputs of a build in canonical form; the image keeps them beside its lock.

    The lock holds the digests of image folder, patches, sources, bases and packages. Not in
    it: mirrors, the refs that are followed, descriptions, intents.
    """
    parts = {
        "format": 1,
        "name": lane.name,
        "lane": plain(lane, leave_out=_NOT_IN_BUILD | _PUBLISHED | _PINNED),
        "lock": plain(lock, leave_out=_NOT_IN_BUILD),
    }
    return canonical(parts)


def build_id(lane: Lane, lock: Lock) -> str:
    """The id of a build, 64 hex digits: the sha256 of its inputs."""
    return hashlib.sha256(inputs(lane, lock)).hexdigest()


def cache_fingerprint(lane: Lane, lock: Lock) -> str:
    """What a kernel compiled at run time depends on, 64 hex digits; see `fingerprint_of`."""
    return fingerprint_of(plain(lane), plain(lock))


def fingerprint_of(lane: Mapping[str, Any], lock: Mapping[str, Any]) -> str:
    """The cache fingerprint of a lane and a lock as tables (docs/caches.md): all that ends in
    the image by its content. Names, commits, gates and the image folder are not in it."""
    parts = {
        "format": 1,
        "build": lane["build"],
        "env": lane.get("env", {}),
        "sources": {
            name: source["final"]["content"] for name, source in lock.get("sources", {}).items()
        },
        "deps": lock.get("deps-archive", {}).get("content", ""),
        "base": {name: base["platforms"] for name, base in lock.get("base", {}).items()},
        **{
            kind: {
                name: {platform: file["sha256"] for platform, file in one["platforms"].items()}
                for name, one in lock.get(kind, {}).items()
            }
            for kind in ("python", "debs")
        },
    }
    return hashlib.sha256(canonical(parts, leave_out=frozenset())).hexdigest()


def tables(lane: Lane, lock: Lock) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """The kinds of entries that lane and lock both hold, by name."""
    yield "sources", lane.sources, lock.sources
    yield "deps", lane.own_deps, {n: d for n, d in lock.deps.items() if d.from_ is None}
    yield "base", lane.base, lock.base
    yield "python", lane.python, lock.python
    yield "debs", lane.debs, lock.debs


def counted(lane: Lane, lock: Lock) -> str:
    """What a lane holds: "3 sources, 1 submodule, 3 patches, 5 wheels"."""
    every: list[LockedSource | LockedDep] = [*lock.sources.values(), *lock.deps.values()]
    counts = (
        (len(lock.sources), "source"),
        (sum(len(s.submodules) for s in every), "submodule"),
        (len(lock.deps), "dep"),
        (sum(len(s.patches) for s in lock.sources.values()), "patch"),
        (len(lane.python), "wheel"),
        (len(lane.debs), "deb"),
    )
    return ", ".join(plural(n, word) for n, word in counts if n)
