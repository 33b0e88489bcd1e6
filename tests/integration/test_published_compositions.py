"""Compositions that others published, made again from public mirrors on this disk.

IMGBUILD_MIRRORS names a folder of bare repositories, `<owner>+<name>/repo`; nothing of them is
kept here. A mirror lacks large old blobs, so its history is read where it lies instead of being
fetched.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from builder.errors import Place
from builder.model.lane import Pull, Source
from builder.model.lock import Final, LockedSource
from builder.model.values import GitPin
from builder.steps import compose, delta, pulls, replay
from builder.tools import git_quarantine
from builder.tools.files import FileStore
from builder.tools.git_store import Store
from builder.tools.project import ProjectFolder
from tests.integration.repositories import quiet

MIRRORS = Path(os.environ.get("IMGBUILD_MIRRORS", "/work/.mirror"))
LOCKS = Path(__file__).parents[1] / "data/published/integration-locks"
ZERO = "sha256:" + "0" * 64


def mirror(name: str) -> Path:
    path = MIRRORS / name / "repo"
    if not path.is_dir():
        pytest.skip(f"no {path}")
    return path


def borrow(store: Store, repository: Path) -> None:
    """Let the repository's own history be ours."""
    folder = store.history([str(repository)]).git_dir
    git_quarantine.make_bare(folder)
    (folder / "objects/info/alternates").write_text(f"{repository / 'objects'}\n")


def published(component: str) -> list[tuple[str, str, list[tuple[int, str]], str, str | None]]:
    """File, base, pull requests, result tree, sha256 of the result's patch."""
    found = []
    for path in sorted(LOCKS.glob(f"*.{component}.*.json")):
        lock: dict[str, Any] = json.loads(path.read_text())
        heads = [(p["number"], p["head"]) for p in lock["pull_requests"]]
        if "base" in lock:
            result = lock["result"]
            row = (lock["base"]["commit"], heads, result["tree"], result["patch_sha256"])
        else:
            row = (lock["upstream_base"]["commit"], heads, lock["source"]["tree"], None)
        if not lock.get("source_patches"):
            found.append((path.name, *row))
    return found


def test_b12x(tmp_path: Path, store: Store) -> None:
    repository = mirror("local-inference-lab+b12x")
    borrow(store, repository)
    files = FileStore(tmp_path / "cache")
    project = ProjectFolder(tmp_path)
    done: list[tuple[LockedSource, Source, str]] = []
    for name, base, heads, tree, patch in published("b12x"):
        source = Source(str(repository), commit=base, compose=tuple(Pull(*h) for h in heads))
        pinned = GitPin("b12x", (str(repository),), base)
        store.fetch([pinned], say=quiet)
        made = compose.compose(
            pinned, source, pulls.heads(pinned, source, None, store=store),
            lane=Path("x.toml"), store=store, files=files, say=quiet,
        )  # fmt: skip
        assert made.tree == tree, name
        assert patch is None or made.delta == f"sha256:{patch}", name
        info = store.commit(base)
        lock = LockedSource(
            ZERO, source.url, base, info.tree, ZERO, 0, Final(tree, ZERO), made.pulls, made.delta
        )
        done.append((lock, source, tree))
    assert len(done) == 6

    def again() -> float:
        """Seconds to merge all again and to apply their deltas."""
        begun = time.perf_counter()
        for lock, source, tree in done:
            place = Place(Path("locks/x.lock"), key=("sources", "b12x"))
            found = replay.replay(
                "b12x", lock, source,
                place=place, project=project, store=store, files=files, deep=True, say=quiet,
            )  # fmt: skip
            assert (found.tree, found.by_delta) == (tree, ())
            assert lock.delta
            data = delta.read(lock.delta, "x", "b12x", project=project, files=files)
            assert data is not None
            assert delta.apply(lock.tree, data, what="b12x", store=store) == tree
        return time.perf_counter() - begun

    assert min(again() for _ in range(3)) < 2


def test_a_merge_over_two_bases(store: Store) -> None:
    """LMCache da370c2b, whose two parents have two merge bases."""
    repository = mirror("LMCache+LMCache")
    borrow(store, repository)
    urls = (str(repository),)
    ours = GitPin("lmcache", urls, "932655e860cc07b3d68781f6f95241060352f1b9")
    theirs = GitPin("lmcache", urls, "50dcbae69e8388054672864c201cc08d13cb0d75")
    store.fetch([ours], say=quiet)
    history = store.history(urls)
    assert len(history.merge_bases([ours], theirs, say=quiet)) == 2
    merged = history.merge(store.commit(ours.commit).tree, [ours], theirs, say=quiet)
    assert merged.conflicts == ()
    assert merged.tree == "1c2d903eedd8fb911883dc8a7ddb48f9a9472ed7"
    assert store.holds(merged.tree)
