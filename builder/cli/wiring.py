"""The only place that makes tools."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from builder.tools.project import ProjectFolder

if TYPE_CHECKING:
    from builder.engine_ports import Engine
    from builder.index_ports import PackageIndex, Registry
    from builder.pipeline.verify import Tools
    from builder.ports import ContextStore, Files, GitStore, Project, Records
    from builder.tools.stamps import Stamps, Watch


def project(folder: Path) -> ProjectFolder:
    return ProjectFolder.find(folder)


def cache() -> Path:
    """The stores' folder: IMGBUILD_CACHE, or the user's cache folder."""
    return _folder("IMGBUILD_CACHE", "user_cache_path")


def state() -> Path:
    """Where records and logs are kept: IMGBUILD_STATE, or the user's state folder."""
    return _folder("IMGBUILD_STATE", "user_state_path")


def host_platform() -> str:
    import platform

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


def revisions(project: ProjectFolder) -> Callable[[str], Project]:
    """The project at a revision of its own git repository."""
    from builder.tools.project_at import ProjectAt

    return lambda revision: ProjectAt(project.root, revision)


def install_driver(folder: Path) -> tuple[str, ...]:
    """Make imgbuild the merge driver of the locks of the project's git; what was written."""
    from builder.tools.git_driver import install
    from builder.tools.project_at import repository

    root = project(folder).root
    program = Path(sys.argv[0]).absolute()
    return install(root, program, repository(root)[1])


def stamps(project: ProjectFolder) -> Stamps:
    from builder.tools.stamps import Stamps

    return Stamps(cache(), project.root)


def proving(project: ProjectFolder) -> tuple[Watch, Tools]:
    """The tools of a proof, and what notes all that it looks at."""
    from builder.cli.progress import progress
    from builder.pipeline.verify import Tools
    from builder.tools.stamps import Watch
    from builder.tools.wheel_index import WheelIndex

    watch = Watch(project, store(), files())
    tools = Tools(watch.project, watch.store, watch.files, registry(), WheelIndex(), progress())
    return watch, tools


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


def registry() -> Registry:
    from builder.tools.registry_api import RegistryApi

    return RegistryApi()


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
