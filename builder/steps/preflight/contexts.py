"""What the contexts of a build will hold, and what a Dockerfile takes from them that they won't.

They are known before a build: the image folder and the staged archives, and the files of the
locked wheels and debs. BuildKit says of a missing file that a cache key could not be computed.
"""

from __future__ import annotations

import difflib
import fnmatch
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from builder.errors import Finding, Place
from builder.model.lane import Lane
from builder.model.lock import Lock, LockedPackage
from builder.steps import deps_env
from builder.steps.dockerfile import Dockerfile, Instruction
from builder.steps.dockerfile_words import is_remote
from builder.steps.preflight.shell import Command, commands, known
from builder.steps.preflight.values import At, Valued

NAMED = ("wheels", "debs")
_WILD = re.compile(r"[*?\[]")
_ARCHIVE = re.compile(r"sources/(.+?)(?:-native|-rest)?\.tar")
_INSTALLS = re.compile(r"(?:\S*/)?(?:(?:dpkg|apt-get|apt|pip3?) |uv pip |python[0-9.]* -m pip )")


@dataclass(frozen=True, slots=True)
class Contexts:
    """Of the main one its paths, None: not known; of the named ones that are known each file,
    and the package that it is."""

    main: Collection[str] | None = None
    named: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def files(self, context: str | None) -> Collection[str] | None:
        return self.main if context is None else self.named.get(context)


def contexts(lane: Lane, lock: Lock, platform: str, folder: Collection[str]) -> Contexts:
    """Those of a locked lane; `folder` holds the paths of its image folder."""
    found = set(folder) | set(deps_env.files(lock.deps)) | {"imgbuild/opt/imgbuild/inputs.json"}
    found |= {f"imgbuild/opt/imgbuild/{lane.name}.lock"}
    for name in lock.sources:
        split = name in lane.sources and lane.sources[name].native
        parts = ("-native", "-rest") if split else ("",)
        found |= {f"sources/{name}{part}.tar" for part in parts}
    if lock.deps:
        found.add("deps/deps-src.tar.gz")
    return Contexts(
        frozenset(found),
        {"wheels": _packages(lock.python, platform), "debs": _packages(lock.debs, platform)},
    )


def _packages(locked: Mapping[str, LockedPackage], platform: str) -> Mapping[str, str]:
    return {
        package.platforms[platform].filename: package.name
        for _, package in sorted(locked.items())
        if platform in package.platforms
    }


def lie_at(stage: Valued, at: At) -> Mapping[str, str]:
    """Folders in which an instruction of a stage sees named contexts: mounted, or copied to."""
    found: dict[str, str] = {}
    for each in reversed(stage.chain):
        for step in each.steps:
            copy, context = step.instruction, step.instruction.flag("from") or ""
            if copy.name in ("COPY", "ADD") and context in NAMED and copy.words:
                found[_absolute(copy.words[-1], step.folder)] = context
    for mount in at.instruction.mounts:
        if mount.get("from") in NAMED and mount.get("source", "/") == "/":
            found[_absolute(mount.get("target", "/"), at.folder)] = mount["from"]
    return found


def matching(
    path: str, folders: Mapping[str, str], contexts: Contexts
) -> tuple[str, Mapping[str, str]] | None:
    """The named context that a path of a command lies in, with the files that it stands for."""
    folder, name = posixpath.split(path)
    context = folders.get(posixpath.normpath(folder or "."))
    held = contexts.named.get(context or "")
    if context is None or held is None:
        return None
    return context, {f: p for f, p in held.items() if fnmatch.fnmatchcase(f, name)}


def missing(stage: Valued, read: Dockerfile, contexts: Contexts, file: Path) -> Iterator[Finding]:
    """What a stage takes from a context that does not hold it; patterns may stand for nothing."""
    for at in stage.steps:
        for context, path in _taken(at, stage, read):
            pool = contexts.files(context)
            if pool is not None and not _there(path, pool):
                yield _finding(at.instruction, path, context, pool, file)
        for command in commands(at.instruction, folder=at.folder) if _is_run(at) else ():
            for context, path in _without_match(command, stage, at, contexts):
                yield _finding(at.instruction, path, context, contexts.named[context], file)


def _is_run(at: At) -> bool:
    return at.instruction.name == "RUN"


def _taken(at: At, stage: Valued, read: Dockerfile) -> Iterator[tuple[str | None, str]]:
    """Context and path of each file that COPY, ADD and mounts name, None: the main context."""

    def is_stage(named: str | None) -> bool:
        return named is not None and read.stage(named, before=stage.stage.index) is not None

    instruction = at.instruction
    for mount in instruction.mounts if _is_run(at) else ():
        of = mount.get("from")
        if not is_stage(of) and mount.get("type", "bind") == "bind" and "source" in mount:
            yield of, mount["source"]
    of = instruction.flag("from")
    for path in instruction.sources if instruction.name in ("COPY", "ADD") else ():
        text = None if is_stage(of) else known(path, at.values)
        if text is None or (instruction.name == "ADD" and is_remote(text)):
            continue
        if not _WILD.search(text):
            yield of, text


def _without_match(
    command: Command, stage: Valued, at: At, contexts: Contexts
) -> Iterator[tuple[str, str]]:
    """Files of named contexts that an installer is given, and that nothing matches."""
    if command.conditional or not _INSTALLS.match(" ".join(command.words)):
        return
    folders = lie_at(stage, at)
    for word in command.words[1:]:
        text = known(word, {**at.values, **command.env})
        if text and text.endswith((".deb", ".whl")):
            found = matching(text, folders, contexts)
            if found is not None and not found[1]:
                yield found[0], posixpath.basename(text)


def _there(path: str, pool: Collection[str]) -> bool:
    wanted = _plain(path)
    return not wanted or wanted in pool or any(held.startswith(f"{wanted}/") for held in pool)


def _plain(path: str) -> str:
    return posixpath.normpath(f"/{path}").strip("/")


def _absolute(path: str, folder: str) -> str:
    return posixpath.normpath(posixpath.join(folder or "/", path))


def _finding(
    at: Instruction, path: str, context: str | None, pool: Collection[str], file: Path
) -> Finding:
    where = f"the context {context}" if context else "the build's context"
    return Finding(
        "not-in-context",
        f"{at.name} takes {path}, which {where} will not hold",
        _hint(_plain(path), context, pool),
        place=Place(file, at.line),
    )


def _hint(path: str, context: str | None, pool: Collection[str]) -> str:
    if context is not None:
        table, end = ("debs", "_") if context == "debs" else ("python", "-")
        package = path.partition(end)[0]
        if same := [held for held in sorted(pool) if held.startswith(f"{package}{end}")]:
            return f"did you mean {same[0]}?"
        held = ", ".join(sorted(pool)) or "nothing"
        name = "NAME" if _WILD.search(package) else package
        return f"lock it: [{table}.{name}], then imgbuild lock LANE; there is: {held[:300]}"
    if archive := _ARCHIVE.fullmatch(path):
        return _of_archive(archive[1], path, pool)
    near = difflib.get_close_matches(path, sorted(pool), n=1)
    if near:
        return f"did you mean {near[0]}?"
    return "add it to the image folder, or take it out: the folder and what is staged is all there"


def _of_archive(name: str, path: str, pool: Collection[str]) -> str:
    staged = {held: m[1] for held in sorted(pool) if (m := _ARCHIVE.fullmatch(held))}
    own = [held for held, source in staged.items() if source == name]
    if len(own) == 2:
        return f"the lane splits this source (native): {' and '.join(own)}"
    if own:
        return f"the lane does not split this source (native = […]): it is {own[0]}"
    if near := difflib.get_close_matches(name, sorted(set(staged.values())), n=1):
        return f"did you mean {path.replace(name, near[0])}?"
    return f"archives of this lane's sources: {', '.join(staged) or 'none'}"
