"""The image folder and what the build is told: its digest, its Dockerfile, its arguments."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from builder.errors import Finding, LaneError, Place
from builder.model.lane import Lane
from builder.model.lock import Lock, LockedSource
from builder.ports import Project
from builder.steps import identity
from builder.steps.dockerfile import parse

RECORD = "imgbuild/opt/imgbuild"
"""Where the files that belong to /opt/imgbuild of the image lie in the build context.

They are copied onto / with their folders: `COPY imgbuild/ /opt/imgbuild/` would stamp /opt
with the time of the build, and the same inputs would not give the same layer.
"""

_STAGED = ("deps", "imgbuild", "sources")  # folders of the context that are not theirs
_COPY = b"COPY imgbuild/ /\n"
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:API|ACCESS|PRIVATE)?(?:KEY|TOKEN|PASSWORD|PASSWD|SECRET|CREDENTIALS?)(?:_|$)",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"-----BEGIN |\b(?:gh[pousr]_|github_pat_|glpat-|hf_|sk-|xox[abp]-)\w{10}|\bAKIA[0-9A-Z]{12}"
    r"|://[^/@\s]+@"
)


class ImageFolderInvalid(LaneError):
    code = "image-folder"


class BuildArgInvalid(LaneError):
    code = "build-arg"


def folder_digest(folder: str, *, project: Project) -> str:
    """The canonical sha256 of an image folder: paths, contents and executable bits.

    Raises: ImageFolderInvalid, also for a `.dockerignore`: it would hide staged sources
    from the build, and a context that imgbuild lays out needs none.
    """
    rows = []
    for path, is_executable in project.files(folder) or ():
        _check_file(folder, path, project)
        content = hashlib.sha256(project.read(f"{folder}/{path}") or b"").hexdigest()
        rows.append([path, is_executable, content])
    if not any(path == "Dockerfile" for path, _, _ in rows):
        raise ImageFolderInvalid(
            f"there is no {folder}/Dockerfile", place=Place(project.root / folder)
        )
    canonical = json.dumps(sorted(rows), separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"


def dockerfile(
    text: bytes, place: Place | None = None, env: Mapping[str, str] | None = None
) -> bytes:
    """The Dockerfile to build: theirs, and in its last stage the lane's environment and the
    files of /opt/imgbuild.

    COPY writes as root whatever USER says. Raises: DockerfileUnreadable; ImageFolderInvalid
    when the last line is continued, which would swallow the one that is added.
    """
    file = place.file if place else Path("Dockerfile")
    read = parse(text, file)
    last = read.stages[-1].instructions[-1]
    if last.is_open:
        raise ImageFolderInvalid(
            f"the Dockerfile ends in a continued line of {last.name}",
            hint="end the last instruction: imgbuild adds a COPY behind it",
            place=Place(file, last.line),
        )
    pairs = sorted((env or {}).items())
    lines = "".join(f"ENV {name}={_quoted(value, read.escape)}\n" for name, value in pairs)
    profile = f"# added by imgbuild: the lane's environment\n{lines}" if lines else ""
    added = f"\n\n{profile}# added by imgbuild: the lock inside the image\n".encode() + _COPY
    return text.rstrip(b"\r\n \t") + added


def build_args(lane: Lane, lock: Lock, bases: Mapping[str, str]) -> Mapping[str, str]:
    """All build arguments: the lane's own, and what every stage may declare and then use.

    `bases` are references by name. An argument costs nothing where no stage declares it;
    BUILD_ID and CACHE_FINGERPRINT move with most changes, and belong behind the last RUN.
    Raises: BuildArgInvalid, with all findings.
    """
    own = {
        "TORCH_CUDA_ARCH_LIST": lane.build.cuda_arch_list,
        "SOURCE_DATE_EPOCH": str(lock.epoch),
        **{f"BASE_{variable(name)}": ref for name, ref in sorted(bases.items())},
        "CACHE_FINGERPRINT": identity.cache_fingerprint(lane, lock)[:12],
        "BUILD_ID": identity.build_id(lane, lock)[:12],
        "SOURCES": " ".join(sorted(lock.sources)),
    }
    for name, source in sorted(lock.sources.items()):
        own |= source_args(name, source, lane.name)
    if findings := [*_doubtful(lane, own)]:
        raise BuildArgInvalid.of(findings)
    return {**dict(sorted(lane.build.args.items())), **own}


def source_args(name: str, source: LockedSource, lane: str) -> Mapping[str, str]:
    """What a stage may ask of a source: its commit, its version, the key of its compiler's cache.

    A stage that compiles must not declare the first two: they move with every commit, and it
    would compile again. `<SOURCE>_NATIVE` moves when what the compiler sees does.
    """
    native = source.final.native or source.final.content
    return {
        f"{variable(name)}_COMMIT": source.commit,
        f"{variable(name)}_VERSION": version(lane, source.commit),
        f"{variable(name)}_NATIVE": native.removeprefix("sha256:")[:16],
    }


def version(lane: str, commit: str) -> str:
    """A PEP 440 version whose local part names lane and commit: 0.1.dev0+r36.ds41.b40673cd."""
    part = re.sub(r"[^a-z0-9]+", ".", lane.lower()).strip(".")
    return f"0.1.dev0+{part}.{commit[:8]}"


def variable(name: str) -> str:
    """A lane's name as part of an argument's name: `cutlass-msa` is CUTLASS_MSA."""
    return re.sub(r"[^A-Z0-9]", "_", name.upper())


def _quoted(value: str, escape: str) -> str:
    """A value as ENV takes it: nothing in it is replaced or ends it."""
    inside = re.sub(rf'["$]|{re.escape(escape)}', lambda match: escape + match[0], value)
    return f'"{inside}"'


def _check_file(folder: str, path: str, project: Project) -> None:
    if path in (".dockerignore", "Dockerfile.dockerignore"):
        what = "would hide staged sources from the build"
        hint = "delete it: the context holds this folder and the staged archives only"
    elif path.partition("/")[0] in _STAGED:
        what = "lies where imgbuild stages its own files"
        hint = f"name it otherwise: {', '.join(_STAGED)} are taken"
    else:
        return
    place = Place(project.root / folder / path)
    raise ImageFolderInvalid(f"{folder}/{path} {what}", hint=hint, place=place)


def _doubtful(lane: Lane, own: Mapping[str, str]) -> Iterator[Finding]:
    for name, value in sorted(lane.env.items()):
        secret = value and (_SECRET_NAME.search(name) or _SECRET_VALUE.search(value))
        if secret or "\n" in value or "\0" in value:
            yield Finding(
                BuildArgInvalid.code,
                f"env.{name} looks like a secret, and the environment stays in the image" if secret
                else f"env.{name} is more than one line, which no env file can hold",
                "give it when the container is started: docker run -e" if secret else "",
                place=Place(lane.path, key=("env", name)),
            )  # fmt: skip
    for name, value in sorted(lane.build.args.items()):
        place = Place(lane.path, key=("build", "args", name))
        if name in own:
            yield Finding(
                BuildArgInvalid.code, f"build.args.{name}: imgbuild sets this argument itself",
                "the value of TORCH_CUDA_ARCH_LIST is build.cuda-arch-list"
                if name == "TORCH_CUDA_ARCH_LIST" else "leave it out", place=place,
            )  # fmt: skip
        elif value and (_SECRET_NAME.search(name) or _SECRET_VALUE.search(value)):
            yield Finding(
                BuildArgInvalid.code,
                f"build.args.{name} looks like a secret, and build arguments stay in the image",
                f"use a BuildKit secret: RUN --mount=type=secret,id={name.lower()} …", place=place,
            )  # fmt: skip
