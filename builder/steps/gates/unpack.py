"""Unpacks what nvcc compressed: zstd by the system's library, LZ4 by hand.

Python has no zstd before 3.14. libzstd is on each Debian and Ubuntu, where dpkg needs it.
"""

from __future__ import annotations

import ctypes
import functools

_NAMES = ("libzstd.so.1", "libzstd.1.dylib")


class UnpackError(Exception):
    """The data is damaged, or cannot be unpacked on this machine."""


def zstd(data: bytes, size: int) -> bytes:
    """The first frame of the data, which must have this size. Raises: UnpackError."""
    library = _libzstd()
    packed = library.ZSTD_findFrameCompressedSize(data, ctypes.c_size_t(len(data)))
    said = library.ZSTD_getFrameContentSize(data, ctypes.c_size_t(len(data)))
    if library.ZSTD_isError(packed) or said != size:
        raise UnpackError(f"no zstd frame of {size} bytes")
    into = ctypes.create_string_buffer(size or 1)
    done = library.ZSTD_decompress(into, ctypes.c_size_t(size), data, packed)
    if library.ZSTD_isError(done) or done != size:
        raise UnpackError("a zstd frame is damaged")
    return into.raw[:size]


def lz4(data: bytes, size: int) -> bytes:
    """An LZ4 block of this unpacked size; what stands behind it is left. Raises: UnpackError."""
    out, at = bytearray(), 0
    try:
        while len(out) < size:
            token = data[at]
            count, at = _length(data, at + 1, token >> 4)
            if at + count > len(data):
                raise UnpackError("an LZ4 block is cut off")
            out += data[at : at + count]
            at += count
            if len(out) >= size:
                break
            back = data[at] | data[at + 1] << 8
            count, at = _length(data, at + 2, token & 15)
            _repeat(out, back, count + 4)
    except IndexError as error:
        raise UnpackError("an LZ4 block is cut off") from error
    if len(out) != size:
        raise UnpackError(f"an LZ4 block has {len(out)} bytes, not {size}")
    return bytes(out)


def _length(data: bytes, at: int, length: int) -> tuple[int, int]:
    """A length whose first four bits were read, and where to go on."""
    if length == 15:
        while True:
            more = data[at]
            length, at = length + more, at + 1
            if more != 255:
                break
    return length, at


def _repeat(out: bytearray, back: int, count: int) -> None:
    start = len(out) - back
    if back == 0 or start < 0:
        raise UnpackError("an LZ4 block refers to what is before it")
    pattern = out[start : start + count]
    out += (pattern * (count // len(pattern) + 1))[:count]


@functools.cache
def _libzstd() -> ctypes.CDLL:
    for name in _NAMES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.ZSTD_findFrameCompressedSize.restype = ctypes.c_size_t
        library.ZSTD_getFrameContentSize.restype = ctypes.c_uint64
        library.ZSTD_decompress.restype = ctypes.c_size_t
        library.ZSTD_decompress.argtypes = [
            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t,
        ]  # fmt: skip
        library.ZSTD_isError.argtypes = [ctypes.c_size_t]
        return library
    raise UnpackError("it is compressed by zstd, and this machine has no libzstd (libzstd1)")
