"""A lane with pull requests through `lock` and `verify-lock`; updates; imposter commits."""

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builder.cli import changes_text
from builder.errors import ImgbuildError
from builder.model.locate import line_of
from builder.pipeline.lock import LockReport, lock
from builder.pipeline.proof import Proof
from builder.pipeline.verify import Tools, verify_lock
from builder.steps.reach import Imposter
from builder.tools.files import FileStore
from builder.tools.git_store import Store
from builder.tools.project import ProjectFolder
from tests.integration.graphs import Graph, crossed, graph, lines, many

HEAD = """\
schema = 1
image = "x"
repository = "x"
platforms = ["linux/arm64"]
[build]
cuda-arch-list = "12.1a"
[base.runtime]
ref = "nvidia/cuda:13.0@sha256:{}"
""".format("0" * 64)


class Silent:
    """A Progress that keeps what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def title(self, text: str) -> None: ...
    def note(self, text: str) -> None: ...
    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[Any]:
        yield type(
            "Line",
            (),
            {"say": lambda _, text: None, "done": lambda _, t, **_good: self.done(name, t)},
        )()

    def done(self, name: str, text: str) -> None:
        self.said.append(f"{name}: {text}")


class Online:
    """A registry that has everything; an index that has nothing, and is not asked."""

    def serves(self, ref: str, digest: str) -> bool:
        return True

    def sha256(self, project: str, filename: str) -> None: ...


class Place:
    """A project and a cache."""

    def __init__(self, root: Path) -> None:
        self.project = ProjectFolder(root / "project")
        self.cache = root / "cache"
        (self.project.root / "locks").mkdir(parents=True)
        self.write("docker-images/x/Dockerfile", "FROM runtime\n")
        self.progress = Silent()

    def write(self, path: str, text: str) -> None:
        self.project.write(path, text.encode())

    def lane(self, *sources: str) -> None:
        self.write("locks/x.toml", HEAD + "".join(sources))

    def text(self, path: str) -> str:
        return (self.project.read(path) or b"").decode()

    def lock(self, *update: str, every: bool = False) -> LockReport:
        store = Store(self.cache)
        with contextlib.closing(store):
            return lock(
                "x", update=frozenset(update) if update or every else None, host="linux/arm64",
                project=self.project, store=store, files=FileStore(self.cache),
                wheels=lambda _: pytest.fail("no wheels"), debs=lambda: pytest.fail("no debs"),
                registry=Online(),
                progress=self.progress,
            )  # fmt: skip

    def verify(self, *, offline: bool = False, deep: bool = False) -> Proof:
        store = Store(self.cache)
        with contextlib.closing(store):
            files, online = FileStore(self.cache), Online()
            tools = Tools(self.project, store, files, online, online, self.progress)
            return verify_lock("x", tools, offline=offline, deep=deep)

    def elsewhere(self, root: Path) -> "Place":
        """The same project on another machine."""
        other = Place(root)
        shutil.copytree(self.project.root, other.project.root, dirs_exist_ok=True)
        return other


def source(repo: Graph, commit: str, *pulls: str, **keys: str) -> str:
    table = [f'[sources.kern]\nurl = "{repo.url}"\ncommit = "{commit}"']
    if pulls:
        table.append(f"compose = [{', '.join(pulls)}]")
    return "\n".join([*table, *(f"{k.replace('_', '-')} = {v}" for k, v in keys.items())]) + "\n"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "here")


def composed(root: Path) -> tuple[Graph, str, str]:
    """A repository, its main, and the head of its pull request 7."""
    repo = graph(root)
    start = repo.add({"a.txt": lines()}, ref="refs/heads/main")
    base = repo.add({"a.txt": lines((2, "base")), "csrc/k.cu": "k\n"}, start, ref="refs/heads/main")
    return repo, base, repo.pull(7, repo.add({"a.txt": lines((20, "seven"))}, start))


def test_lock_and_verify(tmp_path: Path, place: Place) -> None:
    repo, base, head = composed(tmp_path)
    place.lane(source(repo, base, "{ pull = 7 }", track='{ branch = "main" }'))
    report = place.lock()
    locked = report.lock.sources["kern"]
    assert locked.compose[0].head == head
    assert locked.reachable_from == "refs/heads/main"
    assert locked.final.tree == repo.merged(base, head)
    assert "-line 20\n+seven\n" in place.text("patches/kern/x.composed.patch")
    assert not place.lock().written
    proof = place.verify()
    assert (proof.findings, proof.unchecked) == ((), ())
    assert "compose: kern: 1 merged" in place.progress.said
    assert place.verify(deep=True).findings == ()

    repo.forget("refs/pull/7/head")
    other = place.elsewhere(tmp_path / "there")
    proof = other.verify()
    assert proof.findings == ()
    assert "the locked delta gave the tree" in proof.unchecked[0]
    assert not other.lock().written
    (other.project.root / "patches/kern/x.composed.patch").unlink()
    other.cache = tmp_path / "third"
    (finding,) = other.verify().findings
    assert finding.code == "compose-unavailable"
    other.write("patches/kern/x.composed.patch", "changed\n")
    (finding,) = other.verify().findings
    assert finding.code == "lock-outdated"
    assert "x.composed.patch was changed after it was locked" in finding.what


def test_a_head_in_the_lane_that_moved(tmp_path: Path, place: Place) -> None:
    repo, base, head = composed(tmp_path)
    place.lane(source(repo, base, f'{{ pull = 7, head = "{head}" }}'))
    assert place.lock().warnings == ()
    place.lane(source(repo, base, f'{{ pull = 7, head = "{head}" }}', native='["csrc"]'))
    repo.pull(7, repo.add({"a.txt": lines((20, "seven, again"))}, base))
    (warning,) = place.lock().warnings
    assert warning.code == "head-moved"
    assert place.lock().warnings == ()  # what is kept asks no server


def test_patches_come_after(tmp_path: Path, place: Place) -> None:
    repo, base, _ = composed(tmp_path)
    patch = (
        "--- a/a.txt\n+++ b/a.txt\n@@ -19,3 +19,3 @@\n line 19\n-seven\n+seven, patched\n line 21\n"
    )
    place.write("patches/kern/gb10/series", "one.patch\n")
    place.write("patches/kern/gb10/one.patch", patch)
    tree = repo.tree({"a.txt": lines((2, "base"), (20, "seven, patched")), "csrc/k.cu": "k\n"})
    place.lane(source(repo, base, "{ pull = 7 }", patches='["kern/gb10"]', result_tree=f'"{tree}"'))
    locked = place.lock().lock.sources["kern"]
    assert locked.final.tree == locked.patches[0].result_tree == tree
    assert place.verify().findings == ()
    tampered = place.text("locks/x.lock").replace(locked.compose[0].result_tree, "1" * 40)
    place.write("locks/x.lock", tampered)
    (finding,) = place.verify().findings
    assert finding.code == "compose-drift"
    assert finding.place
    assert "result-tree" in tampered.splitlines()[(line_of(tampered, finding.place.key) or 0) - 1]


def test_a_pull_request_that_moves_a_submodule(tmp_path: Path, place: Place) -> None:
    inner, repo = graph(tmp_path, "inner"), graph(tmp_path)
    old = inner.add({"x.h": "old\n"}, ref="refs/heads/main")
    new = inner.add({"x.h": "new\n"}, old, ref="refs/heads/main")
    modules = {".gitmodules": '[submodule "i"]\n\tpath = sub\n\turl = ../inner.git\n'}
    start = repo.add({"a": "a\n", "sub": ("160000", old), **modules}, ref="refs/heads/main")
    repo.pull(7, repo.add({"a": "a\n", "sub": ("160000", new), **modules}, start))
    place.lane(source(repo, start, "{ pull = 7 }"))
    assert place.lock().lock.sources["kern"].submodules["sub"].commit == new
    assert place.verify().findings == ()
    other = place.elsewhere(tmp_path / "there")
    assert other.verify().findings == ()
    text = place.text("locks/x.lock").replace(new, old)
    place.write("locks/x.lock", text.replace(inner.tree_of(new), inner.tree_of(old)))
    assert [f.code for f in place.verify().findings] == ["content-mismatch"]


def test_several_bases_through_the_pipeline(tmp_path: Path, place: Place) -> None:
    repo = graph(tmp_path)
    base, head = crossed(repo)
    repo.point("refs/heads/main", base)
    repo.pull(7, head)
    place.lane(source(repo, base, "{ pull = 7 }"))
    locked = place.lock().lock.sources["kern"]
    assert locked.compose[0].with_history
    other = place.elsewhere(tmp_path / "there")
    assert "pull request 7 was not merged again" in other.verify().unchecked[0]
    assert other.verify(deep=True).unchecked == ()


def test_update_tells_what_changed(tmp_path: Path, place: Place) -> None:
    repo, base, head = composed(tmp_path)
    track = {"track": '{ branch = "main" }', "native": '["csrc"]'}
    place.lane(source(repo, base, "{ pull = 7 }", **track))
    place.lock()
    files = {"a.txt": lines((2, "base"), (3, "more")), "csrc/k.cu": "k\nk\n"}
    new = repo.add(files, base, says="Tile \x1b]52;c;x\x07 twice", ref="refs/heads/main")
    after = repo.pull(7, repo.add({"a.txt": lines((20, "seven, again"))}, head))
    report = place.lock("kern")
    assert place.text("locks/x.toml").count(new) == 1
    assert report.moved is not None
    assert [*changes_text.lines(report.moved)] == [
        f"kern: {base[:12]}..{new[:12]}, 1 commit",
        f"  {new[:12]} 2023-11-14 A. Author: Tile \\x1b]52;c;x\\x07 twice",
        f"  pull request 7: head {head[:12]} → {after[:12]}",
        "  2 files, +3 -2 lines",
        "    a.txt  +2 -2",
        "    csrc/k.cu  +1 -0",
        "  native part: changed (csrc/k.cu)",
        "deps: the set is the same",
    ]
    told = json.loads(json.dumps(report.moved.plain()))
    assert told["native"] is True
    assert told["sources"][0]["commits"][0]["subject"] == "Tile \x1b]52;c;x\x07 twice"
    again = place.lock(every=True)
    assert again.moved is not None
    assert (again.written, again.moved.sources) == (False, ())


def test_update_over_a_rewritten_history(tmp_path: Path, place: Place) -> None:
    repo, base, _ = composed(tmp_path)
    place.lane(source(repo, base, track='{ branch = "main" }'))
    place.lock()
    new = many(repo, 30, repo.add({"a.txt": lines()}))
    repo.point("refs/heads/main", new)
    report = place.lock("kern")
    assert report.moved is not None
    (change,) = report.moved.sources
    assert (change.count, len(change.commits), change.rewritten) == (31, 20, True)
    assert f"  its history was rewritten: {base[:12]} is not in it any more" in [
        *changes_text.lines(report.moved)
    ]


def test_an_imposter(tmp_path: Path, place: Place) -> None:
    repo, base, head = composed(tmp_path)
    track = {"track": '{ branch = "main" }'}
    place.lane(source(repo, head, **track))
    with pytest.raises(Imposter) as caught:
        place.lock()
    assert f"commit {head[:12]} is not in the history of refs/heads/main" in str(caught.value)
    assert not place.text("locks/x.lock")
    place.lane(source(repo, head, **track, unreachable='"their branch"'))
    assert place.lock().lock.sources["kern"].reachable_from is None
    place.lane(source(repo, base, track='{ branch = "gone" }'))
    report = place.lock()
    assert [w.code for w in report.warnings] == ["reach-unknown"]
    assert report.lock.sources["kern"].reachable_from is None


def test_a_commit_that_its_tag_left_behind(tmp_path: Path, place: Place) -> None:
    repo, base, _ = composed(tmp_path)
    repo.point("refs/tags/v1", repo.add({"a.txt": lines((3, "more"))}, base))
    place.lane(source(repo, base, track='{ tag = "v1" }'))
    report = place.lock()
    assert [w.code for w in report.warnings] == ["tag-moved"]
    assert report.lock.sources["kern"].reachable_from == "refs/tags/v1"
    place.lane(source(repo, base, track='{ tag = "v1" }', unreachable='"of r1"'))
    assert place.lock().warnings == ()


def test_a_conflict_leaves_all_as_it_was(tmp_path: Path, place: Place) -> None:
    repo, base, _ = composed(tmp_path)
    repo.pull(8, repo.add({"a.txt": lines((20, "eight"))}, base))
    place.lane(source(repo, base, "{ pull = 7 }", "{ pull = 8 }"))
    with pytest.raises(ImgbuildError) as caught:
        place.lock()
    assert caught.value.exit_code == 5
    assert not place.text("locks/x.lock")
    assert not (place.project.root / "patches").exists()
