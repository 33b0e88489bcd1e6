"""What a lane says of pull requests, and how a conflict is shown."""

from pathlib import Path

from builder.errors import Place
from builder.model.lane import Pull, Source
from builder.model.lock import LockedCompose
from builder.model.merges import MergeConflict
from builder.steps import conflicts, pulls

HEAD, PICKED = "1" * 40, "2" * 40
URL = "https://example.org/kern.git"


def test_wrong_tables() -> None:
    asked = (Pull(7), Pull(7), Pull(0), Pull(8, HEAD, (HEAD,)), Pull(9, HEAD, (PICKED, HEAD)))
    found = [*pulls.wrong("kern", Source(URL, compose=asked))]
    assert [(key[3:], what) for key, what, _ in found] == [
        ((1, "pull"), "kern: pull request 7 is composed twice"),
        ((2, "pull"), "kern: pull request 0 is no number of a pull request"),
        ((4, "commits"), "kern: pull request 9 names commits, which are picked, not merged"),
    ]
    picked = Source(URL, compose=(Pull(9, HEAD, (PICKED,)),), compose_strategy="cherry-pick")
    assert not [*pulls.wrong("kern", picked)]


def test_what_is_merged() -> None:
    assert pulls.merged(LockedCompose(1, HEAD, "merged", HEAD)) == (HEAD,)
    assert pulls.merged(LockedCompose(1, HEAD, "cherry-picked", HEAD, (), (PICKED,))) == (PICKED,)
    assert pulls.merged(LockedCompose(1, HEAD, "already-in-base", HEAD)) == ()


def test_hunks() -> None:
    held = b"a\n<<<<<<< x\nb\nc\n=======\n>>>>>>> y\nd\n<<<<<<< x\n=======\n=======\n>>>>>>> y\n"
    found = [(h.line, h.ours, h.theirs) for h in conflicts.hunks(held)]
    assert found == [(2, ("b", "c"), ()), (5, (), ("=======",))]
    assert not [*conflicts.hunks(b"<<<<<<< \xff never ended\n=======\n")]
    assert not [*conflicts.hunks(b"")]


def test_many_conflicts_are_cut_short() -> None:
    held = b"".join(b"<<<<<<< x\n%d\n=======\n>>>>>>> y\n" % n for n in range(9))
    files = [MergeConflict(f"f{n}", "CONFLICT (contents)", "", held) for n in range(9)]
    found = conflicts.finding("kern", 7, HEAD, [], files, place=Place(Path("x")))
    assert "conflicts with the commit in f0, f1, f2, f3, f4, …" in found.what
    assert "… 6 more conflicts in f0" in found.detail
    assert found.detail.endswith("… 4 more")
    assert len(found.detail.splitlines()) < 90
