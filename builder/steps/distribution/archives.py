"""The small members of an image archive: configs, manifests, the end of the tar.

One archive serves every engine: `manifest.json` for classic stores (docker image spec 1.2),
`index.json` for containerd stores (OCI image layout). Layers lie at `blobs/sha256/<hex>`; the
classic store takes an archive that lacks layers which it has already (by chain id).
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from typing import Any

from builder.model.distribution import Blob, SourceImage
from builder.node_ports import Layers
from builder.steps.distribution.plan import transfer_names

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
_END = b"\0" * 1024


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def manifest(config: bytes, blobs: Sequence[Blob]) -> bytes:
    """An OCI manifest; the same config and blobs give the same bytes everywhere."""
    return _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "digest": digest(config), "size": len(config)},
            "layers": [{"mediaType": b.media, "digest": b.digest, "size": b.size} for b in blobs],
        }
    )


def manifest_of(layers: Layers) -> bytes:
    """The image's own manifest, or the one that its config and blobs make."""
    return layers.manifest() or manifest(layers.config(), layers.blobs())


def media(manifest: bytes) -> str:
    return str(json.loads(manifest).get("mediaType", MANIFEST))


def prefix_config(config: bytes, layers: int | None = None) -> bytes:
    """The config of an image that holds the lowest layers only, so that they are kept."""
    whole = json.loads(config)
    keep = {key: whole[key] for key in ("architecture", "os", "variant") if key in whole}
    return _json(
        {**keep, "config": {}, "rootfs": {
            "type": "layers", "diff_ids": whole["rootfs"]["diff_ids"][:layers],
        }}
    )  # fmt: skip


def transfer_tag(image: SourceImage, config_digest: str) -> str:
    """The name under which an image arrives; it goes at the end."""
    return f"{transfer_names(image.labels)}{config_digest[7:19]}"


def prefix_tag(image: SourceImage, layers: int) -> str:
    """The name under which its lowest layers arrive, so that they are kept until the end."""
    return f"{prefix_tags(image)}{layers}"


def prefix_tags(image: SourceImage) -> str:
    """How those names of an image begin."""
    return f"{transfer_names(image.labels)}{image.chains[-1][7:19]}-"


def member(blob_digest: str, size: int) -> bytes:
    """The tar header before a blob's bytes; `padding` comes behind them."""
    return _header(f"blobs/sha256/{blob_digest[7:]}", size)


def padding(size: int) -> bytes:
    return b"\0" * (-size % 512)


def tail(config: bytes, digests: Sequence[str], tag: str, oci: bytes | None = None) -> bytes:
    """What ends the archive. Nothing is an image until an engine has read it.

    With `oci` (a manifest) the archive is an OCI layout too, for containerd stores.
    """
    name = digest(config)
    files = {f"blobs/sha256/{name[7:]}": config}
    if oci is not None:
        files |= _layout(oci, tag)
    files["manifest.json"] = _json(
        [{
            "Config": f"blobs/sha256/{name[7:]}",
            "RepoTags": [tag],
            "Layers": [f"blobs/sha256/{blob[7:]}" for blob in digests],
        }]
    )  # fmt: skip
    out = io.BytesIO()
    for path, data in files.items():
        out.write(_header(path, len(data)) + data + padding(len(data)))
    return out.getvalue() + _END


def _layout(oci: bytes, tag: str) -> Mapping[str, bytes]:
    name, _, version = tag.rpartition(":")
    index = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{
            "mediaType": media(oci),
            "digest": digest(oci),
            "size": len(oci),
            "annotations": {
                "io.containerd.image.name": f"docker.io/library/{name}:{version}",
                "org.opencontainers.image.ref.name": version,
            },
        }],
    }  # fmt: skip
    return {
        f"blobs/sha256/{digest(oci)[7:]}": oci,
        "index.json": _json(index),
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
    }


def _header(path: str, size: int) -> bytes:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = size, 0o644
    return entry.tobuf(tarfile.GNU_FORMAT)


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
