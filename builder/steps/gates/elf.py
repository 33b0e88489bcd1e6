"""The sections of a 64-bit ELF file, by hand: names and bytes, nothing else."""

from __future__ import annotations

import struct
from collections.abc import Iterator

ELF_MAGIC = b"\x7fELF"
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NOBITS = 8
_EXTENDED = 0xFFFF  # e_shstrndx, when the number stands in section 0


class ElfError(Exception):
    """The file is damaged, or its section headers were taken off."""


def sections(data: memoryview) -> Iterator[tuple[str, memoryview]]:
    """Name and bytes of each section that has bytes in the file.

    A file of another class or byte order gives none: no GPU code was ever linked into one
    on the machines that this is for. Raises: ElfError.
    """
    if len(data) < _HEADER.size:
        raise ElfError("it is cut off within its header")
    if data[4] != 2 or data[5] != 1:
        return
    fields = _HEADER.unpack_from(data)
    offset, size, count, names_at = fields[6], fields[11], fields[12], fields[13]
    if offset == 0:
        raise ElfError("it has no section headers")
    if size != _SECTION.size:
        raise ElfError(f"a section header has {size} bytes")
    first = _section(data, offset, 0)
    count = count or first[5]
    names_at = first[6] if names_at == _EXTENDED else names_at
    if names_at >= count or count > (len(data) - offset) // size:
        raise ElfError("its section headers are cut off")
    names = _bytes(data, _section(data, offset, names_at))
    for i in range(1, count):
        section = _section(data, offset, i)
        if section[1] != _NOBITS:
            yield _name(names, section[0]), _bytes(data, section)


def _section(data: memoryview, offset: int, index: int) -> tuple[int, ...]:
    at = offset + index * _SECTION.size
    if at + _SECTION.size > len(data):
        raise ElfError("its section headers are cut off")
    return _SECTION.unpack_from(data, at)


def _bytes(data: memoryview, section: tuple[int, ...]) -> memoryview:
    start, size = section[4], section[5]
    if start + size > len(data):
        raise ElfError("a section is cut off")
    return data[start : start + size]


def _name(names: memoryview, at: int) -> str:
    """Names longer than any that is looked for here are cut."""
    return bytes(names[at : at + 64]).partition(b"\0")[0].decode("latin-1")
