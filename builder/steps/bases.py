"""What stages build FROM: registry images by digest, or rootfs tars loaded by their sha256."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from builder.engine_ports import Engine
from builder.errors import BuildError, LaneError, Place, ToolFailed
from builder.index_ports import Registry
from builder.model.lane import Base, Lane
from builder.model.lock import LockedBase
from builder.ports import Files, Project, Say
from builder.steps import identity
from builder.steps.resolve import keeps

_REPOSITORY = "imgbuild-base"
_CREATED = "1980-01-01T00:00:00Z"
_CHUNK = 1 << 20  # bytes
_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"BZh")


class RootfsMissing(LaneError):
    code = "rootfs-missing"


class BaseUnresolved(LaneError):
    code = "base-unresolved"


class BaseUnlocked(LaneError):
    code = "base-unlocked"


class BaseDiffers(BuildError):
    """The engine's image is not the locked root file system."""

    code = "base-differs"


def resolve_base(
    name: str,
    wanted: Base,
    old: LockedBase | None,
    platforms: Sequence[str],
    lane: Lane,
    *,
    update: bool,
    project: Project,
    files: Files,
    registry: Registry,
) -> LockedBase:
    """Lock a base: the digest that `ref` names, the one behind its tag for each platform, or the
    sha256 of the rootfs tar.

    A tag is asked of its registry once; the lock keeps what it meant then until `update`.
    Raises: RootfsMissing, BaseUnresolved.
    """
    place = Place(lane.path, key=("base", name))
    if wanted.rootfs is not None:
        digests = dict.fromkeys(platforms, _rootfs(name, wanted, place, project, files))
    elif (ref := wanted.ref or "") and "@sha256:" in ref:
        digests = dict.fromkeys(platforms, ref.partition("@")[2])
    elif (
        old is not None
        and set(platforms) <= old.platforms.keys()
        and keeps(wanted, old, update=update)
    ):
        digests = {platform: old.platforms[platform] for platform in platforms}
    else:
        digests = _behind_tag(name, ref, platforms, place, registry)
    return LockedBase(identity.intent(wanted), digests, wanted.ref)


def _rootfs(name: str, wanted: Base, place: Place, project: Project, files: Files) -> str:
    assert wanted.rootfs is not None
    path = project.root / wanted.rootfs
    if not path.is_file():
        raise RootfsMissing(
            f"base {name}: there is no {wanted.rootfs}",
            hint=f"make it: {wanted.made_by}" if wanted.made_by else "put the tar there",
            place=place,
        )
    return files.put(path)[0]


def _behind_tag(
    name: str, ref: str, platforms: Sequence[str], place: Place, registry: Registry
) -> dict[str, str]:
    by_hand = (
        f'or pin the digest in the lane: ref = "{ref}@sha256:…" '
        f"(docker buildx imagetools inspect {ref} shows it)"
    )
    try:
        found = registry.digests(ref)
    except ToolFailed as error:
        what = error.findings[0].what
        unknown = error.code == "manifest-unknown"
        raise BaseUnresolved(
            f"base {name}: the digest of {ref} was not found: {what}",
            hint=f"{'name another tag' if unknown else 'lock again when it answers'}, {by_hand}",
            place=place,
        ) from error
    if missing := [platform for platform in platforms if platform not in found]:
        there = ", ".join(sorted(p for p in found if "unknown" not in p))
        raise BaseUnresolved(
            f"base {name}: {ref} has nothing for {', '.join(missing)}, only for {there or 'none'}",
            hint="name another tag, or change platforms in the lane",
            place=place,
        )
    return {platform: found[platform] for platform in platforms}


def base_reference(name: str, locked: LockedBase, platform: str) -> str:
    """What the Dockerfile's FROM gets: `ref@sha256:…`, or the tag that a rootfs is loaded under.

    Raises: BaseUnlocked.
    """
    digest = locked.platforms.get(platform)
    if digest is None:
        raise BaseUnlocked(
            f"base {name} is not locked for {platform}",
            hint=f"add {platform} to the lane's platforms, then imgbuild lock LANE",
        )
    if locked.ref is None:
        return f"{_REPOSITORY}:{_hex(digest)[:12]}"
    return f"{locked.ref.partition('@')[0]}@{digest}"


def ensure_base(
    name: str, locked: LockedBase, platform: str, *, rootfs: Path, engine: Engine, say: Say
) -> str:
    """Load a rootfs where the engine does not have it; its reference.

    The engine says itself what it holds: the one layer must be the locked sha256. Raises:
    BaseUnlocked, BaseDiffers.
    """
    reference = base_reference(name, locked, platform)
    digest = locked.platforms[platform]
    there = engine.image(reference)
    if there is None or there.layers != (digest,):
        say(f"{name}  loading {rootfs.stat().st_size / 1e6:.0f} MB")
        engine.load(rootfs_archive(rootfs, digest, platform, reference))
        there = engine.image(reference)
    if there is None or there.layers != (digest,):
        seen = ", ".join(there.layers) if there else "nothing"
        raise BaseDiffers(
            f"base {name}: the engine holds {seen} as {reference}, the lock says {digest}",
            hint=f"remove it (docker image rm {reference}) and build again",
        )
    return reference


def rootfs_archive(rootfs: Path, sha256: str, platform: str, tag: str) -> Iterator[bytes]:
    """A docker-archive with one layer, the tar itself, so that its diff id is the tar's sha256.

    Raises: BaseDiffers, when the tar is compressed.
    """
    with rootfs.open("rb") as tar:
        if tar.read(6).startswith(_COMPRESSED):
            raise BaseDiffers(
                f"{rootfs} is compressed: a layer is known by its tar", hint="unpack it"
            )
    config = _json(
        {
            "architecture": platform.rpartition("/")[2],
            "config": {},
            "created": _CREATED,
            "history": [{"created": _CREATED, "created_by": f"imgbuild rootfs {sha256}"}],
            "os": platform.partition("/")[0],
            "rootfs": {"type": "layers", "diff_ids": [sha256]},
        }
    )
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    layer_name = f"{_hex(sha256)}/layer.tar"
    manifest = _json([{"Config": config_name, "RepoTags": [tag], "Layers": [layer_name]}])
    yield from _member(config_name, len(config), io.BytesIO(config))
    with rootfs.open("rb") as tar:
        yield from _member(layer_name, rootfs.stat().st_size, tar)
    yield from _member("manifest.json", len(manifest), io.BytesIO(manifest))
    yield bytes(2 * tarfile.BLOCKSIZE)


def _member(name: str, size: int, content: io.BufferedIOBase) -> Iterator[bytes]:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o644
    yield entry.tobuf(tarfile.GNU_FORMAT)
    left = size
    while chunk := content.read(min(_CHUNK, left)):
        left -= len(chunk)
        yield chunk
    yield bytes(-size % tarfile.BLOCKSIZE)


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")
