"""Which Debian packages a base brings, where it can be looked into without running anything."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Collection, Mapping
from pathlib import Path

from builder.engine_ports import Engine
from builder.errors import ImgbuildError
from builder.model.lane import Lane
from builder.model.lock import Lock
from builder.ports import Files, Project
from builder.steps.bases import base_reference
from builder.steps.gates.files import read_files
from builder.steps.gates.gate import CouldNotLook, Search
from builder.steps.gates.glob import Glob
from builder.steps.gates.package import packages
from builder.steps.gates.reading import Whole

_STATUS = "var/lib/dpkg/status"
_LIMIT = 64 << 20  # bytes


def of_bases(
    lane: Lane,
    lock: Lock,
    platform: str,
    *,
    project: Project,
    files: Files,
    engine: Engine | None = None,
) -> Mapping[str, Collection[str]]:
    """The packages of each base that can be seen, by its reference.

    A rootfs tar is read (once, then remembered by its sha256); a registry image only where the
    engine has it. A base that is not in the result is unknown, not empty.
    """
    found: dict[str, Collection[str]] = {}
    for name, locked in sorted(lock.base.items()):
        digest = locked.platforms.get(platform)
        if digest is None or name not in lane.base:
            continue
        reference = base_reference(name, locked, platform)
        seen = None
        if lane.base[name].rootfs is not None:
            seen = _of_rootfs(digest, project.root / (lane.base[name].rootfs or ""), files)
        elif engine is not None:
            seen = _of_image(reference, engine)
        if seen is not None:
            found[reference] = seen
    return found


def _of_rootfs(digest: str, made: Path, files: Files) -> Collection[str] | None:
    key = f"dpkg of {digest}"
    kept = files.recall(key)
    if kept is None:
        path = files.path(digest) or made
        try:
            with tarfile.open(path) as tar:
                kept = json.dumps(sorted(_names(_member(tar))))
        except (OSError, tarfile.TarError):
            return None
        files.remember(key, kept)
    names = json.loads(kept)
    return names or None


def _member(tar: tarfile.TarFile) -> bytes:
    for member in tar:
        if member.name.removeprefix("./") == _STATUS:
            held = tar.extractfile(member)
            return held.read(_LIMIT) if held else b""
    return b""


def _of_image(reference: str, engine: Engine) -> Collection[str] | None:
    try:
        if engine.image(reference) is None:
            return None
        ((*seen,),) = read_files([Search(Glob(_STATUS), Whole(_LIMIT))], reference, engine=engine)
    except (ImgbuildError, CouldNotLook):
        return None
    return _names(seen[0].value) if seen and seen[0].value else None


def _names(database: bytes) -> Collection[str]:
    known = packages(database.decode("utf-8", "replace"))
    return {each.name for each in known if each.status == "install ok installed"}
