"""Tar members as bytes, the same on every machine and with every Python.

Ustar (POSIX 1003.1-1988) with one pax header before a member whose name or target is longer
than 100 bytes or not ASCII. Owner 0:0 without names, one mtime, modes 0644 and 0755 only.
"""

from __future__ import annotations

from builder.model.values import STAGED_MTIME

BLOCK = 512
END = bytes(2 * BLOCK)
FILE, LINK, FOLDER, _PAX = b"0", b"2", b"5", b"x"

_OWNER = b"0000000\0" * 2
_MTIME = b"%011o\0" % STAGED_MTIME
_MAGIC = b"ustar\x0000"
_TAIL = bytes(32 + 32) + b"0000000\0" * 2 + bytes(155 + 12)  # no names, no device, no prefix
_MODES = {0o644: b"0000644\0", 0o755: b"0000755\0", 0o777: b"0000777\0"}
_MAX_SIZE = 8**11
_CONSTANT = sum(_OWNER + _MTIME + b" " * 8 + _MAGIC + _TAIL)


def member(name: str, kind: bytes, *, size: int = 0, mode: int = 0o644, target: str = "") -> bytes:
    """The header blocks of a member; a file's content and its padding follow them."""
    raw, link = name.encode(), target.encode()
    if len(raw) <= 100 and len(link) <= 100 and name.isascii() and target.isascii():
        return _header(raw, kind, size, mode, link)
    records = b""
    if len(raw) > 100 or not name.isascii():
        records += _record(b"path", raw)
    if len(link) > 100 or not target.isascii():
        records += _record(b"linkpath", link)
    pax = _header(b"././@PaxHeader", _PAX, len(records), 0o644, b"") + records
    plain = name.encode("ascii", "replace")[:100]
    short = target.encode("ascii", "replace")[:100]
    return pax + padding(len(records)) + _header(plain, kind, size, mode, short)


def padding(size: int) -> bytes:
    """The zeros behind a content of `size` bytes."""
    return bytes(-size % BLOCK)


def _header(name: bytes, kind: bytes, size: int, mode: int, target: bytes) -> bytes:
    assert size < _MAX_SIZE, "8 GiB in one file"
    before = _MODES[mode]
    length = b"%011o\0" % size
    checksum = _CONSTANT + sum(name) + sum(before) + sum(length) + kind[0] + sum(target)
    return b"".join(
        (name.ljust(100, b"\0"), before, _OWNER, length, _MTIME, b"%06o\0 " % checksum, kind,
         target.ljust(100, b"\0"), _MAGIC, _TAIL)
    )  # fmt: skip


def _record(key: bytes, value: bytes) -> bytes:
    """A pax record: its own length, in decimal, comes first."""
    rest = len(key) + len(value) + 3
    length = rest + len(str(rest))
    if len(str(length)) > len(str(rest)):
        length += 1
    return b"%d %s=%s\n" % (length, key, value)
