"""`imgbuild patch extract`: make a patch set of the files that someone baked into an image."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from builder.engine_ports import Engine
from builder.errors import ImgbuildError, SourceError, UsageError
from builder.model.counts import plural
from builder.pipeline.patch_subject import subjects
from builder.pipeline.timeline import Timeline
from builder.ports import Files, GitStore, Progress, Project
from builder.steps import baked, patches
from builder.steps.baked import BakedFile

_LIMIT = 64_000_000  # bytes of one file


class BakedDiffers(SourceError):
    """The image does not hold what its manifest says."""

    code = "baked-differs"


@dataclass(frozen=True, slots=True)
class Extracted:
    folder: str  # of the set that was written; "" when every file is the source's own
    patches: tuple[str, ...]  # their names, in the series' order
    same: tuple[str, ...]  # paths in the source that hold nothing else in the image
    left: tuple[str, ...]  # paths in the image that belong to no path of the source
    listed: bool  # the lane names the set already


def extract(
    image: str,
    manifest: str,
    lane: str,
    source: str,
    name: str,
    *,
    project: Project,
    store: GitStore,
    files: Files,
    engine: Engine,
    progress: Progress,
) -> Extracted:
    """Compare the files that a manifest in the image lists with the source as the lane pins and
    patches it, and write what differs as the patch set `<source>/<name>`, one patch a file.

    Nothing of the image is run. Raises: UsageError, ManifestUnreadable, BakedDiffers.
    """
    folder = f"patches/{source}/{name}"
    if project.read(f"{folder}/series") is not None:
        raise UsageError(f"{folder} is there", hint="give another name: --set NAME")
    timeline, manifest = Timeline(progress), manifest.strip("/")
    with timeline.stage("image") as line:
        listed, held = _baked(image, manifest, engine)
        line.done(plural(len(listed), "file"))
    with timeline.stage("compare") as line:
        (subject,) = subjects(
            lane, source, project=project, store=store, files=files, say=line.say
        )  # fmt: skip
        tree = patches.apply(subject.tree, subject.patches, store=store).source.tree
        placed = baked.place(listed, [entry.path for entry in store.entries(tree)])
        diffs = _diffs(tree, {path: held[at] for path, at in placed.files.items()}, store)
        same = tuple(path for path in placed.files if path not in diffs)
        line.done(f"{len(diffs)} differ, {len(same)} are the source's own")
    names = _write(folder, f"{image}: /{manifest}", diffs, project)
    is_listed = f"{source}/{name}" in subject.wanted.patches
    return Extracted(folder if names else "", names, same, placed.left, is_listed)


@dataclass(frozen=True, slots=True)
class _Held:
    """What an image holds at a path."""

    data: bytes
    executable: bool
    link: str = ""  # where it leads, of a symlink


def _baked(
    image: str, manifest: str, engine: Engine
) -> tuple[tuple[BakedFile, ...], Mapping[str, _Held]]:
    """What the manifest lists, and what the image holds there."""
    if engine.image(image) is None:
        raise UsageError(f"{image} is not on this engine", hint=f"docker pull {image}")
    found = _read(image, [manifest], engine, follow=True).get(manifest)
    if found is None:
        raise UsageError(f"{image} holds no file /{manifest}")
    listed = baked.read_manifest(found.data, folder=manifest.rpartition("/")[0])
    held = _read(image, [file.path for file in listed], engine)
    _judge(listed, held)
    return listed, held


def _diffs(tree: str, wanted: Mapping[str, _Held], store: GitStore) -> Mapping[str, bytes]:
    """The patch of each file that is not as it is wanted, each on top of those before."""
    found = {}
    with store.patching(tree) as index:
        for path, held in wanted.items():
            after = index.put(path, held.data, executable=held.executable)
            if after != tree:
                found[path] = store.diff(tree, after)
                tree = after
    return found


def _write(
    folder: str, origin: str, diffs: Mapping[str, bytes], project: Project
) -> tuple[str, ...]:
    names = tuple(f"{i:04}-{_slug(path)}.patch" for i, path in enumerate(diffs, 1))
    for name, (path, data) in zip(names, diffs.items(), strict=True):
        project.write(f"{folder}/{name}", f"{path}, as in {origin}\n\n---\n\n".encode() + data)
    if names:
        text = f"# Written by `imgbuild patch extract` from {origin}\n"
        project.write(f"{folder}/series", (text + "".join(f"{n}\n" for n in names)).encode())
    return names


def _read(
    image: str, paths: list[str], engine: Engine, *, follow: bool = False
) -> Mapping[str, _Held]:
    """The regular files and symlinks at these paths of the image."""
    found: dict[str, _Held] = {}
    with engine.read_tree(image, paths, deep=follow) as entries:
        for file, reader in entries:
            if file.path not in paths:
                continue
            if file.kind == "link":
                found[file.path] = _Held(b"", executable=False, link=file.target or "?")
            elif file.kind == "file" and reader is not None:
                if file.size > _LIMIT:
                    raise UsageError(f"/{file.path} has {file.size} bytes, too many for a patch")
                found[file.path] = _Held(reader.read(), bool(file.mode & 0o100))
    return found


def _judge(listed: tuple[BakedFile, ...], held: Mapping[str, _Held]) -> None:
    errors: list[ImgbuildError] = []
    for file in listed:
        if file.path not in held:
            errors.append(BakedDiffers(f"the manifest lists /{file.path}, which is not there"))
        elif link := held[file.path].link:
            what = f"/{file.path} is a symlink to {link}, and the manifest lists it as a file"
            hint = "list the file that it leads to, or leave it out of the manifest"
            errors.append(BakedDiffers(what, hint=hint))
        elif baked.differs(file, held[file.path].data):
            errors.append(
                BakedDiffers(
                    f"/{file.path} is not what the manifest says",
                    hint="the image was changed after the manifest was written",
                )
            )
    if errors:
        raise BakedDiffers.of([found for error in errors for found in error.findings])


def _slug(path: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "-", path).strip("-.")[-80:]
