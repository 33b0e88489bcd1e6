"""Lay out a build context: which file of the stores lies where in it.

Dockerfile, …                     the image folder, with the lock's COPY appended
sources/<name>.tar                a source; or, where the lane splits it,
sources/<name>-native.tar         what the compiler sees, and
sources/<name>-rest.tar           the rest
deps/deps-src.tar.gz              the deps set
deps/deps.env, deps/deps.cmake    how a build is told where they lie: see deps_env
imgbuild/opt/imgbuild/            what the image keeps of its own making:
    inputs.json                   the build's inputs: its sha256 is the build id
    <lane>.lock                   the lock
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from builder.errors import Place, SourceError
from builder.model.counts import plural
from builder.model.lane import Lane
from builder.model.lock import Lock
from builder.model.schema import KeyPath
from builder.model.values import Archive, PatchedSource, StagedContext
from builder.ports import ContextStore, Files, GitStore, Project
from builder.steps import deps_env, image, staging
from builder.steps.lanes import image_folder
from builder.steps.packages import Supplies


class StagedMismatch(SourceError):
    code = "content-mismatch"


def archives(
    lane: Lane, lock: Lock, patched: Mapping[str, PatchedSource], *, store: GitStore, files: Files
) -> Mapping[str, Archive]:
    """Every archive of the context by its path, each with the locked digest.

    Raises: StagedMismatch.
    """
    found: dict[str, Archive] = {}
    for name, done in sorted(patched.items()):
        final, native = lock.sources[name].final, lane.sources[name].native
        at = ("sources", name, "final")
        if native:
            parts = (
                ("native", final.native, {"only": native}),
                ("rest", final.rest, {"without": native}),
            )
            for part, locked, select in parts:
                archive = staging.archive(done.source, store=store, files=files, **select)
                _same(archive, locked, lock, (*at, part))
                found[f"sources/{name}-{part}.tar"] = archive
        else:
            archive = staging.archive(done.source, store=store, files=files)
            _same(archive, final.content, lock, (*at, "content"))
            found[f"sources/{name}.tar"] = archive
    if lock.deps_archive is not None:
        archive = staging.deps_archive(staging.deps_trees(lock.deps), store=store, files=files)
        _same(archive, lock.deps_archive.content, lock, ("deps-archive", "content"))
        found["deps/deps-src.tar.gz"] = archive
    return found


def assemble(
    lane: Lane,
    lock: Lock,
    staged: Mapping[str, Archive],
    supplies: Supplies,
    own: Mapping[str, bytes],
    *,
    project: Project,
    contexts: ContextStore,
) -> StagedContext:
    """Publish the context, and the named contexts `wheels` and `debs`."""
    further = {f"{image.RECORD}/{path}": data for path, data in own.items()}
    further |= deps_env.files(lock.deps)
    files, executable = _files(lane, staged, further, project=project)
    path = contexts.publish(files, executable=executable)
    named = {"wheels": contexts.publish(supplies.wheels), "debs": contexts.publish(supplies.debs)}
    return StagedContext(path, named, tuple(staged.values()))


def summary(staged: Mapping[str, Archive]) -> str:
    """One line: `2 of 6 archives new, 3.1 MB`."""
    size = sum(archive.size for archive in staged.values()) / 1e6
    new = sum(archive.new for archive in staged.values())
    word = plural(len(staged), "archive") + f", {new or 'none'} new"
    return f"{word}, {size:.1f} MB"


def _files(
    lane: Lane,
    staged: Mapping[str, Archive],
    further: Mapping[str, bytes],
    *,
    project: Project,
) -> tuple[Mapping[str, Path | bytes], Sequence[str]]:
    """All files of the context, and which of them are executable; `further` are ours."""
    folder = image_folder(lane)
    found: dict[str, Path | bytes] = {}
    executable = []
    for path, is_executable in project.files(folder) or ():
        data = project.read(f"{folder}/{path}") or b""
        place = Place(project.root / folder / path)
        found[path] = image.dockerfile(data, place, lane.env) if path == "Dockerfile" else data
        if is_executable:
            executable.append(path)
    found.update({path: archive.path for path, archive in staged.items()})
    found.update(further)
    return found, executable


def _same(archive: Archive, locked: str | None, lock: Lock, key: KeyPath) -> None:
    if archive.sha256 != locked:
        raise StagedMismatch(
            f"{key[1] if len(key) > 2 else 'deps'}: staged {archive.sha256[:19]}…, "
            f"the lock says {str(locked)[:19]}…",
            hint=f"if nothing else is wrong: imgbuild lock {lock.path.stem}, then read the diff",
            place=Place(lock.path, key=key),
        )
