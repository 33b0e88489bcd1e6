"""Conditions, merges, binary content and text edits, in the object database of a real git."""

from __future__ import annotations

import pytest

from builder.model.patch_sets import Condition, PatchOptions, TextEdit
from builder.model.values import GitPin, PatchFile, SourceTree
from builder.steps import patches
from builder.tools.git_store import Store
from tests.integration.repositories import Content, Repo, quiet

LINES = "".join(f"line {n}\n" for n in range(1, 21))


def source(store: Store, repo: Repo, files: dict[str, Content]) -> SourceTree:
    commit = repo.commit(files)
    store.fetch([GitPin("kern", (repo.url,), commit)], say=quiet)
    return SourceTree("kern", store.commit(commit).tree)


def diff(repo: Repo, before: dict[str, Content], after: dict[str, Content]) -> bytes:
    words = ("diff", "--binary", "--full-index", repo.tree(before), repo.tree(after))
    return (repo.git(*words) + "\n").encode()


def patch(data: bytes, options: PatchOptions | None = None, *edits: TextEdit) -> PatchFile:
    name = "0001-x.edits" if edits else "0001-x.patch"
    return PatchFile(f"patches/kern/s/{name}", "", data, 1, options or PatchOptions(), edits)


def state(store: Store, tree: SourceTree, *found: PatchFile) -> list[str]:
    return [r.state for r in patches.apply(tree, found, store=store).patches]


def test_conditions(store: Store, repo: Repo) -> None:
    files: dict[str, Content] = {"a.cu": LINES, "b.h": "FIXED_UPSTREAM\n"}
    tree = source(store, repo, files)
    data = diff(repo, {"a.cu": LINES}, {"a.cu": LINES.replace("line 5\n", "LINE 5\n")})

    def of(**options: Condition) -> list[str]:
        return state(store, tree, patch(data, PatchOptions(**options)))

    assert of() == ["applied"]
    assert of(obsolete_if=Condition("b.h", holds="FIXED_UPSTREAM")) == ["obsolete"]
    assert of(obsolete_if=Condition("b.h", holds="NOT_YET")) == ["applied"]
    assert of(obsolete_if=Condition("gone.h", lacks="X")) == ["obsolete"]
    assert of(when=Condition("b.h", lacks="FIXED_UPSTREAM")) == ["obsolete"]
    assert of(when=Condition("gone.h", absent=True)) == ["applied"]
    assert of(when=Condition("a.cu", absent=True)) == ["obsolete"]


def test_a_condition_sees_what_earlier_patches_made(store: Store, repo: Repo) -> None:
    tree = source(store, repo, {"a.cu": LINES})
    first = patch(diff(repo, {"a.cu": LINES}, {"a.cu": LINES, "mark": "M\n"}))
    data = diff(repo, {"a.cu": LINES}, {"a.cu": LINES + "more\n"})
    second = patch(data, PatchOptions(when=Condition("mark", holds="M")))
    assert state(store, tree, first, second) == ["applied", "applied"]
    assert state(store, tree, second, first) == ["obsolete", "applied"]


def test_a_merge_only_where_it_is_declared(store: Store, repo: Repo) -> None:
    source(store, repo, {"a.cu": LINES})  # what the patch was made from is in the store
    data = diff(repo, {"a.cu": LINES}, {"a.cu": LINES.replace("line 5\n", "LINE 5\n")})
    moved = LINES.replace("line 3\n", "line three\n")  # in the patch's context
    tree = source(store, repo, {"a.cu": moved})
    with pytest.raises(patches.PatchFailed):
        state(store, tree, patch(data))
    done = patches.apply(tree, [patch(data, PatchOptions(three_way=True))], store=store)
    assert done.patches[0].state == "applied"
    assert store.blob(done.source.tree, "a.cu") == moved.replace("line 5", "LINE 5").encode()

    torn = source(store, repo, {"a.cu": LINES.replace("line 5\n", "line five\n"), "b": "b\n"})
    also = patch(diff(repo, {"b": "b\n"}, {"b": "B\n"}))
    found, failed = patches.examine(
        torn, [patch(data, PatchOptions(three_way=True)), also], store=store
    )
    assert "with conflicts" in failed[0].finding.detail
    assert [r.state for r in found.patches] == ["applied"]
    assert (store.blob(found.source.tree, "a.cu") or b"").count(b"<<<") == 0


def test_a_merge_without_what_the_patch_was_made_from(store: Store, repo: Repo) -> None:
    data = diff(repo, {"a.cu": LINES}, {"a.cu": LINES.replace("line 5\n", "LINE 5\n")})
    tree = source(store, repo, {"a.cu": LINES.replace("line 4\n", "line four\n")})
    with pytest.raises(patches.PatchFailed) as caught:
        state(store, tree, patch(data, PatchOptions(three_way=True)))
    assert "imgbuild patch refresh" in caught.value.findings[0].hint


def test_binary_patches(store: Store, repo: Repo) -> None:
    before, after = bytes(range(256)), bytes(range(255, -1, -1))
    data = diff(repo, {"x.bin": before}, {"x.bin": after, "y.bin": b"\0\1"})
    assert b"GIT binary patch" in data
    tree = source(store, repo, {"x.bin": before})
    done = patches.apply(tree, [patch(data)], store=store)
    assert store.blob(done.source.tree, "x.bin") == after
    assert state(store, done.source, patch(data)) == ["already-there"]
    other = source(store, repo, {"x.bin": b"\0other"})
    with pytest.raises(patches.PatchFailed):
        state(store, other, patch(data))


def test_text_edits(store: Store, repo: Repo) -> None:
    tree = source(store, repo, {"run.sh": ("100755", "blocks=32\n"), "a.cu": LINES})
    edits = (TextEdit("run.sh", "=32", "=48"), TextEdit("a.cu", "line 1", "LINE 1", 11))
    done = patches.apply(tree, [patch(b"", None, *edits)], store=store)
    modes = {e.path: e.mode for e in store.entries(done.source.tree)}
    assert modes == {"a.cu": "100644", "run.sh": "100755"}
    assert store.blob(done.source.tree, "run.sh") == b"blocks=48\n"
    assert state(store, done.source, patch(b"", None, *edits)) == ["already-there"]
    wrong = patch(b"", None, edits[0], TextEdit("a.cu", "line 1", "x", 2))
    with pytest.raises(patches.PatchFailed) as caught:
        state(store, tree, wrong)
    assert caught.value.findings[0].detail.splitlines()[:3] == [
        "a.cu holds 'line 1' 11 times, not 2", "a.cu holds there:", "     1  line 1",
    ]  # fmt: skip


def test_a_text_edit_does_not_follow_a_symlink(store: Store, repo: Repo) -> None:
    tree = source(store, repo, {"a.cu": LINES, "link": ("120000", "a.cu")})
    with pytest.raises(patches.PatchFailed) as caught:
        state(store, tree, patch(b"", None, TextEdit("link", "line 1", "x", 11)))
    assert caught.value.findings[0].detail.startswith(
        "link is a symlink: name the file that it leads to"
    )
