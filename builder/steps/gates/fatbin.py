"""Reads for which GPU architectures a file holds code, from headers alone.

A fatbin is a container (magic 0xBA55ED50) of entries, each one architecture's machine code
(a cubin) or PTX text; a shared object holds any number of containers in the sections
.nv_fatbin and, of separate compilation, __nv_relfatbin. The format is not documented by its
maker. What is used here agrees with cuobjdump on the output of CUDA 13.0 and 13.5 (and tells
`f` from no suffix, where cuobjdump does not); anything unknown is an error, never a pass.

    container  u32 magic, u16 version = 1, u16 header size = 16, u64 size of the entries
    entry      u16 kind (1 PTX, 2 cubin), u16 version = 0x101, u32 header size,
               u64 size of the payload, … u32 architecture at +28, u64 flags at +40
               (0x100000 a, 0x200000 f, 0x8000 zstd, 0x2000 LZ4), u64 unpacked size at +56

A container holds what was made of one source, or of one link of relocatable device code. What
counts are kernels: a cubin has a section .nv.constant0.NAME for each, PTX an `.entry`. Each link
with nvcc adds a cubin without any, a source without kernels makes one as well, and one with only
a table of constants is as large as others: they say nothing about what runs.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from builder.errors import GateError
from builder.steps.gates.elf import ELF_MAGIC, ElfError, sections
from builder.steps.gates.unpack import UnpackError, lz4, zstd

_CONTAINER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQ")
_MAGIC = 0xBA55ED50
_MAGIC_BYTES = _MAGIC.to_bytes(4, "little")
_CUDA_MACHINE = (190).to_bytes(2, "little")  # e_machine of a cubin
_SECTIONS = (".nv_fatbin", "__nv_relfatbin")
_PTX, _CUBIN = 1, 2
_A, _F, _ZSTD, _LZ4 = 0x100000, 0x200000, 0x8000, 0x2000
_ENTRY_HEADER = (64, 4096)  # bytes, from and to
_LARGEST = 1 << 30  # unpacked bytes
_NOT_ZERO = re.compile(rb"[^\0]")
_KERNEL = ".nv.constant0."
_PTX_KERNEL = re.compile(rb"\.entry\s+([\w$]+)")


class FatbinError(GateError):
    """The device code of a file is not as it is known here."""

    code = "fatbin"


@dataclass(frozen=True, slots=True, order=True)
class Architecture:
    """`sm_121a` for machine code, `compute_121a` for PTX."""

    number: int
    suffix: str  # "", "a" (this one GPU) or "f" (its family)
    ptx: bool = False

    def __str__(self) -> str:
        return f"{'compute' if self.ptx else 'sm'}_{self.number}{self.suffix}"


class DeviceObject(NamedTuple):
    """What a file holds of one source (or one link): for what it has kernels, and one of them."""

    architectures: frozenset[Architecture]
    kernel: str  # its mangled name; a long one is cut


def architectures(data: bytes | bytearray) -> frozenset[Architecture]:
    """The architectures that any object of a file has kernels for. Raises: FatbinError."""
    return frozenset().union(*(each.architectures for each in objects(data)))


def objects(data: bytes | bytearray) -> tuple[DeviceObject, ...]:
    """The objects of a file that have kernels; none, if it has no device code.

    Takes a shared object, an object file, a program or a bare fatbin. Raises: FatbinError.
    """
    view = memoryview(data)
    if view[:4] == _MAGIC_BYTES:
        return tuple(_containers(view))
    if bytes(view[:8]) == b"!<arch>\n":
        raise FatbinError("a static archive, which is not read: name what is linked from it")
    if view[:4] != ELF_MAGIC:
        return ()
    if bytes(view[18:20]) == _CUDA_MACHINE:
        raise FatbinError("a bare cubin, which does not say its suffix: only fatbins do")
    try:
        found = tuple(sections(view))
    except ElfError as error:
        raise FatbinError(f"its ELF structure cannot be read: {error}") from error
    return tuple(each for name, part in found if name in _SECTIONS for each in _containers(part))


def _containers(data: memoryview) -> Iterator[DeviceObject]:
    """Containers stand one after another, with zeros between them."""
    at = 0
    while (start := _NOT_ZERO.search(data, at)) is not None:
        # A magic number never begins with a zero byte, so this is where it must stand.
        at = start.start()
        if len(data) - at < _CONTAINER.size:
            raise FatbinError(f"a fatbin is cut off at byte {at}")
        magic, version, header, size = _CONTAINER.unpack_from(data, at)
        if magic != _MAGIC:
            raise FatbinError(f"no fatbin at byte {at}, but {bytes(data[at : at + 4]).hex()}")
        if (version, header) != (1, _CONTAINER.size):
            raise FatbinError(f"unknown fatbin version {version} (header of {header} bytes)")
        at += header
        if size > len(data) - at:
            raise FatbinError(f"a fatbin of {size} bytes is cut off after {len(data) - at}")
        if found := dict(_entries(data[at : at + size])):
            yield DeviceObject(frozenset(found), next(iter(found.values())))
        at += size


def _entries(data: memoryview) -> Iterator[tuple[Architecture, str]]:
    """Each architecture that there are kernels for, and the first of them."""
    at = 0
    while at < len(data):
        if len(data) - at < _ENTRY_HEADER[0]:
            raise FatbinError("the header of an entry is cut off")
        kind, version, header, size = _ENTRY.unpack_from(data, at)
        if kind not in (_PTX, _CUBIN) or version != 0x101:
            raise FatbinError(f"unknown kind of entry: {kind}, version {version:#x}")
        if not _ENTRY_HEADER[0] <= header <= _ENTRY_HEADER[1]:
            raise FatbinError(f"the header of an entry has {header} bytes")
        if header + size > len(data) - at:
            raise FatbinError(f"an entry of {header + size} bytes is cut off")
        entry = data[at : at + header + size]
        arch = _architecture(entry, ptx=kind == _PTX)
        if kernel := _kernel(entry, header, ptx=kind == _PTX):
            yield arch, kernel
        at += header + size


def _architecture(entry: memoryview, *, ptx: bool) -> Architecture:
    (number,) = struct.unpack_from("<I", entry, 28)
    (flags,) = struct.unpack_from("<Q", entry, 40)
    if not 10 <= number <= 999:
        raise FatbinError(f"unknown architecture {number}")
    if flags & _A and flags & _F:
        raise FatbinError(f"architecture {number} is marked as both a and f")
    return Architecture(number, "a" if flags & _A else "f" if flags & _F else "", ptx)


def _kernel(entry: memoryview, header: int, *, ptx: bool) -> str:
    """The first kernel in it, "" where there is none."""
    payload = _unpacked(entry, header)
    if ptx:
        match = _PTX_KERNEL.search(payload)
        return match[1].decode("latin-1") if match else ""
    if payload[:4] != ELF_MAGIC:
        raise FatbinError(f"a cubin is no ELF file: it begins with {bytes(payload[:4]).hex()}")
    try:
        names = [name for name, _ in sections(payload) if name.startswith(_KERNEL)]
    except ElfError as error:
        raise FatbinError(f"a cubin cannot be read: {error}") from error
    return names[0].removeprefix(_KERNEL) if names else ""


def _unpacked(entry: memoryview, header: int) -> memoryview:
    flags, _, size = struct.unpack_from("<QQQ", entry, 40)
    packed = entry[header:]
    if not flags & (_ZSTD | _LZ4):
        return packed
    if size > _LARGEST:
        raise FatbinError(f"an entry of {size} bytes is too large to be unpacked")
    try:
        return memoryview((zstd if flags & _ZSTD else lz4)(bytes(packed), size))
    except UnpackError as error:
        raise FatbinError(f"an entry cannot be unpacked: {error}") from error
