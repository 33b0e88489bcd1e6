"""Judge caches of JIT compilers: what may be read, what may go where, what arrived whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from builder.errors import DistributionError, Finding, LaneError, Place
from builder.model.caches import CacheFacts, CacheFile, CacheKey, Manifest, Unit
from builder.model.lane import Caches, Lane
from builder.model.nodes import Node
from builder.steps.distribution import probe

_SPARE = 64_000_000
_BLOCK = 4096
_NEEDED = ("rsync", "flock", "sha256sum", "stat")


class CacheCold(DistributionError):
    """There is no cache of this fingerprint to copy."""

    code = "cache-cold"


class CacheChanging(DistributionError):
    """A cache was written while it was read."""

    code = "cache-changing"


class CacheDamaged(DistributionError):
    """What was copied, or what was kept, is not what its manifest says."""

    code = "cache-damaged"


class CacheBusy(DistributionError):
    """Another run is copying to the same place."""

    code = "cache-busy"


class CacheUnsafe(DistributionError):
    """A root, a link or a file that is not copied."""

    code = "cache-unsafe"


class CacheDiffers(DistributionError):
    """A kept cache is of another lock than the lane has now."""

    code = "cache-fingerprint"


def declared(lane: Lane) -> Caches:
    """Raises: LaneError when the lane declares no caches."""
    if lane.caches is None or not lane.caches.folders:
        raise LaneError(
            f"{lane.name} declares no caches", place=Place(lane.path, key=("caches",)),
            hint='[caches] root = "/var/cache/…", folders = ["triton", …]: see docs/caches.md',
        )  # fmt: skip
    return lane.caches


def unfit(node: Node, found: CacheFacts, root: str) -> Finding | None:
    """Why nothing is read or written there at all, or None."""
    lacking = [tool for tool in _NEEDED if tool not in found.tools]
    if lacking:
        return Finding(
            "node-tools", f"{node.name} lacks {', '.join(lacking)}",
            f"on it: sudo apt-get install {'rsync' if 'rsync' in lacking else 'util-linux'}",
        )  # fmt: skip
    if node.arch is not None and node.arch != found.architecture:
        return Finding(
            "wrong-architecture",
            f"{node.name} is {found.architecture}, nodes.toml says {node.arch}",
            "is it the machine that is meant? mend nodes.toml or ssh's config",
        )
    at = found.root or root
    if at == "/" or f"{found.home}/".startswith(f"{at}/"):
        return Finding(
            CacheUnsafe.code, f"{node.name}: {root} is {at}, which is no folder for caches alone",
            "give the caches a folder of their own: [caches] root in the lane",
        )  # fmt: skip
    if found.links:
        return Finding(
            CacheUnsafe.code, f"{node.name}: {found.links[0]} is a symbolic link",
            "links are not followed: put a folder there, or mount one",
        )  # fmt: skip
    return None


def refusal(node: Node, found: CacheFacts, unit: Unit, need: int) -> Finding | None:
    """Why this cache cannot go to the node, or None. `need` is in bytes."""
    there = CacheKey(unit.key.fingerprint, found.architecture, found.gpu)
    if there != unit.key:
        return Finding(
            "wrong-architecture", f"{node.name} is {there.machine}, the cache {unit.key.machine}",
            "its kernels are of no use there: warm up a node of this kind, and take its cache",
        )  # fmt: skip
    return no_space(node.name, found, need)


def no_space(name: str, found: CacheFacts, need: int) -> Finding | None:
    if found.free is None or found.free >= need:
        return None
    return Finding(
        "no-space",
        f"{name} has {found.free / 1e9:.1f} GB free, about {need / 1e9:.1f} GB are needed",
        "the former cache stays until the new one is whole; remove caches of other fingerprints",
    )


def needed(manifest: Manifest) -> int:
    """About how many bytes a cache takes on a disk."""
    return _SPARE + sum(one.size + _BLOCK for one in manifest.values())


def changing(name: str, why: str) -> CacheChanging:
    return CacheChanging(
        f"{name}: the cache was written while it was read: {why}",
        hint="nothing was put in place; stop what serves there, or wait until it is warm",
    )


def differing(wanted: Manifest, found: Manifest) -> tuple[str, ...]:
    """Paths that are not the same, sorted."""
    return tuple(sorted(p for p in {*wanted, *found} if wanted.get(p) != found.get(p)))


def check_whole(name: str, wanted: Manifest, found: Manifest, hint: str) -> None:
    """Raises: CacheDamaged."""
    if wrong := differing(wanted, found):
        raise CacheDamaged(
            f"{name}: {len(wrong)} of {len(wanted)} entries are not what they must be: {wrong[0]}",
            hint=hint, detail="\n".join(wrong[:20]),
        )  # fmt: skip


def within(every: Manifest, names: Sequence[str]) -> Manifest:
    return {path: one for path, one in every.items() if path.partition("/")[0] in names}


def tops(every: Manifest) -> tuple[str, ...]:
    return tuple(sorted({path.partition("/")[0] for path in every}))


def written(unit: Unit) -> bytes:
    """The key file of a cache."""
    table = {
        "schema": 1,
        "fingerprint": unit.key.fingerprint,
        "architecture": unit.key.architecture,
        "gpu": unit.key.gpu,
        "lane": unit.lane,
        "from": unit.node,
        "files": [[path, f"{one.mode:o}", one.size, one.digest]
                  for path, one in sorted(unit.manifest.items())],
    }  # fmt: skip
    return json.dumps(table, ensure_ascii=False, indent=0).encode() + b"\n"


def read(folder: Path, data: bytes, names: Sequence[str]) -> Unit:
    """The cache that a key file speaks of, as far as the lane declares it. Raises: CacheDamaged."""
    try:
        table = json.loads(data)
        files = dict(_files(table["files"]))
        key = CacheKey(*(str(table[word]) for word in ("fingerprint", "architecture", "gpu")))
        return Unit(str(folder), key, str(table["lane"]), str(table["from"]), within(files, names))
    except probe.GARBLED as error:
        raise CacheDamaged(
            f"{folder}: its key cannot be read: {error!r}", hint="pull the cache again"
        ) from error


def _files(rows: Sequence[Sequence[object]]) -> Iterator[tuple[str, CacheFile]]:
    for path, mode, size, digest in rows:
        yield str(path), CacheFile(int(str(mode), 8), int(str(size)), str(digest))


def cold(name: str, lane: str, fingerprint: str, found: CacheFacts) -> CacheCold:
    there = ", ".join(found.keys)
    return CacheCold(
        f"{name} has no cache of {lane} {fingerprint[:12]}",
        hint=(f"it has caches of other locks: {there}; " if there else "")
        + "run this lock's image there until it is warm",
    )


def by_machine(units: Sequence[Unit]) -> Mapping[tuple[str, str], Unit]:
    return {(one.key.architecture, one.key.gpu): one for one in units}
