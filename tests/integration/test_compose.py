"""Compositions with real git: locked once with history, replayed without."""

import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from builder.errors import ImgbuildError, Place
from builder.model.lane import Pull, Source
from builder.model.lock import Final, LockedCompose, LockedSource
from builder.model.merges import ComposedTree
from builder.model.values import GitPin
from builder.steps import compose, delta, pulls, replay
from builder.steps.compose import ComposeImpossible
from builder.steps.conflicts import ComposeConflict
from builder.steps.replay import ComposeDrift, ComposeUnavailable
from builder.tools.files import FileStore
from builder.tools.git_store import Store
from builder.tools.project import ProjectFolder
from tests.integration.graphs import Graph, crossed, graph, lines
from tests.integration.repositories import quiet

LANE = Path("locks/x.toml")
PLACE = Place(Path("locks/x.lock"), key=("sources", "kern"))
ZERO = "sha256:" + "0" * 64


class Bench:
    """A cache of its own, and the steps with it."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder / "cache")
        self.files = FileStore(folder / "cache")
        self.project = ProjectFolder(folder / "project")

    def compose(self, source: Source) -> ComposedTree:
        assert source.commit
        pinned = GitPin("kern", (source.url,), source.commit, source.track.ref)
        self.store.fetch([pinned], say=quiet)
        heads = pulls.heads(pinned, source, None, store=self.store)
        return compose.compose(
            pinned, source, heads, lane=LANE, store=self.store, files=self.files, say=quiet
        )

    def replay(self, locked: LockedSource, source: Source, *, deep: bool = False) -> ComposedTree:
        with_base = GitPin("kern", (source.url,), locked.commit)
        self.store.fetch([with_base], say=quiet)
        replay.bring(
            "kern", locked, source,
            root=Path("/"), store=self.store, files=self.files, say=quiet,
        )  # fmt: skip
        return replay.replay(
            "kern", locked, source, place=PLACE, project=self.project, store=self.store,
            files=self.files, deep=deep, say=quiet,
        )  # fmt: skip


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Bench]:
    """Another machine."""
    made = Bench(tmp_path / "elsewhere")
    yield made
    made.store.close()


def wanted(repo: Graph, base: str, *heads: str, cherry: bool = False) -> Source:
    compose = tuple(Pull(i, head) for i, head in enumerate(heads, 1))
    for i, head in enumerate(heads, 1):
        repo.pull(i, head)
    return Source(
        repo.url, commit=base, compose=compose,
        compose_strategy="cherry-pick" if cherry else "merge",
    )  # fmt: skip


def locked(repo: Graph, base: str, done: ComposedTree) -> LockedSource:
    return LockedSource(
        ZERO, repo.url, base, repo.tree_of(base), ZERO, 0, Final(done.tree, ZERO),
        done.pulls, done.delta,
    )  # fmt: skip


def test_two_pull_requests(tmp_path: Path, bench: Bench) -> None:
    repo = graph(tmp_path)
    start = repo.add({"a.txt": lines(), "old/b.txt": lines(count=20)}, ref="refs/heads/main")
    base = repo.add({"a.txt": lines((2, "base")), "old/b.txt": lines(count=20)}, start)
    one = repo.add({"a.txt": lines((20, "one")), "new/b.txt": lines(count=20)}, start)
    two = repo.add({"a.txt": lines((38, "two")), "old/b.txt": lines((9, "two"), count=20)}, start)
    source = wanted(repo, base, one, two)
    done = bench.compose(source)
    assert done.tree == repo.merged(base, one, two) == "9c65e008ea346b44ec864538e2e62e7ad5c3ee96"
    assert [(p.pull, p.disposition, p.merge_base) for p in done.pulls] == [
        (1, "merged", (start,)), (2, "merged", (start,)),
    ]  # fmt: skip
    again = bench.replay(locked(repo, base, done), source)
    assert (again.tree, again.by_delta) == (done.tree, ())
    assert bench.replay(locked(repo, base, done), source, deep=True).tree == done.tree


def test_a_pull_request_on_top_of_another(tmp_path: Path, bench: Bench) -> None:
    repo = graph(tmp_path)
    start = repo.add({"a.txt": lines()}, ref="refs/heads/main")
    base = repo.add({"a.txt": lines((2, "base"))}, start)
    one = repo.add({"a.txt": lines((20, "one"))}, start)
    two = repo.add({"a.txt": lines((20, "two"))}, one)
    done = bench.compose(wanted(repo, base, one, two))
    assert done.tree == repo.tree({"a.txt": lines((2, "base"), (20, "two"))})
    assert done.pulls[1].merge_base == (one,)


def test_already_in_base(tmp_path: Path, bench: Bench) -> None:
    repo = graph(tmp_path)
    start = repo.add({"a.txt": lines()}, ref="refs/heads/main")
    one = repo.add({"a.txt": lines((20, "one"))}, start)
    base = repo.add({"a.txt": lines((2, "base"), (20, "one"))}, start, one)
    two = repo.add({"a.txt": lines((38, "two"))}, start)
    source = wanted(repo, base, one, two)
    done = bench.compose(source)
    assert [p.disposition for p in done.pulls] == ["already-in-base", "merged"]
    assert done.pulls[0] == LockedCompose(1, one, "already-in-base", repo.tree_of(base))
    assert bench.replay(locked(repo, base, done), source, deep=True).tree == done.tree


def test_two_merge_bases(tmp_path: Path, bench: Bench, elsewhere: Bench) -> None:
    repo = graph(tmp_path)
    base, head = crossed(repo)
    repo.point("refs/heads/main", base)
    source = wanted(repo, base, head)
    done = bench.compose(source)
    assert done.tree == repo.merged(base, head)
    assert (done.pulls[0].with_history, len(done.pulls[0].merge_base)) == (True, 2)
    lock = locked(repo, base, done)
    # without history: by the delta; deep, or without a delta: the history is fetched
    delta.publish("x", {"kern": lock}, project=elsewhere.project, files=bench.files)
    assert elsewhere.replay(lock, source).by_delta == (1,)
    assert elsewhere.replay(lock, source, deep=True).by_delta == ()
    third = Bench(tmp_path / "third")
    assert third.replay(lock, source).by_delta == ()
    third.store.close()


def test_two_bases_behind_another_pull_request(tmp_path: Path, bench: Bench) -> None:
    repo = graph(tmp_path)
    base, head = crossed(repo)
    repo.point("refs/heads/main", base)
    other = repo.add({"a.txt": repo.git("show", f"{base}:a.txt") + "\n", "b": "1\n"}, base)
    done = bench.compose(wanted(repo, base, other, head))
    assert done.tree == repo.merged(base, other, head)
    # all of the result is in the store itself
    assert {e.path for e in bench.store.entries(done.tree)} == {"a.txt", "b"}
    assert [*bench.store.stream([e.object for e in bench.store.entries(done.tree)])]


CONFLICT = """\
a.txt:20
  - composed:
    one
  + pull request:
    two \\x1b]52;c;eA==\\x07
a.txt:29
  - composed:
    line 29
    thirty
  + pull request: (nothing)
CONFLICT (modify/delete): gone.txt deleted in the pull request and modified in what was composed."""


def test_a_conflict(tmp_path: Path, bench: Bench) -> None:
    repo = graph(tmp_path)
    start = repo.add({"a.txt": lines(), "gone.txt": "x\n"}, ref="refs/heads/main")
    one = repo.add({"a.txt": lines((20, "one"), (30, "thirty")), "gone.txt": "y\n"}, start)
    bad = lines((20, "two \x1b]52;c;eA==\x07")).replace("line 29\nline 30\n", "")
    two = repo.add({"a.txt": bad}, start)
    with pytest.raises(ComposeConflict) as caught:
        bench.compose(wanted(repo, start, one, two))
    found = caught.value.findings[0]
    assert found.what == (
        f"kern: pull request 2 (head {two[:12]}) conflicts with the commit and pull request 1 "
        "in a.txt, gone.txt"
    )
    assert found.place == Place(LANE, key=("sources", "kern", "compose", 1))
    assert found.detail == CONFLICT
    assert "put it at another place in compose" in found.hint


def test_a_conflict_of_renames(tmp_path: Path, bench: Bench) -> None:
    repo = graph(tmp_path)
    start = repo.add({"a.txt": lines()}, ref="refs/heads/main")
    base = repo.add({"b.txt": lines()}, start)
    head = repo.add({"c.txt": lines()}, start)
    with pytest.raises(ComposeConflict) as caught:
        bench.compose(wanted(repo, base, head))
    assert "CONFLICT (rename/rename)" in caught.value.findings[0].detail


def test_nothing_in_common(tmp_path: Path, bench: Bench) -> None:
    repo = graph(tmp_path)
    base, head = repo.add({"a": "1\n"}, ref="refs/heads/main"), repo.add({"b": "2\n"})
    with pytest.raises(ComposeImpossible, match="no history in common"):
        bench.compose(wanted(repo, base, head))


def test_cherry_pick(tmp_path: Path, bench: Bench) -> None:
    repo = graph(tmp_path)
    start = repo.add({"a.txt": lines()}, ref="refs/heads/main")
    base = repo.add({"a.txt": lines((2, "base"))}, start)
    first = repo.add({"a.txt": lines((10, "first"))}, start)
    left_out = repo.add({"a.txt": lines((10, "first"), (20, "left out"))}, first)
    last = repo.add({"a.txt": lines((10, "first"), (20, "left out"), (30, "last"))}, left_out)
    source = wanted(repo, base, last, cherry=True)
    source = replace(source, compose=(Pull(1, last, (first, last)),))
    done = bench.compose(source)
    assert done.tree == repo.tree({"a.txt": lines((2, "base"), (10, "first"), (30, "last"))})
    assert done.pulls == (
        LockedCompose(1, last, "cherry-picked", done.tree, (start, left_out), (first, last)),
    )
    assert bench.replay(locked(repo, base, done), source, deep=True).tree == done.tree
    merge = repo.add({"a.txt": lines((2, "base"), (10, "first"))}, base, first)
    with pytest.raises(ComposeImpossible, match="is a merge, and cannot be picked"):
        bench.compose(wanted(repo, start, merge, cherry=True))


def test_a_head_that_is_gone(tmp_path: Path, bench: Bench, elsewhere: Bench) -> None:
    repo = graph(tmp_path)
    start = repo.add({"a.txt": lines(), "x.bin": bytes(range(256))}, ref="refs/heads/main")
    files = {"a.txt": lines((9, "x")), "y.bin": bytes(range(255, -1, -1)), "l": ("120000", "a.txt")}
    head = repo.add({**files, "run": ("100755", "#!/bin/sh\n")}, start)
    source = wanted(repo, start, head)
    done = bench.compose(source)
    lock = locked(repo, start, done)
    repo.forget("refs/pull/1/head")
    assert bench.replay(lock, source).by_delta == ()  # this machine has merged it
    with pytest.raises(ComposeUnavailable) as caught:
        elsewhere.replay(lock, source)
    assert "patches/kern/x.composed.patch is not the locked delta" in str(caught.value)
    delta.publish("x", {"kern": lock}, project=elsewhere.project, files=bench.files)
    again = elsewhere.replay(lock, source)
    assert (again.tree, again.by_delta) == (done.tree, (1,))
    place = elsewhere.project.root / "patches/kern/x.composed.patch"
    place.write_bytes(place.read_bytes() + b"\n")
    with pytest.raises(ComposeUnavailable):
        elsewhere.replay(lock, source)


def test_a_lock_that_lies(tmp_path: Path, bench: Bench, elsewhere: Bench) -> None:
    repo = graph(tmp_path)
    start = repo.add({"a.txt": lines()}, ref="refs/heads/main")
    head = repo.add({"a.txt": lines((9, "x"))}, start)
    bad = repo.add({"a.txt": lines((9, "x"), (10, "backdoor"))}, start)
    source = wanted(repo, start, head)
    done = bench.compose(source)
    other = bench.compose(wanted(repo, start, bad))
    honest = locked(repo, start, done)
    lie = (replace(done.pulls[0], result_tree=other.tree),)
    lock = replace(honest, compose=lie, delta=other.delta)
    wanted(repo, start, head)  # the ref names the good head again
    with pytest.raises(ComposeDrift) as caught:
        elsewhere.replay(lock, source)
    assert caught.value.findings[0].place == Place(
        PLACE.file, key=("sources", "kern", "compose", 0, "result-tree")
    )
    repo.forget("refs/pull/1/head")
    third = Bench(tmp_path / "third")
    delta.publish("x", {"kern": honest}, project=third.project, files=bench.files)
    with pytest.raises(ComposeDrift, match="the delta gives tree"):
        third.replay(replace(lock, delta=honest.delta), source)
    third.store.close()


def test_heads(tmp_path: Path, bench: Bench) -> None:
    repo = graph(tmp_path)
    start = repo.add({"a.txt": lines()}, ref="refs/heads/main")
    old = repo.pull(7, repo.add({"a.txt": lines((9, "x"))}, start))
    pinned = GitPin("kern", (repo.url,), start)
    source = Source(repo.url, commit=start, compose=(Pull(7),))
    assert [h.commit for h in pulls.heads(pinned, source, None, store=bench.store)] == [old]
    lock = locked(repo, start, bench.compose(source))
    new = repo.pull(7, repo.add({"a.txt": lines((8, "x"))}, start))
    assert [h.commit for h in pulls.heads(pinned, source, lock, store=bench.store)] == [old]
    assert [h.commit for h in pulls.heads(pinned, source, None, store=bench.store)] == [new]
    at_old = replace(source, compose=(Pull(7, old),))
    (warning,) = pulls.moved(pinned, at_old, lane=LANE, store=bench.store)
    assert (warning.level, warning.code) == ("warning", "head-moved")
    assert f"its head is {new[:12]} now, the lane says {old[:12]}" in warning.what
    assert not [*pulls.moved(pinned, source, lane=LANE, store=bench.store)]
    repo.git("update-ref", "-d", "refs/pull/7/head")
    (gone,) = pulls.moved(pinned, at_old, lane=LANE, store=bench.store)
    assert "refs/pull/7/head is not there any more" in gone.what


def test_no_driver_and_no_setting_acts(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = tmp_path / "canary"
    driver = tmp_path / "driver"
    driver.write_text(f"#!/bin/sh\ntouch {canary}\n")
    driver.chmod(driver.stat().st_mode | stat.S_IXUSR)
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        f'[merge "evil"]\n\tdriver = {driver} %A\n'
        "[merge]\n\trenames = false\n\tconflictStyle = diff3\n"
        f'[diff "evil"]\n\tcommand = {driver}\n\ttextconv = {driver}\n'
        f"[diff]\n\texternal = {driver}\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(driver))
    repo = graph(tmp_path)
    says = {".gitattributes": "* merge=evil diff=evil\na.txt merge=union\n"}
    start = repo.add({"a.txt": lines(), "old.txt": lines(count=9), **says}, ref="refs/heads/main")
    base = repo.add({"a.txt": lines((2, "b")), "new.txt": lines(count=9), **says}, start)
    head = repo.add({"a.txt": lines((20, "h")), "old.txt": lines((3, "h"), count=9), **says}, start)
    done = bench.compose(wanted(repo, base, head))
    assert done.tree == repo.tree(
        {"a.txt": lines((2, "b"), (20, "h")), "new.txt": lines((3, "h"), count=9), **says}
    )
    clash = repo.add({"a.txt": lines((2, "c")), "old.txt": lines(count=9), **says}, start)
    with pytest.raises(ComposeConflict) as caught:  # merge=union would have hidden it
        bench.compose(wanted(repo, base, clash))
    assert "|||||||" not in caught.value.findings[0].detail
    assert not canary.exists()


def test_an_empty_delta(tmp_path: Path, bench: Bench) -> None:
    repo = graph(tmp_path)
    start = repo.add({"a.txt": lines()}, ref="refs/heads/main")
    one = repo.add({"a.txt": lines((20, "same"))}, start)
    base = repo.add({"a.txt": lines((20, "same"))}, start)
    done = bench.compose(wanted(repo, base, one))
    assert done.tree == repo.tree_of(base)
    assert done.delta is not None
    assert done.delta.endswith("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    assert delta.apply(done.tree, b"", what="", store=bench.store) == done.tree


def test_the_cache_lies_where_colons_are(tmp_path: Path) -> None:
    repo = graph(tmp_path)
    start = repo.add({"a.txt": lines()}, ref="refs/heads/main")
    head = repo.add({"a.txt": lines((20, "one"))}, start)
    odd = Bench(tmp_path / 'a:b "c"')
    assert odd.compose(wanted(repo, start, head)).tree == repo.tree_of(head)
    odd.store.close()
    assert os.sep in str(odd.store.git_dir)


def test_errors_are_of_their_families() -> None:
    kinds: list[type[ImgbuildError]] = [ComposeConflict, ComposeDrift, ComposeUnavailable]
    assert [kind.exit_code for kind in kinds] == [5, 5, 4]
