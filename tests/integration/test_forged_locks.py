"""What a hand, or somebody's pull request, writes into a lock: never made good by locking again."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from builder.errors import ImgbuildError
from tests.integration.graphs import graph, lines
from tests.integration.test_lock_compose import Place, composed, source

LOCK = "locks/x.lock"
PATCH = "patches/kern/x.composed.patch"
MAIN = {"track": '{ branch = "main" }'}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "here")


def forge(place: Place, *changes: tuple[str, str]) -> None:
    """Replace each text of the lock, which must stand there."""
    text = place.text(LOCK)
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    place.write(LOCK, text)


def value(place: Place, key: str) -> str:
    found = re.search(rf'^{key} = \[?\s*"([^"]*)"', place.text(LOCK), re.MULTILINE)
    assert found, key
    return found[1]


def codes(place: Place, **how: bool) -> list[str]:
    return [finding.code for finding in place.verify(**how).findings]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda t: "\ufeff" + t,
        lambda t: t.replace('commit = "', 'commit = "x', 1),
        lambda t: t + "\n[sources.other]\n",
        lambda t: t.replace("lock-version = 1", "lock-version = 2"),
        lambda t: t + "\n[",
    ],
)
def test_a_lock_that_cannot_be_read_keeps_its_pins(tmp_path: Path, place: Place, spoil) -> None:  # type: ignore[no-untyped-def]
    repo = graph(tmp_path)
    first = repo.add({"a": "1\n"}, ref="refs/heads/main")
    place.lane(f'[sources.kern]\nurl = "{repo.url}"\ntrack = {{ branch = "main" }}\n')
    place.lock()
    assert value(place, "commit") == first
    repo.add({"a": "2\n"}, first, ref="refs/heads/main")
    good = place.text(LOCK)
    place.write(LOCK, spoil(good))
    with pytest.raises(ImgbuildError) as caught:
        place.lock()
    assert caught.value.exit_code == 3
    assert place.text(LOCK) == spoil(good)
    place.write(LOCK, good)
    assert not place.lock().written


def test_a_merge_base_that_nobody_has(tmp_path: Path, place: Place) -> None:
    """The merge cannot be done again, and the delta, which can be made up, gives the tree."""
    repo, base, head = composed(tmp_path)
    place.lane(source(repo, base, f'{{ pull = 7, head = "{head}" }}', **MAIN))
    place.lock()
    fork = value(place, "merge-base")
    data = place.text(PATCH).replace("+seven\n", "+eight\n")
    place.write(PATCH, re.sub(r"^index .*\n", "", data, flags=re.MULTILINE))
    digest = hashlib.sha256(place.text(PATCH).encode()).hexdigest()
    forged = repo.tree({"a.txt": lines((2, "base"), (20, "eight")), "csrc/k.cu": "k\n"})
    old = {key: value(place, key) for key in ("delta", "content", "tree", "result-tree")}
    forge(
        place, (fork, "ab" * 20), (old["delta"], f"sha256:{digest}"), (old["result-tree"], forged)
    )
    other = place.elsewhere(tmp_path / "there")
    other.lock()  # computes what follows from the result
    assert codes(other) == []  # what it did not look at, it says:
    assert "was not merged again" in other.verify().unchecked[0]
    assert codes(other, deep=True) == ["ancestry"]
    (finding,) = other.verify(deep=True).findings
    assert f"forked off at {fork[:12]}, the lock says abababababab" in finding.what


def test_a_merge_base_that_is_another_commit(tmp_path: Path, place: Place) -> None:
    repo, base, head = composed(tmp_path)
    place.lane(source(repo, base, f'{{ pull = 7, head = "{head}" }}', **MAIN))
    place.lock()
    forge(place, (value(place, "merge-base"), base))  # what the base changed would be taken back
    assert "compose-drift" in codes(place, deep=True)
    taken_back = repo.tree({"a.txt": lines((20, "seven"))})
    forge(place, (value(place, "result-tree"), taken_back))
    other = place.elsewhere(tmp_path / "there")
    other.lock()
    assert codes(other, deep=True) == ["compose-drift"]  # the delta does not give that


def test_a_pull_request_said_to_be_in_the_base(tmp_path: Path, place: Place) -> None:
    repo, base, head = composed(tmp_path)
    place.lane(source(repo, base, f'{{ pull = 7, head = "{head}" }}', **MAIN))
    place.lock()
    text = place.text(LOCK)
    text = re.sub(r"^(delta|merge-base) = .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^merge-base = \[[^\]]*\]\n", "", text, flags=re.MULTILINE)
    text = text.replace('"merged"', '"already-in-base"')
    place.write(LOCK, text.replace(value(place, "result-tree"), value(place, "tree")))
    other = place.elsewhere(tmp_path / "there")
    other.lock()
    assert codes(other) == []
    (finding,) = other.verify(deep=True).findings
    assert finding.code == "ancestry"
    assert f"is not in the base: {head[:12]} is not in its history" in finding.what


def test_a_commit_of_nobody_knows_where(tmp_path: Path, place: Place) -> None:
    """Every server of forks gives it by its id; it lies in a pull request alone."""
    repo, base, head = composed(tmp_path)
    place.lane(f'[sources.kern]\nurl = "{repo.url}"\ntrack = {{ branch = "main" }}\n')
    place.lock()
    forge(place, (base, head))
    with pytest.raises(ImgbuildError) as caught:
        place.lock()  # does not fill in the rest
    assert {f.code for f in caught.value.findings} == {"lock-edited"}
    assert "git checkout -- locks/x.lock" in caught.value.findings[0].hint
    elsewhere = Place(tmp_path / "there")
    elsewhere.lane(f'[sources.kern]\nurl = "{repo.url}"\ntrack = {{ branch = "main" }}\n')
    repo.point("refs/heads/main", head)
    elsewhere.lock()
    repo.point("refs/heads/main", base)
    place.write(LOCK, elsewhere.text(LOCK))  # whole, and right in itself
    assert codes(place) == []
    assert codes(place, deep=True) == ["imposter-commit"]


def test_a_ref_that_the_lane_does_not_track(tmp_path: Path, place: Place) -> None:
    repo, base, _ = composed(tmp_path)
    place.lane(source(repo, base, **MAIN))
    place.lock()
    forge(place, ("refs/heads/main", "refs/heads/bogus"))
    assert codes(place) == ["lock-outdated"]
    assert place.lock().lock.sources["kern"].reachable_from == "refs/heads/main"


@pytest.mark.parametrize("url", ["./repos/other", "https://example.invalid/inner.git"])
def test_a_submodule_from_somewhere_else(tmp_path: Path, place: Place, url: str) -> None:
    inner, repo = graph(tmp_path, "inner"), graph(tmp_path)
    held = inner.add({"x.h": "x\n"}, ref="refs/heads/main")
    modules = {".gitmodules": '[submodule "i"]\n\tpath = sub\n\turl = ../inner.git\n'}
    base = repo.add({"a": "a\n", "sub": ("160000", held), **modules}, ref="refs/heads/main")
    place.lane(source(repo, base, **MAIN))
    place.lock()
    forge(place, (value(place, "url"), value(place, "url")))
    text = place.text(LOCK)
    start = text.index("[sources.kern.submodules.sub]")
    place.write(LOCK, text[:start] + re.sub(r'url = ".*"', f'url = "{url}"', text[start:], count=1))
    (finding,) = place.verify().findings
    assert finding.code == "tree-mismatch"
    assert f"the lock says {url}" in finding.what
    with pytest.raises(ImgbuildError) as caught:
        place.lock()
    assert caught.value.findings[0].code == "lock-edited"


def test_a_parent_that_a_picked_commit_does_not_have(tmp_path: Path, place: Place) -> None:
    repo, base, head = composed(tmp_path)
    pull = f'{{ pull = 7, head = "{head}", commits = ["{head}"] }}'
    place.lane(source(repo, base, pull, compose_strategy='"cherry-pick"', **MAIN))
    place.lock()
    assert codes(place, deep=True) == []
    forge(place, (value(place, "merge-base"), base))
    (finding,) = place.verify(deep=True).findings
    assert "is not the parent of the picked commit" in finding.what


def test_what_could_not_be_told_is_asked_again(tmp_path: Path, place: Place) -> None:
    repo, base, _ = composed(tmp_path)
    place.lane(source(repo, base, track='{ branch = "later" }'))
    assert [w.code for w in place.lock().warnings] == ["reach-unknown"]
    repo.point("refs/heads/later", base)
    report = place.lock()
    assert report.warnings == ()
    assert report.lock.sources["kern"].reachable_from == "refs/heads/later"


def flipped(lock: str, key: str, nth: int = 0) -> str:
    """The lock with one digit changed of the nth value of this key."""
    found = [*re.finditer(rf'^ *{key} = "(?:sha256:)?([0-9a-f]+)"', lock, re.MULTILINE)][nth]
    at = found.start(1)
    return f"{lock[:at]}{'1' if lock[at] != '1' else '2'}{lock[at + 1 :]}"


@pytest.mark.parametrize(
    ("key", "nth"),
    [("tree", 0), ("tree", 1), ("tree", 2), ("content", 1), ("result-tree", 0), ("result-tree", 1),
     ("commit", 1)],
)  # fmt: skip
def test_no_hint_for_an_edited_lock_moves_a_pin(
    tmp_path: Path, place: Place, key: str, nth: int
) -> None:
    """One digit of a value that imgbuild computed itself: the cure is git's, or to compute it."""
    inner, repo = graph(tmp_path, "inner"), graph(tmp_path)
    held = inner.add({"x.h": "x\n"}, ref="refs/heads/main")
    sub = {
        ".gitmodules": '[submodule "i"]\n\tpath = sub\n\turl = ../inner.git\n',
        "sub": ("160000", held),
    }
    start = repo.add({"a.txt": lines(), **sub}, ref="refs/heads/main")
    repo.pull(7, repo.add({"a.txt": lines((20, "seven")), **sub}, start))
    diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-line 1\n+one\n line 2\n"
    place.write("patches/kern/gb10/series", "one.patch\n")
    place.write("patches/kern/gb10/one.patch", diff)
    keys = 'track = { branch = "main" }\ncompose = [{ pull = 7 }]\npatches = ["kern/gb10"]\n'
    place.lane(f'[sources.kern]\nurl = "{repo.url}"\n{keys}')
    place.lock()
    good = place.text(LOCK)
    repo.add({"a.txt": lines((11, "moved")), **sub}, start, ref="refs/heads/main")
    place.write(LOCK, flipped(good, key, nth))
    said = [*place.verify().findings]
    assert said
    try:
        place.lock()
        assert place.text(LOCK) == good  # computed anew, from the same pins
    except ImgbuildError as refused:
        assert place.text(LOCK) != good
        said += refused.findings
    for finding in said:
        restores, _, otherwise = finding.hint.partition("; otherwise ")
        assert "--update" not in restores
        assert "git checkout -- locks/x.lock" in restores or "imgbuild lock x" in restores
        assert not otherwise or finding.code == "source-unavailable"  # or the world lost it


def test_an_edited_tree_of_a_composed_source_is_an_edited_lock(
    tmp_path: Path, place: Place
) -> None:
    repo, base, head = composed(tmp_path)
    place.lane(source(repo, base, f'{{ pull = 7, head = "{head}" }}', **MAIN))
    place.lock()
    place.write(LOCK, flipped(place.text(LOCK), "tree"))
    with pytest.raises(ImgbuildError) as caught:
        place.lock()
    assert [f.code for f in caught.value.findings] == ["lock-edited"]
    assert "git checkout -- locks/x.lock" in caught.value.findings[0].hint
