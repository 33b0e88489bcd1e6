"""Layers of a containerd store, straight from its content folder: root only, no copy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from builder.model.distribution import Blob, SourceImage
from builder.tools.layers_overlay import LayerDamaged

_CHUNK = 1 << 20
_CONTENT = "io.containerd.content.v1.content/blobs/sha256"


class ContentLayers:
    """Implements node_ports.Layers."""

    is_random = True

    def __init__(self, content: Path, image: SourceImage) -> None:
        self._content = content
        self._image = image
        self._manifest = b""

    @classmethod
    def find(cls, data_root: Path, image: SourceImage) -> ContentLayers | None:
        """The layers, if the content folder can be read and holds all of the image."""
        for folder in (data_root / "containerd/daemon", Path("/var/lib/containerd")):
            found = cls(folder / _CONTENT, image)
            if found.usable():
                return found
        return None

    def usable(self) -> bool:
        try:
            self._manifest = self._resolve()
            return all(self._path(b.digest).stat().st_size == b.size for b in self.blobs())
        except (OSError, ValueError, KeyError, StopIteration):
            return False

    def config(self) -> bytes:
        return self._path(self._table()["config"]["digest"]).read_bytes()

    def config_digest(self) -> str:
        return str(self._table()["config"]["digest"])

    def digests(self) -> tuple[str, ...]:
        return tuple(blob.digest for blob in self.blobs())

    def manifest(self) -> bytes | None:
        return self._manifest

    def blobs(self) -> tuple[Blob, ...]:
        return tuple(
            Blob(raw["digest"], int(raw["size"]), raw["mediaType"])
            for raw in self._table()["layers"]
        )

    def sizes(self) -> tuple[int, ...]:
        return tuple(blob.size for blob in self.blobs())

    def stream(self, layers: Sequence[int]) -> Iterator[tuple[Blob, Iterator[bytes]]]:
        blobs = self.blobs()
        for blob in dict.fromkeys(blobs[i] for i in layers):
            yield blob, self.read(blob.digest)

    def read(self, digest: str, offset: int = 0) -> Iterator[bytes]:
        seen = hashlib.sha256()
        with self._path(digest).open("rb") as file:
            file.seek(offset)
            while chunk := file.read(_CHUNK):
                seen.update(chunk)
                yield chunk
        if not offset and f"sha256:{seen.hexdigest()}" != digest:
            raise LayerDamaged(
                f"this host's engine holds a damaged layer: {digest}",
                hint="the image cannot be sent from here: build or pull it again",
            )

    def _resolve(self) -> bytes:
        data = self._path(self._image.id).read_bytes()
        raw = json.loads(data)
        if "manifests" in raw:  # an index: the manifest of the image's own architecture
            wanted = next(
                m["digest"] for m in raw["manifests"]
                if m.get("platform", {}).get("architecture") == self._image.architecture
            )  # fmt: skip
            data = self._path(wanted).read_bytes()
        return data

    def _table(self) -> Mapping[str, Any]:
        return json.loads(self._manifest)  # type: ignore[no-any-return]

    def _path(self, digest: str) -> Path:
        return self._content / digest.removeprefix("sha256:")
