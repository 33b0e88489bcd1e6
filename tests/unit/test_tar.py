"""Our tar members, read back by Python's tarfile; their bytes are fixed here."""

import gzip
import hashlib
import io
import tarfile

from hypothesis import given, settings
from hypothesis import strategies as st

from builder.model.values import STAGED_MTIME
from builder.steps import tar
from builder.steps.stored_gzip import StoredGzip

_names = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=90
).filter(lambda name: name not in (".", ".."))
_paths = st.lists(_names, min_size=1, max_size=4).map("/".join)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(_paths, st.binary(max_size=1500), max_size=6), _paths)
def test_tarfile_reads_what_was_written(files: dict[str, bytes], target: str) -> None:
    raw = b"".join(
        tar.member(name, tar.FILE, size=len(data)) + data + tar.padding(len(data))
        for name, data in files.items()
    )
    raw += tar.member("the-link", tar.LINK, mode=0o777, target=target) + tar.END
    with tarfile.open(fileobj=io.BytesIO(raw), mode="r:") as archive:
        members = archive.getmembers()
        assert [m.name for m in members] == [*files, "the-link"]
        assert members[-1].linkname == target
        for member in members[:-1]:
            stream = archive.extractfile(member)
            assert stream is not None
            assert stream.read() == files[member.name]
            assert (member.uid, member.gid, member.uname, member.gname) == (0, 0, "", "")
            assert (member.mode, member.mtime) == (0o644, STAGED_MTIME)


def test_the_bytes_are_fixed() -> None:
    raw = tar.member("kern/", tar.FOLDER, mode=0o755)
    raw += tar.member("kern/a", tar.FILE, size=1) + b"x" + tar.padding(1)
    raw += tar.member("kern/" + "ü" * 70, tar.FILE) + tar.END
    assert len(raw) == 512 + 1024 + 1536 + 1024
    assert hashlib.sha256(raw).hexdigest() == GOLDEN_TAR


def test_pax_lengths_count_themselves() -> None:
    for size in range(80, 130):
        name = "n" * size
        raw = tar.member(name, tar.FILE) + tar.END
        with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
            assert archive.getnames() == [name]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 140_000), max_size=5))
def test_stored_gzip_is_gzip(sizes: list[int]) -> None:
    out = io.BytesIO()
    with StoredGzip(out) as zipped:
        for size in sizes:
            zipped.write(bytes(i & 0xFF for i in range(size % 7)) * (size // 7 + 1))
    content = b"".join(bytes(i & 0xFF for i in range(s % 7)) * (s // 7 + 1) for s in sizes)
    assert gzip.decompress(out.getvalue()) == content


def test_stored_gzip_does_not_depend_on_how_it_is_written() -> None:
    whole, pieces = io.BytesIO(), io.BytesIO()
    data = bytes(range(256)) * 1000
    with StoredGzip(whole) as zipped:
        zipped.write(data)
    with StoredGzip(pieces) as zipped:
        for i in range(0, len(data), 777):
            zipped.write(data[i : i + 777])
    assert whole.getvalue() == pieces.getvalue()
    assert hashlib.sha256(whole.getvalue()).hexdigest() == GOLDEN_GZIP


GOLDEN_TAR = "aa74a501bb56f9ff5a68a08e3ca9f03c0b646495704e25b87353d83924e0d500"
GOLDEN_GZIP = "b8f1ae9de750f2f0916d4a58ca5ce44bc0922d4c04bb8844529c4f8ae7d16673"
