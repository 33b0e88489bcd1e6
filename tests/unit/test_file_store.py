"""The file store and build contexts: written once, hashed when read."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from builder.model.values import STAGED_MTIME
from builder.tools.contexts import Contexts
from builder.tools.files import ContentMismatch, FileStore


def writes(data: bytes) -> Callable[[IO[bytes]], None]:
    def write(out: IO[bytes]) -> None:
        out.write(data)

    return write


HELLO = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"


def test_put_create_path(tmp_path: Path) -> None:
    files = FileStore(tmp_path / "cache")
    (tmp_path / "x").write_bytes(b"hello")
    assert files.put(tmp_path / "x", sha256=HELLO) == files.create(writes(b"hello"))
    place = files.path(HELLO)
    assert place == tmp_path / "cache/files/sha256/2c" / HELLO.removeprefix("sha256:")
    assert stat.S_IMODE(place.stat().st_mode) == 0o444
    assert place.stat().st_mtime == STAGED_MTIME
    assert list((tmp_path / "cache/tmp").iterdir()) == []


def test_a_file_that_is_here_is_not_copied_again(tmp_path: Path) -> None:
    """What was seen of it by its inode holds on: a stamp of `verify-lock`."""
    files = FileStore(tmp_path / "cache")
    (tmp_path / "x").write_bytes(b"hello")
    _, place = files.put(tmp_path / "x")
    first = place.stat().st_ino
    assert files.put(tmp_path / "x") == files.put(tmp_path / "x", sha256=HELLO) == (HELLO, place)
    assert place.stat().st_ino == first
    place.chmod(0o644)
    place.write_bytes(b"hellO")
    assert files.put(tmp_path / "x") == (HELLO, place)
    assert files.path(HELLO) == place


def test_another_content_is_refused(tmp_path: Path) -> None:
    files = FileStore(tmp_path)
    (tmp_path / "x").write_bytes(b"hullo")
    with pytest.raises(ContentMismatch, match="x has sha256:"):
        files.put(tmp_path / "x", sha256=HELLO)
    assert files.path(HELLO) is None


def test_a_damaged_file_is_removed_and_noted(tmp_path: Path) -> None:
    notes: list[str] = []
    files = FileStore(tmp_path, note=notes.append)
    _, place = files.create(writes(b"hello"))
    place.chmod(0o644)
    place.write_bytes(b"hellO")
    assert files.path(HELLO) is None
    assert not place.exists()
    assert len(notes) == 1
    assert "damaged" in notes[0]


def test_facts(tmp_path: Path) -> None:
    files = FileStore(tmp_path)
    assert files.recall("k") is None
    files.remember("k", "v\nw")
    assert files.recall("k") == "v\nw"
    (fact,) = (p for p in (tmp_path / "facts").rglob("*") if p.is_file())
    fact.write_bytes(fact.read_bytes()[:-1])
    assert files.recall("k") is None


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_context_is_the_same_under_any_umask(tmp_path: Path, umask: int) -> None:
    old = os.umask(umask)
    try:
        files, contexts = FileStore(tmp_path), Contexts(tmp_path)
        _, stored = files.create(writes(b"tar"))
        wanted: dict[str, Path | bytes] = {
            "Dockerfile": b"FROM x\n",
            "bin/run": b"#!\n",
            "sources/k.tar": stored,
        }
        place = contexts.publish(wanted, executable={"bin/run"})
    finally:
        os.umask(old)
    seen = {
        str(p.relative_to(place)): (stat.S_IMODE(p.stat().st_mode), int(p.stat().st_mtime))
        for p in [place, *place.rglob("*")]
    }
    assert seen == {
        path: (mode, STAGED_MTIME)
        for path, mode in {
            ".": 0o755, "Dockerfile": 0o644, "bin": 0o755, "bin/run": 0o755,
            "sources": 0o755, "sources/k.tar": 0o444,
        }.items()
    }  # fmt: skip
    assert (place / "sources/k.tar").samefile(stored)


def test_a_damaged_context_is_made_again(tmp_path: Path) -> None:
    files, contexts = FileStore(tmp_path), Contexts(tmp_path)
    _, stored = files.create(writes(b"tar"))
    wanted: dict[str, Path | bytes] = {"Dockerfile": b"FROM x\n", "k.tar": stored}
    place = contexts.publish(wanted)
    inode = place.stat().st_ino
    assert contexts.publish(wanted).stat().st_ino == inode  # used again
    (place / "Dockerfile").write_bytes(b"FROM y\n")
    assert (contexts.publish(wanted) / "Dockerfile").read_bytes() == b"FROM x\n"
    (place / "more").write_bytes(b"")
    assert not (contexts.publish(wanted) / "more").exists()
    assert contexts.publish({**wanted, "Dockerfile": b"FROM z\n"}) != place
    assert contexts.publish(wanted, executable={"Dockerfile"}) != place
