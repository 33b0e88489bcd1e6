"""Wheels, Debian packages and rootfs tars: bring what the lock names, exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from builder.errors import Place, SourceError
from builder.index_ports import PackageIndex
from builder.model.counts import plural
from builder.model.lane import Lane
from builder.model.lock import Lock, LockedFile, LockedPackage
from builder.ports import Files, Project, Say
from builder.steps.hints import unless_edited
from builder.steps.placed import placed

T = TypeVar("T")


class PackageUnlocked(SourceError):
    code = "package-unlocked"


class RootfsChanged(SourceError):
    code = "rootfs-changed"


@dataclass(frozen=True, slots=True)
class Supplies:
    """What a build takes besides sources, by file name or base."""

    wheels: Mapping[str, Path]
    debs: Mapping[str, Path]
    rootfs: Mapping[str, Path]

    @property
    def said(self) -> str:
        """One line: `7 packages, 129.0 MB`."""
        packages = (*self.wheels.values(), *self.debs.values())
        size = sum(path.stat().st_size for path in packages) / 1e6
        return f"{plural(len(packages), 'package')}, {size:.1f} MB" if packages else "no packages"


def supply(
    lane: Lane,
    lock: Lock,
    platform: str,
    *,
    project: Project,
    files: Files,
    wheels: Callable[[], PackageIndex],
    debs: Callable[[], PackageIndex],
    say: Say,
) -> Supplies:
    """Bring every wheel, Debian package and rootfs tar of the lock; each has its locked sha256.

    Raises: PackageUnlocked, PackageUnavailable, RootfsChanged.
    """
    return Supplies(
        wheels=_bring("python", lock, platform, wheels, files, say),
        debs=_bring("debs", lock, platform, debs, files, say),
        rootfs={
            name: rootfs(name, lane, lock, platform, project=project, files=files)
            for name, base in sorted(lane.base.items())
            if base.rootfs is not None
        },
    )


def _bring(
    kind: str,
    lock: Lock,
    platform: str,
    index: Callable[[], PackageIndex],
    files: Files,
    say: Say,
) -> Mapping[str, Path]:
    found: dict[str, Path] = {}
    packages: Mapping[str, LockedPackage] = getattr(lock, kind)
    for key, package in sorted(packages.items()):
        locked = _for_platform(lock, (kind, key), package.platforms, platform)
        path = files.path(locked.sha256)
        if path is None:
            say(f"{locked.filename}  {locked.size / 1e6:.1f} MB")
            with placed(key, Place(lock.path, key=(kind, key))):
                path = _download(package, locked, platform, index(), files)
        found[locked.filename] = path
    return found


def rootfs(
    name: str, lane: Lane, lock: Lock, platform: str, *, project: Project, files: Files
) -> Path:
    """The rootfs tar of a base, from the file store or from where the lane says it lies.

    Raises: RootfsChanged, when neither has the locked content.
    """
    wanted = lane.base[name]
    locked = _for_platform(lock, ("base", name), lock.base[name].platforms, platform)
    if (path := files.path(locked)) is not None:
        return path
    made = project.root / (wanted.rootfs or "")
    if made.is_file():
        digest, path = files.put(made)
        if digest == locked:
            return path
    seen = "is another file now" if made.is_file() else "is not there"
    raise RootfsChanged(
        f"base {name}: {wanted.rootfs} {seen}, and the store has no copy of {locked[:19]}…",
        hint=unless_edited(lane.name)
        + (f"make it ({wanted.made_by})" if wanted.made_by else "bring the tar back")
        + f"; to take the tar that lies there: imgbuild lock {lane.name}",
        place=Place(lock.path, key=("base", name, "platforms", platform)),
    )


def unchecked(lock: Lock, *, files: Files) -> tuple[str, ...]:
    """The packages that this machine does not have, so that their hashes were not checked."""
    every = [*lock.python.items(), *lock.debs.items()]
    return tuple(
        name
        for name, package in sorted(every)
        if any(files.path(f.sha256) is None for f in package.platforms.values())
    )


def _for_platform(lock: Lock, key: tuple[str, str], platforms: Mapping[str, T], platform: str) -> T:
    if platform in platforms:
        return platforms[platform]
    raise PackageUnlocked(
        f"{key[1]} is not locked for {platform}",
        hint=f"add {platform} to the lane's platforms, then imgbuild lock {lock.path.stem}",
        place=Place(lock.path, key=key),
    )


def _download(
    package: LockedPackage, locked: LockedFile, platform: str, index: PackageIndex, files: Files
) -> Path:
    with files.scratch() as into:
        path = index.download(package.name, package.version, locked, platform, into)
        return files.put(path, sha256=locked.sha256)[1]
