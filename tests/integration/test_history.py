"""Merge bases, ranges and reachability, from histories that are fetched step by step."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder.errors import SourceError
from builder.model.values import GitPin
from builder.tools import git_deepen
from builder.tools.git_store import Store
from tests.integration.graphs import Graph, crossed, graph, lines, many
from tests.integration.repositories import quiet


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "cache")
    store._prepare()
    yield store
    store.close()


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_deepen, "_DEPTHS", (1, 2, 4, 8, 16, git_deepen.WHOLE))
    monkeypatch.setattr("builder.tools.git_history.BOUND", 16)


def pin(repo: Graph, commit: str, ref: str | None = None) -> GitPin:
    return GitPin("kern", (repo.url,), commit, ref)


def depth(store: Store, repo: Graph) -> int:
    return int((store.history([repo.url]).git_dir / "imgbuild-deep").read_text())


def test_one_base_behind_a_long_line(tmp_path: Path, store: Store) -> None:
    repo = graph(tmp_path)
    start = repo.add({"a.txt": lines()}, ref="refs/heads/main")
    base = many(repo, 6, start)
    head = repo.add({"a.txt": lines((3, "x"))}, start)
    history = store.history([repo.url])
    assert history.merge_bases([pin(repo, base)], pin(repo, head), say=quiet) == (start,)
    assert depth(store, repo) == 8
    repo.path.rename(tmp_path / "away")  # what is known is not asked again
    assert history.merge_bases([pin(repo, base)], pin(repo, head), say=quiet) == (start,)


def test_two_bases(tmp_path: Path, store: Store) -> None:
    repo = graph(tmp_path)
    base, head = crossed(repo)
    true = set(repo.git("merge-base", "--all", base, head).split())
    found = store.history([repo.url]).merge_bases([pin(repo, base)], pin(repo, head), say=quiet)
    assert len(found) == 2
    assert set(found) == true


def test_nothing_in_common(tmp_path: Path, store: Store) -> None:
    repo = graph(tmp_path)
    one, other = repo.add({"a": "1\n"}), repo.add({"b": "2\n"})
    assert (
        store.history([repo.url]).merge_bases([pin(repo, one)], pin(repo, other), say=quiet) == ()
    )


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_give_the_true_bases(tmp_path: Path, store: Store, seed: int) -> None:
    rng = random.Random(seed)
    repo = graph(tmp_path)
    commits = [repo.add({"n": "0\n"})]
    for number in range(1, 28):
        recent = commits[-6:]
        parents = rng.sample(recent, min(len(recent), rng.choice((1, 1, 2, 2, 3))))
        commits.append(repo.add({"n": f"{number}\n"}, *parents))
    history = store.history([repo.url])
    for _ in range(4):
        theirs, *ours = rng.sample(commits[-9:], rng.choice((2, 3)))
        true = repo.git("merge-base", "--all", theirs, *ours).split()
        found = history.merge_bases([pin(repo, c) for c in ours], pin(repo, theirs), say=quiet)
        assert set(found) == set(true)


def test_by_ref_where_ids_are_refused(tmp_path: Path, store: Store) -> None:
    repo = graph(tmp_path)
    start = repo.add({"a.txt": lines()}, ref="refs/heads/main")
    head = repo.pull(7, repo.add({"a.txt": lines((3, "x"))}, start))
    repo.git("config", "protocol.version", "0")
    history = store.history([repo.url])
    found = history.merge_bases(
        [pin(repo, start, "refs/heads/main")], pin(repo, head, "refs/pull/7/head"), say=quiet
    )
    assert found == (start,)


def test_a_head_that_is_gone_says_so(tmp_path: Path, store: Store) -> None:
    repo = graph(tmp_path)
    start = repo.add({"a.txt": lines()}, ref="refs/heads/main")
    with pytest.raises(SourceError, match="history of 111111111111 cannot be had"):
        store.history([repo.url]).merge_bases(
            [pin(repo, start)], pin(repo, "1" * 40, "refs/pull/7/head"), say=quiet
        )


def test_reaches(tmp_path: Path, store: Store) -> None:
    repo = graph(tmp_path)
    start = repo.add({"a.txt": lines()})
    tip = many(repo, 5, start)
    other = repo.add({"b": "1\n"}, start)
    history = store.history([repo.url])
    assert history.reaches(pin(repo, tip), tip, say=quiet) is True
    assert history.reaches(pin(repo, tip), start, say=quiet) is True
    assert history.reaches(pin(repo, tip), other, say=quiet) is False
    far = many(repo, 30, tip)
    assert history.reaches(pin(repo, far), start, say=quiet) in (True, None)
    fresh = Store(tmp_path / "fresh")
    fresh._prepare()
    assert fresh.history([repo.url]).reaches(pin(repo, far), start, say=quiet) is None
    fresh.close()


def test_commits_between(tmp_path: Path, store: Store) -> None:
    repo = graph(tmp_path)
    start = repo.add({"a.txt": lines()})
    old = repo.add({"a.txt": lines((1, "x"))}, start)
    new = repo.add({"a.txt": lines((2, "y"))}, many(repo, 3, old), says="Speak \x1b]52;c;x\x07 up")
    found = store.history([repo.url]).commits(pin(repo, old), pin(repo, new), limit=2, say=quiet)
    assert (found.count, found.complete, found.rewritten) == (4, True, False)
    assert [c.commit for c in found.commits] == repo.git("rev-list", "-2", new).split()
    assert found.commits[0].author == "A. Author <author@example.invalid>"
    other = repo.add({"a.txt": "z\n"}, start)
    found = store.history([repo.url]).commits(pin(repo, old), pin(repo, other), limit=9, say=quiet)
    assert (found.count, found.complete, found.rewritten) == (1, True, True)
