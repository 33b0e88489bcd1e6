"""What stages build FROM: registry images by digest, or rootfs tars loaded by their sha256."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

from builder.errors import BuildError, LaneError
from builder.model.lock import LockedBase
from builder.ports import Engine, Say

_REPOSITORY = "imgbuild-base"
_CREATED = "1980-01-01T00:00:00Z"
_CHUNK = 1 << 20  # bytes
_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"BZh")


class BaseUnlocked(LaneError):
    code = "base-unlocked"


class BaseDiffers(BuildError):
    """The engine's image is not the locked root file system."""

    code = "base-differs"


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
