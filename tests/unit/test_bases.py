"""References of bases, and the archive that makes an image of a rootfs."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from builder.model.lock import LockedBase
from builder.steps.bases import BaseDiffers, BaseUnlocked, base_reference, rootfs_archive

DIGEST = "sha256:" + "0123456789abcdef" * 4
PLATFORM = "linux/arm64"


@pytest.mark.parametrize(
    ("ref", "reference"),
    [
        ("nvidia/cuda:13.0.1-devel", f"nvidia/cuda:13.0.1-devel@{DIGEST}"),
        ("r.example:5000/a/b", f"r.example:5000/a/b@{DIGEST}"),
        (f"debian:12@sha256:{'f' * 64}", f"debian:12@{DIGEST}"),
        (None, "imgbuild-base:0123456789ab"),
    ],
)
def test_references_hold_the_digest(ref: str | None, reference: str) -> None:
    assert base_reference("runtime", LockedBase(DIGEST, {PLATFORM: DIGEST}, ref), PLATFORM) == (
        reference
    )


def test_a_platform_that_is_not_locked() -> None:
    with pytest.raises(BaseUnlocked, match="runtime is not locked for linux/amd64"):
        base_reference("runtime", LockedBase(DIGEST, {PLATFORM: DIGEST}), "linux/amd64")


def test_the_archive_is_the_tar_as_it_is(tmp_path: Path) -> None:
    rootfs = tmp_path / "rootfs.tar"
    rootfs.write_bytes(b"not a multiple of a block" * 1000)
    sha256 = f"sha256:{hashlib.sha256(rootfs.read_bytes()).hexdigest()}"
    made = b"".join(rootfs_archive(rootfs, sha256, PLATFORM, "imgbuild-base:x"))
    assert made == b"".join(rootfs_archive(rootfs, sha256, PLATFORM, "imgbuild-base:x"))
    with tarfile.open(fileobj=io.BytesIO(made)) as tar:
        content = {m.name: tar.extractfile(m).read() for m in tar}  # type: ignore[union-attr]
    (manifest,) = json.loads(content["manifest.json"])
    assert manifest["RepoTags"] == ["imgbuild-base:x"]
    (layer,) = manifest["Layers"]
    assert content[layer] == rootfs.read_bytes()
    config = json.loads(content[manifest["Config"]])
    assert manifest["Config"] == f"{hashlib.sha256(content[manifest['Config']]).hexdigest()}.json"
    assert config["rootfs"]["diff_ids"] == [sha256]
    assert (config["os"], config["architecture"]) == ("linux", "arm64")
    assert config["created"] == "1980-01-01T00:00:00Z"


def test_a_compressed_tar_is_refused(tmp_path: Path) -> None:
    rootfs = tmp_path / "rootfs.tar"
    rootfs.write_bytes(b"\x1f\x8b\x08\x00" * 100)
    with pytest.raises(BaseDiffers, match="compressed"):
        list(rootfs_archive(rootfs, DIGEST, PLATFORM, "x:y"))
