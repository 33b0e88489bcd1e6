"""What others published of a source is proven with real git objects."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.cli.findings import lines
from builder.errors import ImgbuildError
from builder.model.lane import Source
from builder.model.values import GitPin
from builder.steps import published
from builder.tools.git_store import Store
from tests.integration.repositories import Repo, quiet

FILES = {
    "CMakeLists.txt": "project(x)\n",
    "csrc/a.cu": "a\n",
    "csrc/ops/b.cu": ("100755", "b\n"),
    "csrc/ops.h": "h\n",
    "csrc/link": ("120000", "ops.h"),
    "csrc/deps": ("160000", "1" * 40),
    "vllm/__init__.py": "\n",
    "vllmx/y": "y\n",
}


def test_the_id_of_every_part_is_gits_own(store: Store, tmp_path: Path) -> None:
    repo = Repo(tmp_path / "x.git")
    commit = repo.commit(FILES)
    store.fetch([GitPin("x", (repo.url,), commit)], say=quiet)
    entries = store.entries(store.commit(commit).tree)
    for path in ("csrc", "csrc/ops", "vllm", "vllmx", "CMakeLists.txt", "csrc/link"):
        assert published.part(entries, path) == repo.git("rev-parse", f"{commit}:{path}")
    assert published.part(entries, "csrc/op") is None


def test_each_thing_that_differs_is_named(store: Store, tmp_path: Path) -> None:
    repo = Repo(tmp_path / "x.git")
    commit = repo.commit(FILES)
    store.fetch([GitPin("x", (repo.url,), commit)], say=quiet)
    tree = store.commit(commit).tree
    file = tmp_path / "x.toml"
    csrc = repo.git("rev-parse", f"{commit}:csrc")
    good = Source("./x", commit=commit, tree=tree, parts={"csrc": csrc}, result_tree="3" * 40)
    published.check("x", good, commit, [tree, "3" * 40], lane=file, store=store)
    bad = Source(
        "./x", commit=commit, tree=tree, parts={"csrc": "1" * 40, "none": csrc},
        result_tree="2" * 40,
    )  # fmt: skip
    file.write_text(
        f'[sources.x]\ncommit = "{commit}"\ntree = "{tree}"\nresult-tree = "{"2" * 40}"\n'
        f'[sources.x.parts]\ncsrc = "{"1" * 40}"\n'
    )
    with pytest.raises(ImgbuildError) as error:
        published.check("x", bad, commit, [tree], lane=file, store=store)
    assert error.value.exit_code == 4
    shown = [line for line in lines(error.value.findings) if not line.startswith("  hint")]
    assert [line.split("x.toml")[-1] for line in shown if "-->" in line] == [":6", ":5", ":4"]
    assert f"csrc of commit {commit:.12} is {csrc:.12}, published was 111111111111" in shown[0]
    with pytest.raises(ImgbuildError, match="holds tree"):
        published.check(
            "x", Source("./x", tree="1" * 40), commit, [tree], lane=file, store=store
        )  # fmt: skip
