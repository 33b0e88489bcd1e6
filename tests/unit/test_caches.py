"""JIT caches: what a machine answers, what is refused, and the scripts themselves, run here."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder.errors import DistributionError, LaneError, UsageError
from builder.model.caches import CacheFacts, CacheKey, Manifest, Unit
from builder.model.lane import Lane
from builder.model.nodes import Node
from builder.model.schema import Reader
from builder.pipeline import caches as pipeline
from builder.pipeline.cache_spots import Spot, listed, looked, placed
from builder.steps.distribution import caches
from builder.steps.distribution.cache_scripts import HOLD, KEY_FILE, SWAP
from builder.tools.here import Here
from builder.tools.ssh_words import NodeFailed
from tests.unit.locks import lane_table

HERE = Here()
KEY = CacheKey("ab" * 32, "arm64", "12.1")
NODE = Node("dgx1", "dgx1")
FACTS = CacheFacts("arm64", "12.1", frozenset(("rsync", "flock", "sha256sum", "stat")), "/home/ops",
                   "/var/cache/x", 10**12, (), ("triton",), ())  # fmt: skip


class Line:
    """A line of progress that says nothing."""

    def say(self, text: str) -> None: ...
    def expect(self, total: int) -> None: ...
    def moved(self, count: int) -> None: ...
    def done(self, text: str, *, is_good: bool) -> None: ...


def tree(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def read(folder: Path, *names: str) -> Manifest:
    return listed(HERE, str(folder), names, "this host")


def unit(manifest: Manifest, folder: str = "/x") -> Unit:
    return Unit(folder, KEY, "demo", "dgx1", manifest)


def test_all_that_lies_there_is_listed(tmp_path: Path) -> None:
    tree(tmp_path, triton__a="1", triton__b__c="22", b12x__d="", other__e="5")
    (tmp_path / "triton/l").symlink_to("b/c")
    (tmp_path / "triton/-- end").write_text("")
    (tmp_path / "triton/ a\u2028b ").write_text("")
    (tmp_path / "triton/a").chmod(0o751)
    found = read(tmp_path, "b12x", "triton")
    assert list(found) == ["b12x", "b12x/d", "triton", "triton/ a\u2028b ", "triton/-- end",
                           "triton/a", "triton/b",
                           "triton/b/c", "triton/l"]  # fmt: skip
    assert (found["triton/a"].mode, found["triton/a"].size) == (0o100751, 1)
    assert found["triton/a"].digest.startswith("6b86b273ff34")
    assert found["triton/l"].digest == ">b/c"
    again = caches.read(tmp_path, caches.written(unit(found)), ("b12x", "triton"))
    assert again.manifest == found
    assert again.key == KEY
    assert caches.tops(caches.read(tmp_path, caches.written(unit(found)), ("b12x",)).manifest) == (
        "b12x",
    )


@pytest.mark.parametrize(
    ("name", "target", "is_inside"),
    [
        ("a/l", "b", True), ("a/l", "b/c", True), ("a/b/l", "../c", True), ("a/b/l", ".", True),
        ("a/l", "../b12x/c", False), ("a/b/l", "../../b12x", False), ("a/b/l", "..", False),
        ("a/l", "/etc/passwd", False), ("a/b/c/l", "d/../../x", False), ("a/b/l", "x/..", False),
    ],
)  # fmt: skip
def test_a_link_stays_inside_its_folder(
    tmp_path: Path, name: str, target: str, is_inside: bool
) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.symlink_to(target)
    with contextlib.nullcontext() if is_inside else pytest.raises(caches.CacheUnsafe, match="out"):
        read(tmp_path, "a")


@pytest.mark.parametrize("name", ["a\nb", "a\n-- end", "a\\b", "a\tb", b"\xff".decode("latin-1")])
def test_odd_names_are_refused(tmp_path: Path, name: str) -> None:
    tree(tmp_path, triton__a="1")
    raw = name.encode("latin-1")
    Path(os.fsdecode(bytes(tmp_path / "triton") + b"/" + raw)).write_text("")
    with pytest.raises(caches.CacheUnsafe, match="plain name"):
        read(tmp_path, "triton")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    tree(tmp_path, triton__a="1")
    with socket.socket(socket.AF_UNIX) as one, contextlib.chdir(tmp_path / "triton"):
        one.bind("s")
        with pytest.raises(caches.CacheUnsafe, match="triton/s"):
            read(tmp_path, "triton")


def test_a_folder_that_goes_meanwhile_is_noticed(tmp_path: Path) -> None:
    tree(tmp_path, triton__a="1")
    with pytest.raises(caches.CacheChanging, match="No such file"):
        read(tmp_path, "triton", "inductor")


class Locked(Here):
    """A machine whose files are another user's."""

    def script(self, text: str, *words: str, timeout_s: float) -> str:
        raise NodeFailed("dgx1: find: 'triton': Permission denied", detail="Permission denied")


def test_a_cache_that_may_not_be_read() -> None:
    with pytest.raises(NodeFailed) as failed:
        listed(Locked(), "/x", ("triton",), "dgx1")
    assert "readable" in failed.value.findings[0].hint


def test_what_a_machine_says(tmp_path: Path) -> None:
    tree(tmp_path / "0123456789ab", triton__a="1", b12x__a="1")
    (tmp_path / "not a key").mkdir()
    found = looked(Spot(HERE, str(tmp_path), "0123456789ab"), ("triton", "inductor"))
    assert found.architecture in ("amd64", "arm64")
    assert found.keys == ("0123456789ab",)
    assert found.folders == ("triton",)
    assert found.root == str(tmp_path.resolve())
    assert found.free is not None
    assert found.free > 0
    assert not found.links
    nowhere = looked(Spot(HERE, str(tmp_path / "no/such"), "0123456789ab"), ("triton",))
    assert (nowhere.root, nowhere.keys, nowhere.free is not None) == ("", (), True)


@pytest.mark.parametrize(
    ("facts", "root", "code"),
    [
        ({}, "/var/cache/x", None),
        ({"root": "/"}, "/srv/x", "cache-unsafe"),
        ({"root": "/home/ops"}, "/srv/x", "cache-unsafe"),
        ({"root": ""}, "/home/ops", "cache-unsafe"),
        ({"root": "/home"}, "/srv/x", "cache-unsafe"),
        ({"root": "/home/ops2"}, "/srv/x", None),
        ({"root": "/home/ops/jit"}, "/srv/x", None),
        ({"links": ("/srv/x/triton",)}, "/srv/x", "cache-unsafe"),
        ({"tools": frozenset(("rsync", "stat", "sha256sum"))}, "/srv/x", "node-tools"),
    ],
)  # fmt: skip
def test_an_unfit_machine(facts: dict[str, object], root: str, code: str | None) -> None:
    found = caches.unfit(NODE, dataclasses.replace(FACTS, **facts), root)  # type: ignore[arg-type]
    assert (found and found.code) == code
    assert found is None or found.hint


def test_only_the_same_machine_with_room() -> None:
    one = unit({})
    assert caches.refusal(NODE, FACTS, one, 10) is None
    for change in ({"gpu": "12.0"}, {"gpu": ""}, {"architecture": "amd64"}):
        found = caches.refusal(NODE, dataclasses.replace(FACTS, **change), one, 10)  # type: ignore[arg-type]
        assert found is not None
        assert found.code == "wrong-architecture"
    full = caches.refusal(NODE, dataclasses.replace(FACTS, free=9), one, 10)
    assert full is not None
    assert full.code == "no-space"


class Case:
    """A new cache in a folder, and a place with a former one."""

    def __init__(self, folder: Path) -> None:
        self.new = tree(folder / "new", triton__k="new", triton__n="new", b12x__k="new")
        self.spot = Spot(HERE, str(folder / "root; x"), "0123456789ab")
        self.place = tree(Path(self.spot.folder), triton__k="old", cuda__k="other")
        self.unit = unit(read(self.new, "b12x", "triton"), str(self.new))

    def copy(self, into: str) -> int:
        subprocess.run(["cp", "-a", *self.new.iterdir(), into], check=True)
        (Path(into) / KEY_FILE).write_bytes(caches.written(self.unit))
        return 7

    @property
    def files(self) -> dict[str, str]:
        return {str(p.relative_to(self.place)): p.read_text()
                for p in sorted(self.place.rglob("*"))
                if p.is_file() and not p.name.startswith(".imgbuild")}  # fmt: skip


NEW = {"b12x/k": "new", "cuda/k": "other", "triton/k": "new", "triton/n": "new"}
OLD = {"cuda/k": "other", "triton/k": "old"}


def test_placed_whole(tmp_path: Path) -> None:
    case = Case(tmp_path)
    assert placed(case.spot, case.unit, case.copy, Line()) == 7
    files = case.files
    assert json.loads(files.pop(KEY_FILE))["fingerprint"] == KEY.fingerprint
    assert files == NEW
    owner = (case.place / "triton/k").stat().st_uid
    assert owner == Path(case.spot.root).stat().st_uid


@pytest.mark.parametrize("harm", ["changed", "more", "less", "mode", "raised"])
def test_what_differs_is_not_placed(tmp_path: Path, harm: str) -> None:
    case = Case(tmp_path)

    def copy(into: str) -> int:
        case.copy(into)
        match harm:
            case "changed":
                (Path(into) / "triton/k").write_text("nwe")
            case "more":
                (Path(into) / "triton/x").write_text("")
            case "less":
                (Path(into) / "triton/n").unlink()
            case "mode":
                (Path(into) / "triton/n").chmod(0o600)
            case _:
                raise NodeFailed("dgx1: cut")
        return 0

    with pytest.raises(DistributionError):
        placed(case.spot, case.unit, copy, Line())
    assert case.files == OLD


@contextlib.contextmanager
def held(case: Case, token: str) -> Iterator[subprocess.Popen[bytes]]:
    words = ["sh", "-c", HOLD, "sh", case.spot.root, case.spot.key, token]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"held\n"
        yield running
        assert running.stdin is not None
        running.stdin.close()  # as when the connection ends
        running.wait(9)


def test_two_at_once(tmp_path: Path) -> None:
    case = Case(tmp_path)
    with held(case, "one"), pytest.raises(caches.CacheBusy):
        placed(case.spot, case.unit, case.copy, Line())
    assert case.files == OLD
    placed(case.spot, case.unit, case.copy, Line())
    assert (case.place / "triton/n").exists()


def test_a_renaming_that_was_cut_off_loses_to_the_cleaning_or_ends_before_it(
    tmp_path: Path,
) -> None:
    case = Case(tmp_path)
    with held(case, "one"):
        case.copy(str(case.place / ".incoming-one"))
    with pytest.raises(NodeFailed, match="is gone"):  # the connection ended, all was removed
        HERE.script(SWAP, case.spot.folder, "one", "b12x", "triton", KEY_FILE, timeout_s=9)
    assert case.files == OLD
    with held(case, "two") as running:
        case.copy(str(case.place / ".incoming-two"))
        slow = f"sync() {{ sleep 0.7; }}\n{SWAP}"
        words = ["sh", "-c", slow, "sh", case.spot.folder, "two", "b12x", "triton", KEY_FILE]
        with subprocess.Popen(words) as swapping:
            lock = case.place / ".imgbuild-swap"
            while subprocess.run(["flock", "-n", lock, "true"], check=False).returncode == 0:
                pass
            assert running.stdin is not None
            running.stdin.close()
            assert swapping.wait(9) == 0
        running.wait(9)
    files = case.files
    files.pop(KEY_FILE)
    assert files == NEW


@pytest.mark.parametrize("moment", ["aside", "in place"])
def test_a_crash_between_two_renames_is_put_right(tmp_path: Path, moment: str) -> None:
    case = Case(tmp_path)
    if moment == "aside":
        (case.place / "triton").rename(case.place / ".former-triton")
    else:
        tree(case.place, **{".former-triton__k": "older"})
    tree(case.place, **{".incoming-old__triton__k": "half"})
    with held(case, "one"):
        assert case.files == OLD


def test_a_part_of_the_renaming_is_never_run(tmp_path: Path) -> None:
    case = Case(tmp_path)
    for end in range(0, len(SWAP) - 3, 7):
        with contextlib.suppress(NodeFailed):
            HERE.script(SWAP[:end], case.spot.folder, "one", "triton", timeout_s=9)
    assert case.files == OLD
    assert not (case.place / ".imgbuild-swap").exists()


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    case = Case(tmp_path)
    spot = Spot(HERE, str(case.place / "triton/k"), "0123456789ab")
    with pytest.raises(NodeFailed, match="cannot be written") as failed:
        placed(spot, case.unit, case.copy, Line())
    assert "chown" in failed.value.findings[0].hint


@pytest.mark.parametrize("data", [b"", b"[]", b'{"files": [["a"]]}', b'{"files": 3}'])
def test_a_key_that_does_not_read(data: bytes) -> None:
    with pytest.raises(caches.CacheDamaged):
        caches.read(Path("x"), data, ("triton",))


@pytest.mark.parametrize(
    "root", ["/", "/srv", "srv/x", "/srv/../etc", "/srv//x", "/srv/a\nb", "~/x"]
)
def test_a_root_that_no_lane_may_have(root: str) -> None:
    reader = Reader(Path("x"), "x")
    reader.read(Lane, lane_table() | {"caches": {"root": root, "folders": ["triton"]}})
    assert [f.what.partition(":")[0] for f in reader.findings] == ["caches.root"]


def test_a_lane_without_caches() -> None:
    lane = Reader(Path("x"), "x").read(Lane, lane_table())
    assert lane is not None
    assert caches.declared(lane).folders == ("triton",)
    with pytest.raises(LaneError, match="declares no caches"):
        caches.declared(dataclasses.replace(lane, caches=None))


def test_a_folder_to_pull_into(tmp_path: Path) -> None:
    assert pipeline.choose_folder(tmp_path / "new") == tmp_path / "new"
    assert pipeline.choose_folder(tree(tmp_path / "ours", **{KEY_FILE: "", "triton__a": ""}))
    with pytest.raises(UsageError, match="not empty"):
        pipeline.choose_folder(tree(tmp_path / "home", triton__mine=""))
