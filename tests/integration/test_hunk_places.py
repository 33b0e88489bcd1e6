"""A hunk lands where it was made for, or the patch fails: two functions with one body."""

from __future__ import annotations

import random
import re

from builder.errors import ImgbuildError
from builder.model.patch_sets import PatchOptions
from builder.model.values import GitPin, PatchFile, SourceTree
from builder.steps import hunk_places, patches
from builder.tools import git_env, process
from builder.tools.git_store import Store
from tests.integration.repositories import Repo, quiet

BODY = ["  dim3 grid(n / 256);", "  auto s = stream();", "  int w = warps();", "  int k = 8 * w;",
        "  int m = k + n;", "  check(w);"]  # fmt: skip
CALL = "  set_smem(s);"


def function(name: str, *body: str) -> list[str]:
    return [f"void launch_{name}(int n) {{", *(body or BODY), f"  run_{name}(n);", "}", ""]


def text(*parts: list[str]) -> str:
    return "".join(f"{line}\n" for part in parts for line in part)


CALLED = [*BODY[:3], CALL, *BODY[3:]]
HEAD = ["#include <x>", ""]
FP, BF = function("fp16"), function("bf16")
BEFORE = text(HEAD, FP, BF)
AFTER = text(HEAD, FP, function("bf16", *CALLED))
CHANGED = [*BODY[:5], "  check(w, n);"]  # the context of the hunk, upstream


def diff(repo: Repo, before: str, after: str, *words: str) -> bytes:
    trees = (repo.tree({"k.cu": before}), repo.tree({"k.cu": after}))
    return (repo.git("diff", *words, *trees) + "\n").encode()


def outcome(store: Store, repo: Repo, data: bytes, held: str, **options: bool) -> str:
    """The state of a patch on a file, or what is said of its places."""
    commit = repo.commit({"k.cu": held})
    store.fetch([GitPin("kern", (repo.url,), commit)], say=quiet)
    tree = SourceTree("kern", store.commit(commit).tree)
    one = PatchFile("patches/kern/s/0001-x.patch", "", data, 1, PatchOptions(**options))
    try:
        return patches.apply(tree, [one], store=store).patches[0].state
    except ImgbuildError as error:
        (finding,) = error.findings
        return finding.detail


def test_the_same_body_in_another_function(store: Store, repo: Repo) -> None:
    data = diff(repo, BEFORE, AFTER)
    assert b"@@ void launch_bf16(int n) {" in data
    assert outcome(store, repo, data, BEFORE) == "applied"
    assert outcome(store, repo, data, AFTER) == "already-there"
    only_context = text(HEAD, FP, function("bf16", *CHANGED))
    assert outcome(store, repo, data, only_context) == (
        "k.cu:4 (made for line 14) is below 'void launch_fp16(int n) {', "
        "not below 'void launch_bf16(int n) {'"
    )
    assert outcome(store, repo, data, only_context, moved=True) == "applied"
    taken_by_fp = text(HEAD, function("fp16", *CALLED), function("bf16", *CHANGED))
    assert outcome(store, repo, data, taken_by_fp).endswith("not below 'void launch_bf16(int n) {'")
    taken_by_bf = text(HEAD, FP, function("bf16", *CALLED[:-1], "  check(w, n);"))
    assert "launch_fp16" in outcome(store, repo, data, taken_by_bf)


def test_upstream_took_it_where_the_other_function_would_take_it_again(
    store: Store, repo: Repo
) -> None:
    data = diff(repo, BEFORE, AFTER)
    assert outcome(store, repo, data, text(HEAD, ["int x;"], FP, AFTER.splitlines()[12:])) == (
        "already-there"
    )


def test_a_hunk_that_moved_with_its_function(store: Store, repo: Repo) -> None:
    data = diff(repo, BEFORE, AFTER)
    assert outcome(store, repo, data, text(HEAD, ["int x;"] * 5, FP, BF)) == "applied"
    swapped = outcome(store, repo, data, text(HEAD, BF, FP))  # git would take the nearest
    assert swapped == "k.cu: its lines stand at more than one place: in lines 4, 14"
    twice = text(HEAD, BF, ["namespace b {"], BF)
    assert outcome(store, repo, data, twice) == "k.cu: its lines stand at more than one place: " \
        "in lines 4, 15"  # fmt: skip


def test_without_headings(store: Store, repo: Repo) -> None:
    """What `diff -u` writes: the place is that of its lines, alone and nearest."""
    data = re.sub(rb"^(@@ .* @@).*", rb"\1", diff(repo, BEFORE, AFTER), flags=re.MULTILINE)
    assert outcome(store, repo, data, BEFORE) == "applied"  # the file that it was made from
    foreign = re.sub(rb"^index .*\n", b"", data, flags=re.MULTILINE)
    assert "more than one place" in outcome(store, repo, foreign, BEFORE)
    assert outcome(store, repo, foreign, text(HEAD, ["int x;"], BF)) == "applied"
    only_context = text(HEAD, FP, function("bf16", *CHANGED))
    assert outcome(store, repo, foreign, only_context) == (
        "k.cu:4 (made for line 14): line 14 is nearer, and like what it was made for"
    )


def test_a_merge_settles_the_place(store: Store, repo: Repo) -> None:
    outcome(store, repo, diff(repo, "", BEFORE), BEFORE)  # what it was made from is in the store
    only_context = text(HEAD, FP, function("bf16", *CHANGED))
    data = diff(repo, BEFORE, AFTER, "--full-index")
    assert "not below" in outcome(store, repo, data, only_context)
    short = diff(repo, BEFORE, AFTER)
    assert "not below" in outcome(store, repo, short, only_context, three_way=True)
    found = outcome(store, repo, data, only_context, three_way=True)
    assert found == "applied" or "conflicts" in found


def test_imports_are_no_functions(store: Store, repo: Repo) -> None:
    lines = [f"import {name}" for name in "abcdefghijklmnopqrst"]
    before, after = text(lines), text([*lines[:10], "import zz", *lines[10:]])
    data = diff(repo, before, after)
    assert outcome(store, repo, data, text(["import first"], lines)) == "applied"
    moved = text([*lines[:7], "import other", *lines[7:]])
    assert outcome(store, repo, data, moved) == "applied"


def test_a_place_is_that_of_git(store: Store, repo: Repo) -> None:
    """Random files: what is called certain lies where git puts it; nothing is unknown."""
    chance, certain = random.Random(7), 0
    for _ in range(120):
        lines = [chance.choice(["void f(int n) {", "  a(n);", "  b(n);", "}", f"  c{i};"])
                 for i in range(24)]  # fmt: skip
        wanted = list(lines)
        for at in sorted(chance.sample(range(24), chance.choice([1, 2])), reverse=True):
            wanted[at : at + chance.choice([0, 1])] = chance.choice([[], ["  new(n);"]])
        if wanted == lines:
            continue
        data = diff(repo, text(lines), text(wanted))
        held = list(lines)
        held[chance.randrange(24) : 0] = chance.choice([[], ["  x;"], lines[:9]])
        now = text(held).encode()
        said = _verbose(repo, data, text(held))
        if said is None:
            continue
        found = list(hunk_places.astray(data, strip=1, held={"k.cu": now}.get))
        assert not [one for one in found if "cannot be told" in one.why]
        certain += not found
        moved = re.findall(r"made for line", "".join(one.why for one in found))
        if moved:
            assert "offset" in said
    assert certain > 20


def _verbose(repo: Repo, data: bytes, held: str) -> str | None:
    """What git says of the places; None when the patch does not apply."""
    env = git_env.local(repo.path, GIT_INDEX_FILE=str(repo.path / "index-x"))
    process.run(("git", "read-tree", repo.tree({"k.cu": held})), env=env, timeout_s=60)
    argv = ("git", "apply", "--cached", "--check", "-v", "-")
    done = process.run(argv, env=env, timeout_s=60, stdin=data, check=False)
    return None if done.returncode else done.complaint
