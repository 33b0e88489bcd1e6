"""Small 64-bit ELF files with given sections."""

from __future__ import annotations

import struct
from collections.abc import Mapping


def elf_file(sections: Mapping[str, bytes]) -> bytes:
    """A file whose sections are these; its section headers stand at its end, as linkers do."""
    names, body = b"\0", bytearray(64)
    headers = [bytes(64)]
    everything = {**sections, ".shstrtab": b""}
    for name in everything:
        names += name.encode() + b"\0"
    for name, data in everything.items():
        content = names if name == ".shstrtab" else data
        body += bytes(-len(body) % 8)
        at = names.index(b"\0" + name.encode() + b"\0") + 1
        headers.append(struct.pack("<IIQQQQIIQQ", at, 1, 2, 0, len(body), len(content), 0, 0, 8, 0))
        body += content
    body += bytes(-len(body) % 8)
    head = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 183, 1, 0, 0, len(body), 0, 64, 0, 0, 64,
        len(headers), len(headers) - 1,
    )  # fmt: skip
    body[:64] = head
    return bytes(body) + b"".join(headers)
