"""Layers out of the stream of `docker save`: what always works, read once and in its order."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from builder.model.counts import plural
from builder.model.distribution import Blob, SourceImage
from builder.tools import docker_cli
from builder.tools.layers_overlay import LayerDamaged

_CHUNK = 1 << 20
_SMALL = 4 << 20  # a config or a manifest is never larger
_NOT_IT = (ValueError, AttributeError, TypeError, KeyError, RecursionError)  # another JSON, or none


class SaveLayers:
    """Implements node_ports.Layers. `named` says that a layer lies under its own diff id (a
    classic engine since 25); else one more pass finds out where the layers lie."""

    is_random = False

    def __init__(self, image: SourceImage, *, named: bool) -> None:
        self._image = image
        self._named = named
        self._sizes: dict[str, int] = {}  # path -> bytes, of all that passed by
        self._small: dict[str, bytes] = {}

    def config(self) -> bytes:
        if not self._config():
            self._pass()
        return self._config()

    def config_digest(self) -> str:
        if self._named:
            return self._image.id
        return f"sha256:{hashlib.sha256(self.config()).hexdigest()}"

    def digests(self) -> tuple[str, ...]:
        return tuple(self._digest(path, i) for i, path in enumerate(self._paths()))

    def manifest(self) -> bytes | None:
        return None

    def blobs(self) -> tuple[Blob, ...]:
        paths = self._paths()
        if not all(path in self._sizes for path in paths):
            self._pass()
        return tuple(
            Blob(self._digest(path, i), self._sizes[path], self._media(path))
            for i, path in enumerate(paths)
        )

    def sizes(self) -> tuple[int, ...]:
        return _history_sizes(self._image)

    def stream(self, layers: Sequence[int]) -> Iterator[tuple[Blob, Iterator[bytes]]]:
        paths = self._paths()
        wanted = {paths[i]: i for i in reversed(layers)}
        for path, size, data in self._members():
            if path in wanted:
                i = wanted.pop(path)
                yield Blob(self._digest(path, i), size, self._media(path)), _chunks(data)
        if wanted:
            raise LayerDamaged(
                f"docker save gave {plural(len(wanted), 'layer')} less than the image has",
                hint="the image cannot be sent from here: build or pull it again",
            )

    def read(self, digest: str, offset: int = 0) -> Iterator[bytes]:  # noqa: ARG002
        raise AssertionError("nothing can be read at will from a stream")

    def _pass(self) -> None:
        for _ in self._members():
            pass

    def _members(self) -> Iterator[tuple[str, int, IO[bytes]]]:
        """The regular members; small ones are kept too."""
        with docker_cli.started(["save", self._image.id]) as running:
            assert running.stdout is not None
            with (
                contextlib.suppress(tarfile.ReadError),
                tarfile.open(fileobj=running.stdout, mode="r|", bufsize=_CHUNK) as tar,
            ):
                for entry in tar:
                    data = tar.extractfile(entry) if entry.isreg() else None
                    if data is None:
                        continue
                    self._sizes[entry.name] = entry.size
                    if entry.size <= _SMALL and self._is_text(entry.name, data):
                        continue
                    yield entry.name, entry.size, data
            _, complaint = running.communicate()
        if running.returncode:
            raise docker_cli.failed(
                "the image cannot be read", complaint.decode("utf-8", "replace")
            )

    def _is_text(self, path: str, data: IO[bytes]) -> bool:
        """Keep a member that is JSON; a small layer is not (and is, before its path is known,
        not asked for either)."""
        known = self._named or "manifest.json" in self._small
        if known and path in self._paths():
            return False
        text = data.read()
        if text[:1] in b"{[":
            self._small[path] = text
        return True

    def _paths(self) -> tuple[str, ...]:
        if self._named:
            return tuple(f"blobs/sha256/{d[7:]}" for d in self._image.layers)
        if "manifest.json" not in self._small:
            self._pass()
        paths: list[str] = self._table("manifest.json")[0]["Layers"]
        return tuple(paths)

    def _digest(self, path: str, i: int) -> str:
        is_blob = path.startswith("blobs/sha256/")
        return f"sha256:{path.rpartition('/')[2]}" if is_blob else self._image.layers[i]

    def _media(self, path: str) -> str:
        media = "application/vnd.oci.image.layer.v1.tar"
        digest = f"sha256:{path.rpartition('/')[2]}"
        for data in self._small.values():
            with contextlib.suppress(*_NOT_IT):
                for layer in json.loads(data).get("layers", ()):
                    if layer["digest"] == digest:
                        return str(layer["mediaType"])
        return media

    def _config(self) -> bytes:
        for data in self._small.values():
            with contextlib.suppress(*_NOT_IT):
                if tuple(json.loads(data)["rootfs"]["diff_ids"]) == self._image.layers:
                    return data
        return b""

    def _table(self, path: str) -> Any:
        return json.loads(self._small[path])


def _chunks(data: IO[bytes]) -> Iterator[bytes]:
    while chunk := data.read(_CHUNK):
        yield chunk


def _history_sizes(image: SourceImage) -> tuple[int, ...]:
    """What `docker history` says of the layers, from the lowest; empty steps have none."""
    shown = docker_cli.run("history", "--no-trunc", "--human=false", "--format", "{{json .}}",
                           image.id, check=False).text  # fmt: skip
    rows: list[Mapping[str, str]] = [json.loads(line) for line in shown.splitlines()]
    sizes = [int(row["Size"]) for row in reversed(rows) if row["Size"] not in ("0", "0B")]
    if len(sizes) == len(image.layers):
        return tuple(sizes)
    return tuple(image.size // max(1, len(image.layers)) for _ in image.layers)
