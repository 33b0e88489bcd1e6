"""What each layer of an image holds, whatever a later one hides: as a push reads them."""

from __future__ import annotations

import contextlib
import io
import tarfile
import zlib
from collections.abc import Generator, Iterator
from typing import IO

from builder.errors import ToolFailed
from builder.model.values import ImageFile
from builder.tools.containers import described
from builder.tools.push_source import DockerSource

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@contextlib.contextmanager
def read_layers(
    image: str, *, above: int
) -> Iterator[Iterator[tuple[int, ImageFile, IO[bytes] | None]]]:
    """See engine_ports.Engine.read_layers."""
    with contextlib.closing(_entries(image, above)) as entries:
        yield entries


def _entries(image: str, above: int) -> Generator[tuple[int, ImageFile, IO[bytes] | None]]:
    source = DockerSource()
    found = source.find(image)
    if found is None:
        raise ToolFailed(f"the engine has no image {image}")
    layers = source.layers(found)
    last = {digest: i for i, digest in enumerate(layers.digests())}
    for blob, chunks in layers.stream(range(above, len(found.layers))):
        held = io.BufferedReader(_Chunks(_plain(chunks)), 1 << 20)
        with tarfile.open(fileobj=held, mode="r|") as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isreg() else None
                yield last[blob.digest], described(member, ""), content
        while held.read(1 << 20):  # to its end, where its digest is compared
            pass


def _plain(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The layer's tar: a containerd store keeps it as it was exported or pulled."""
    first = next(chunks, b"")
    if first.startswith(_ZSTD):
        raise ToolFailed("a layer is compressed by zstd, which is not read here")
    if first.startswith(_GZIP):
        unpack = zlib.decompressobj(31)
        yield unpack.decompress(first)
        yield from (unpack.decompress(chunk) for chunk in chunks)
    else:
        yield first
        yield from chunks


class _Chunks(io.RawIOBase):
    """An iterator of bytes as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, b""

    def readable(self) -> bool:
        return True

    def readinto(self, into: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = chunk
        size = min(len(into), len(self._rest))
        into[:size], self._rest = self._rest[:size], self._rest[size:]
        return size
