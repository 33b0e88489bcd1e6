"""Ask registries, indexes and git servers whether they still have what a lock names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from builder.errors import Finding, ImgbuildError, Place
from builder.index_ports import Registry, WheelIndex
from builder.model.lane import Lane
from builder.model.lock import Lock
from builder.ports import GitStore, Say
from builder.steps import tags
from builder.steps.hints import unless_edited


@dataclass(frozen=True, slots=True)
class Asked:
    """What is wrong, and what could not be asked and why."""

    findings: tuple[Finding, ...]
    unchecked: tuple[str, ...]


def count(lane: Lane, lock: Lock, *, root: Path) -> int:
    """How many bases, wheels and tags there are to look up."""
    bases = sum(base.ref is not None for base in lock.base.values())
    return bases + len(lock.python) + len([*tags.tagged(lane, lock, root=root)])


def ask(
    lane: Lane, lock: Lock, *,
    root: Path, store: GitStore, registry: Registry, wheels: WheelIndex, say: Say,
) -> Asked:  # fmt: skip
    """Look up every base digest, wheel and tag of a lock; nothing is downloaded."""
    found = [*_bases(lock, registry, say), *_wheels(lock, wheels, say)]
    found += tags.ask(lane, lock, root=root, store=store, say=say)
    if lock.debs:
        found.append(f"{', '.join(sorted(lock.debs))}: whether apt's index still has them")
    return Asked(
        tuple(f for f in found if isinstance(f, Finding)),
        tuple(dict.fromkeys(f for f in found if isinstance(f, str))),
    )


def _bases(lock: Lock, registry: Registry, say: Say) -> Iterator[Finding | str]:
    for name, base in sorted(lock.base.items()):
        if base.ref is None:
            continue  # a tar: its sha256 is compared when a build takes it
        for platform, digest in sorted(base.platforms.items()):
            say(f"{name} {platform}")
            ref = base.ref.partition("@")[0]
            try:
                there = registry.serves(ref, digest)
            except ImgbuildError as error:
                yield f"base {name}: {error.findings[0].what}"
                continue
            if not there:
                yield Finding(
                    "base-gone", f"base {name}: the registry has no {ref}@{digest:.19}… any more",
                    f"{unless_edited(lock.path.stem)}take another one: "
                    f"imgbuild lock {lock.path.stem} --update {name}",
                    place=Place(lock.path, key=("base", name, "platforms", platform)),
                )  # fmt: skip


def _wheels(lock: Lock, wheels: WheelIndex, say: Say) -> Iterator[Finding | str]:
    for name, package in sorted(lock.python.items()):
        for platform, file in sorted(package.platforms.items()):
            say(f"{name} {platform}")
            try:
                found = wheels.sha256(package.name, file.filename)
            except ImgbuildError as error:
                yield f"{name}: {error.findings[0].what}"
                continue
            if found == file.sha256:
                continue
            what = f"gives another {file.filename}" if found else f"has no {file.filename} any more"
            yield Finding(
                "wheel-changed" if found else "wheel-gone", f"{name}: the index {what}",
                f"{unless_edited(lock.path.stem)}do not build from it before it is known why; "
                "to take what is there now: "
                f"imgbuild lock {lock.path.stem} --update {name}",
                f"locked {file.sha256}\nfound  {found}" if found else "",
                Place(lock.path, key=("python", name, "platforms", platform)),
            )  # fmt: skip
