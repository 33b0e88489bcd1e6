"""Architectures from bytes: real fatbins of CUDA 13.0, and damaged ones."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from builder.steps.gates.fatbin import Architecture, FatbinError, architectures, objects
from builder.steps.gates.unpack import UnpackError, lz4, zstd
from tests.unit.gates.elf_file import elf_file

DATA = Path(__file__).parents[2] / "data" / "fatbin"
KERNEL = (DATA / "sm_121a.nv_fatbin").read_bytes()
SEVERAL = (DATA / "several.nv_fatbin").read_bytes()
RDC = {".nv_fatbin": b"", "__nv_relfatbin": (DATA / "rdc.nv_relfatbin").read_bytes()}


def named(data: bytes) -> list[str]:
    return [str(arch) for arch in sorted(architectures(data))]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sm_121a", ["sm_121a"]),
        ("sm_120a", ["sm_120a"]),
        ("sm_120f", ["sm_120f"]),
        ("sm_121f", ["sm_121f"]),
        ("sm_90a", ["sm_90a"]),
        ("ptx_120", ["compute_120"]),
        ("ptx_121a", ["compute_121a"]),
        ("several", ["sm_120", "compute_120", "sm_121a"]),
        ("zstd", ["sm_121a"]),
        ("lz4", ["sm_121a"]),
        ("rdc", ["sm_121a"]),
        ("stub", []),
        ("stub-zstd", []),
    ],
)
def test_each_way_to_compile(name: str, expected: list[str]) -> None:
    data = (DATA / f"{name}.nv_fatbin").read_bytes()
    assert named(data) == expected
    assert named(elf_file({".text": b"\x90" * 40, ".nv_fatbin": data})) == expected


def test_relocatable_device_code() -> None:
    assert named(elf_file(RDC)) == ["sm_121a"]


def test_several_fatbins_with_zeros_between_them() -> None:
    other = (DATA / "sm_90a.nv_fatbin").read_bytes()
    assert named(KERNEL + bytes(48) + other + bytes(8)) == ["sm_90a", "sm_121a"]


def test_no_device_code() -> None:
    assert named(b"") == named(b"#!/bin/sh\n") == named(elf_file({".text": b"\x90"})) == []


def test_a_32_bit_file_has_none() -> None:
    assert named(b"\x7fELF\x01\x01" + bytes(200)) == []


CUBIN = elf_file({".nv.constant0.k": b"x"})


def entry(
    kind: int = 2, *, version: int = 0x101, arch: int = 121, flags: int = 0x100011,
    size: int = 0, payload: bytes = CUBIN,
) -> bytes:  # fmt: skip
    head = struct.pack("<HHIQ", kind, version, 64, len(payload)) + bytes(12)
    return head + struct.pack("<IQQQQ", arch, 0, flags, 0, size) + payload


def container(*entries: bytes, magic: int = 0xBA55ED50, version: int = 1) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", magic, version, 16, len(body)) + body


def test_the_hand_made_entry_is_a_good_one() -> None:
    assert named(container(entry())) == ["sm_121a"]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (container(entry(kind=32)), "unknown kind of entry: 32, version 0x101"),
        (container(entry(version=0x102)), "unknown kind of entry: 2, version 0x102"),
        (container(entry(), version=2), "unknown fatbin version 2 (header of 16 bytes)"),
        (container(entry(arch=0)), "unknown architecture 0"),
        (container(entry(flags=0x308011)), "architecture 121 is marked as both a and f"),
        (container(entry(payload=b"payload.")), "a cubin is no ELF file: it begins with 7061796c"),
        (container(entry(payload=CUBIN[:-8])), "a cubin cannot be read: its section headers are"),
        (container(entry(flags=0x8011, size=9)), "cannot be unpacked: no zstd frame of 9 bytes"),
        (container(entry(flags=0x2011, size=1 << 29)), "cannot be unpacked: an LZ4 block"),
        (container(entry(flags=0x2011, size=1 << 40)), "too large to be unpacked"),
        (container(entry()[:-1]), f"an entry of {64 + len(CUBIN)} bytes is cut off"),
        (container(entry()[:40]), "the header of an entry is cut off"),
        (container(entry(payload=b"payload."))[:-1], "a fatbin of 72 bytes is cut off after 71"),
        (KERNEL[:-9], "is cut off"),
        (KERNEL + b"\1" * 16, "no fatbin at byte 7192, but 01010101"),
        (KERNEL + b"\x50\xed", "a fatbin is cut off at byte 7192"),
        (b"!<arch>\nx.o/", "a static archive, which is not read: name what is linked from it"),
        (KERNEL[KERNEL.index(b"\x7fELF") :], "a bare cubin, which does not say its suffix"),
        (b"\x7fELF\2\1" + bytes(10), "its ELF structure cannot be read: it is cut off within"),
        (b"\x7fELF\2\1" + bytes(90), "its ELF structure cannot be read: it has no section head"),
        (elf_file({".nv_fatbin": KERNEL})[:-8], "its section headers are cut off"),
    ],
)
def test_what_is_not_known_is_an_error(data: bytes, says: str) -> None:
    with pytest.raises(FatbinError) as error:
        architectures(data)
    assert says in str(error.value)


def read(data: bytes) -> None:
    try:
        found = architectures(data)
    except FatbinError:
        return
    assert all(isinstance(arch, Architecture) for arch in found)


@given(st.binary(max_size=400))
@example(b"\x7fELF\2\1")
def test_any_bytes(data: bytes) -> None:
    read(data)
    read(b"\x50\xed\x55\xba" + data)
    read(b"\x7fELF\2\1" + data)


@settings(max_examples=400)
@given(
    st.sampled_from([SEVERAL, KERNEL, elf_file({".nv_fatbin": KERNEL}), elf_file(RDC)]),
    st.lists(st.tuples(st.integers(0, 20_000), st.binary(min_size=1, max_size=9)), max_size=4),
    st.integers(0, 20_000),
)
def test_damaged_files(data: bytes, changes: list[tuple[int, bytes]], cut: int) -> None:
    damaged = bytearray(data)
    for at, put in changes:
        at %= len(damaged)
        damaged[at : at + len(put)] = put
    read(bytes(damaged))
    read(bytes(damaged[: cut % len(damaged)]))


def test_a_cut_file_never_passes() -> None:
    """Where a fatbin ends too early, it is an error: it never has fewer architectures."""
    whole = architectures(SEVERAL)
    ends = [i for i in range(1, len(SEVERAL), 7) if i > 4]
    for end in ends:
        try:
            assert architectures(SEVERAL[:end]) <= whole
        except FatbinError:
            continue
        # What is read without an error is whole containers.
        assert SEVERAL[end:].lstrip(b"\0")[:4] in (b"\x50\xed\x55\xba", b"")


def test_much_padding_takes_no_time() -> None:
    assert named(KERNEL + bytes(200_000_000)) == ["sm_121a"]


def test_each_object_on_its_own() -> None:
    other = (DATA / "sm_90a.nv_fatbin").read_bytes()
    assert [
        (sorted(map(str, each.architectures)), each.kernel) for each in objects(KERNEL + other)
    ] == [(["sm_121a"], "_Z5scalefPf"), (["sm_90a"], "_Z5scalefPf")]


def test_only_kernels_count() -> None:
    table = elf_file({".text.device_function": b"x" * 9000, ".nv.constant3": bytes(4000)})
    assert named(container(entry(payload=table), entry(arch=120, flags=0x11))) == ["sm_120"]
    assert named(container(entry(1, payload=b".func (.param .b32 r) f()"))) == []
    assert named(container(entry(1, payload=b".visible .entry k("))) == ["compute_121a"]


def test_lz4() -> None:
    """Literals, a match that overlaps itself, lengths of more than one byte."""
    block = b"\xf4\x01" + b"0123456789abcdef" + b"\x10\x00" + b"\x1f" + b"z\x01\x00\xff\x03"
    text = b"0123456789abcdef" + b"01234567" + b"z" * (1 + 15 + 255 + 3 + 4)
    assert lz4(block + b"padding", len(text)) == text
    for damaged in (block[:9], block[:-1], b"\x00\x00\x00", b"\x10a\x09\x00", b""):
        with pytest.raises(UnpackError):
            lz4(damaged, len(text))


def test_zstd_without_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    from builder.steps.gates import unpack

    monkeypatch.setattr(unpack, "_NAMES", ("libnone.so.1",))
    unpack._libzstd.cache_clear()
    with pytest.raises(UnpackError, match="no libzstd"):
        zstd(b"x", 1)
    unpack._libzstd.cache_clear()
