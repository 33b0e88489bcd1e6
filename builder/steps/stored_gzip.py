"""Gzip without compression: bytes that depend on nothing but the content.

What a deflate compressor gives differs between zlib, zlib-ng and their versions, and between
CPUs; the lock holds the sha256 of `deps-src.tar.gz`, so it must not. BuildKit unpacks the file
on the same machine that wrote it, where reading stored blocks is faster than inflating, and
compressed layers are the registry's concern (RFC 1951 section 3.2.4, RFC 1952).
"""

from __future__ import annotations

import struct
import zlib
from types import TracebackType
from typing import IO

_HEADER = b"\x1f\x8b\x08\x00" + bytes(4) + b"\x00\xff"  # no name, no time, no OS
_BLOCK = 65535  # the most that a stored block holds


class StoredGzip:
    """Wraps what is written into stored blocks; the end is written when the block is left."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._rest = bytearray()
        self._crc = 0
        self._size = 0
        out.write(_HEADER)

    def __enter__(self) -> StoredGzip:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: object, __: TracebackType | None
    ) -> None:
        if kind is None:
            self._out.write(_block(self._rest, last=True))
            self._out.write(struct.pack("<LL", self._crc, self._size & 0xFFFFFFFF))

    def write(self, data: bytes) -> int:
        self._crc = zlib.crc32(data, self._crc)
        self._size += len(data)
        self._rest += data
        whole = len(self._rest) // _BLOCK * _BLOCK
        if whole:
            view = memoryview(bytes(self._rest[:whole]))
            parts = [_block(view[i : i + _BLOCK]) for i in range(0, whole, _BLOCK)]
            self._out.write(b"".join(parts))
            del self._rest[:whole]
        return len(data)


def _block(data: bytes | bytearray | memoryview, *, last: bool = False) -> bytes:
    size = len(data)
    return struct.pack("<BHH", last, size, size ^ 0xFFFF) + data
