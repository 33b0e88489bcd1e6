"""Layers of a classic engine, replayed from overlay2 and its tar-split: root only, no copy.

The engine keeps what is needed to give each layer's tar again byte for byte
(github.com/vbatts/tar-split): headers and padding as segments, and the files in order.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from builder.errors import DistributionError
from builder.model.distribution import Blob, SourceImage

_CHUNK = 1 << 20
_FILE, _SEGMENT = 1, 2


class LayerDamaged(DistributionError):
    """What the build host's engine holds of a layer is not what its digest says."""

    code = "layer-damaged"


class OverlayLayers:
    """Implements node_ports.Layers."""

    is_random = True

    def __init__(self, root: Path, image: SourceImage) -> None:
        self._image = image
        self._overlay = root / "overlay2"
        store = root / "image/overlay2"
        self._config = store / "imagedb/content/sha256" / image.id[7:]
        self._layers = [store / "layerdb/sha256" / chain[7:] for chain in image.chains]
        self._blobs: dict[int, Blob] = {}
        self._at = {diff_id: i for i, diff_id in reversed(list(enumerate(image.layers)))}

    def usable(self) -> bool:
        """Whether all that is needed can be read."""
        try:
            for folder in self._layers:
                with (folder / "tar-split.json.gz").open("rb"):
                    next((self._overlay / _text(folder / "cache-id")).iterdir(), None)
            return hashlib.sha256(self._config.read_bytes()).hexdigest() == self._image.id[7:]
        except OSError:
            return False

    def config(self) -> bytes:
        return self._config.read_bytes()

    def config_digest(self) -> str:
        return self._image.id

    def digests(self) -> tuple[str, ...]:
        return self._image.layers

    def manifest(self) -> bytes | None:
        return None

    def blobs(self) -> tuple[Blob, ...]:
        return tuple(self._blob(i) for i in range(len(self._layers)))

    def sizes(self) -> tuple[int, ...]:
        found = []
        for folder in self._layers:
            try:
                found.append(int(_text(folder / "size")))
            except (OSError, ValueError):
                found.append(0)
        return tuple(found)

    def stream(self, layers: Sequence[int]) -> Iterator[tuple[Blob, Iterator[bytes]]]:
        seen = set[str]()
        for i in layers:
            blob = self._blob(i)
            if blob.digest not in seen:
                seen.add(blob.digest)
                yield blob, self._checked(i)

    def read(self, digest: str, offset: int = 0) -> Iterator[bytes]:
        i = self._at[digest]
        for chunk in self._checked(i):
            if offset < len(chunk):
                yield chunk[offset:] if offset else chunk
                offset = 0
            else:
                offset -= len(chunk)

    def _blob(self, i: int) -> Blob:
        if i not in self._blobs:
            size = sum(_size(entry) for entry in self._entries(i))
            self._blobs[i] = Blob(self._image.layers[i], size)
        return self._blobs[i]

    def _entries(self, i: int) -> Iterator[Mapping[str, Any]]:
        with gzip.open(self._layers[i] / "tar-split.json.gz", "rb") as lines:
            for line in lines:
                yield json.loads(line)

    def _checked(self, i: int) -> Iterator[bytes]:
        """The layer's tar, in large pieces. Raises: LayerDamaged, at its end."""
        seen, waiting, held = hashlib.sha256(), list[bytes](), 0
        for piece in self._replay(i):
            seen.update(piece)
            waiting.append(piece)
            held += len(piece)
            if held >= _CHUNK:
                yield b"".join(waiting)
                waiting, held = [], 0
        if f"sha256:{seen.hexdigest()}" != self._image.layers[i]:
            raise _damaged(self._image.layers[i])
        if waiting:
            yield b"".join(waiting)

    def _replay(self, i: int) -> Iterator[bytes]:
        top = self._overlay / _text(self._layers[i] / "cache-id") / "diff"
        for entry in self._entries(i):
            if entry["type"] == _SEGMENT:
                yield base64.b64decode(entry["payload"])
            elif size := entry.get("size", 0):
                yield from _content(_name(entry), top, size)


def _content(name: bytes, top: Path, size: int) -> Iterator[bytes]:
    import os

    path = os.path.join(os.fsencode(top), name.lstrip(b"/"))  # noqa: PTH118 # names are bytes
    left = size
    # Never through a link: a file that was replaced by one since is damage.
    with (
        contextlib.suppress(OSError),
        os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb", buffering=0) as file,
    ):
        while left and (data := file.read(min(left, _CHUNK))):
            left -= len(data)
            yield data
    if left:
        raise _damaged(os.fsdecode(name))


def _size(entry: Mapping[str, Any]) -> int:
    if entry["type"] == _SEGMENT:
        text = str(entry["payload"])
        return len(text) * 3 // 4 - str(text[-2:]).count("=")
    return int(entry.get("size", 0))


def _name(entry: Mapping[str, Any]) -> bytes:
    if raw := entry.get("name_raw"):
        return base64.b64decode(raw)
    return str(entry["name"]).encode()


def _text(path: Path) -> str:
    return path.read_text().strip()


def _damaged(what: str) -> LayerDamaged:
    return LayerDamaged(
        f"this host's engine holds a damaged layer: {what}",
        hint="the image cannot be sent from here: build or pull it again",
    )
