"""The only place that makes tools."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from builder.tools.project import ProjectFolder

if TYPE_CHECKING:
    from builder.ports import (
        ContextStore,
        Engine,
        Files,
        GitStore,
        PackageIndex,
        Records,
    )


def project(folder: Path) -> ProjectFolder:
    return ProjectFolder.find(folder)


def cache() -> Path:
    """The stores' folder: IMGBUILD_CACHE, or the user's cache folder."""
    return _folder("IMGBUILD_CACHE", "user_cache_path")


def state() -> Path:
    """Where records and logs are kept: IMGBUILD_STATE, or the user's state folder."""
    return _folder("IMGBUILD_STATE", "user_state_path")


def host_platform() -> str:
    machine = platform.machine()
    return f"linux/{ {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(machine, machine) }"


class SourceTools(TypedDict):
    """What locks and builds take their inputs with."""

    project: ProjectFolder
    store: GitStore
    files: Files
    wheels: Callable[[str], PackageIndex]
    debs: Callable[[], PackageIndex]


def sources(project: ProjectFolder) -> SourceTools:
    return SourceTools(project=project, store=store(), files=files(), wheels=wheels(), debs=debs())


def store() -> GitStore:
    from builder.tools.git_store import Store

    return Store(cache())


def files() -> Files:
    from builder.tools.files import FileStore

    return FileStore(cache())


def contexts() -> ContextStore:
    from builder.tools.contexts import Contexts

    return Contexts(cache())


def engine() -> Engine:
    from builder.tools.docker import DockerEngine

    return DockerEngine()


def wheels() -> Callable[[str], PackageIndex]:
    from builder.tools.pip_index import PipIndex

    return PipIndex


def debs() -> Callable[[], PackageIndex]:
    from builder.tools.apt_index import AptIndex

    return lambda: AptIndex(cache())


def records() -> Records:
    from builder.tools.records import RecordFolder

    return RecordFolder(state())


def _folder(variable: str, default: str) -> Path:
    if named := os.environ.get(variable):
        return Path(named).absolute()
    import platformdirs

    path: Path = getattr(platformdirs, default)("imgbuild")
    return path
