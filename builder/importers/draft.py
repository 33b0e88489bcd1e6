"""From what foreign files say to a lane, with a remark at each value that says where from."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from builder.importers.merge import Gathered, Merged
from builder.model.foreign import Read
from builder.model.lane import Base, Build, Imported, Lane, Source
from builder.model.schema import KeyPath

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What no foreign file says and every lane needs."""

    name: str
    image: str
    cuda_arch_list: str
    platforms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """A lane to be written, and the files to be kept beside it (path below the project)."""

    lane: Lane
    remarks: Mapping[KeyPath, str]
    kept: Mapping[str, bytes]


def draft(merged: Merged, reads: Sequence[Read], wanted: Wanted) -> Draft:
    """A fresh lane; the foreign files are kept byte for byte below locks/imported/."""
    named = _file_names(reads)
    imported = tuple(
        Imported(
            f"imported/{wanted.name}/{name}",
            f"sha256:{hashlib.sha256(read.data).hexdigest()}",
            read.format,
            tuple(sorted(c.name for c in read.document.claims().sources)),
        )
        for name, read in named.items()
    )
    lane = Lane(
        schema=1,
        image=wanted.image,
        repository=wanted.name,
        platforms=wanted.platforms,
        build=Build(wanted.cuda_arch_list),
        sources={name: _table(name, g) for name, g in merged.sources.items()},
        base={name: Base(ref) for name, (ref, _) in merged.bases.items()},
        description=merged.description[0],
        imported=imported,
        name=wanted.name,
    )
    kept = {f"locks/imported/{wanted.name}/{name}": read.data for name, read in named.items()}
    return Draft(lane, dict(_remarks(merged)), kept)


def _table(name: str, gathered: Gathered) -> Source:
    """A patch that a file names becomes a patch set, whose files a lock does not carry."""
    sets = (patch_set(name, gathered),) if gathered.patches else ()
    return replace(gathered.table, patches=sets)


def patch_set(name: str, gathered: Gathered) -> str:
    """Where the patches that files name belong, below patches/: told by their content, so that
    lanes which share them share the set."""
    digests = [patch.sha256.removeprefix("sha256:") for patch, _ in gathered.patches]
    whole = (
        digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest()
    )
    return f"{name}/{whole[:12]}"


def _remarks(merged: Merged) -> dict[KeyPath, str]:
    said: dict[KeyPath, str] = {
        ("description",): merged.description[1],
        ("image",): "docker-images/…: no foreign lock says it",
        ("platforms",): "no foreign lock says it",
        ("build", "cuda-arch-list"): "no foreign lock says it",
    }
    for name, gathered in merged.sources.items():
        at: KeyPath = ("sources", name)
        for key, where in gathered.said.items():
            said[(*at, *key.split("/", 1))] = where
        if "url" not in gathered.said:
            said[(*at, "url")] = "not in the file: the project's own repository"
        if gathered.patches:
            digests = ", ".join(f"{p.path} {p.sha256}" for p, _ in gathered.patches)
            said[(*at, "patches")] = digests
    for name, (_, where) in merged.bases.items():
        said["base", name, "ref"] = where
    return said


def _file_names(reads: Sequence[Read]) -> Mapping[str, Read]:
    """A name for each kept file; files that are named alike get their source before it."""
    found: dict[str, Read] = {}
    plain = [_UNSAFE.sub("-", r.file.name).strip(".-") or "lock" for r in reads]
    for name, read in zip(plain, reads, strict=True):
        sources = [c.name for c in read.document.claims().sources]
        name = f"{sources[0]}.{name}" if plain.count(name) > 1 and sources else name
        while name in found:
            name = f"_{name}"
        found[name] = read
    return found
