"""`lock` tells the faults of independent sources together."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.errors import ImgbuildError
from tests.integration.repositories import Repo
from tests.integration.test_lock_compose import Place


def table(repo: Repo, name: str, *more: str) -> str:
    lines = [f"[sources.{name}]", f'url = "{repo.url}"', 'track = { branch = "main" }', *more]
    return "\n".join(lines) + "\n"


def refused(place: Place) -> list[tuple[str, str]]:
    with pytest.raises(ImgbuildError) as failed:
        place.lock()
    return [(f.code, f.what) for f in failed.value.findings]


def test_every_source_whose_submodule_is_not_filled(tmp_path: Path) -> None:
    place = Place(tmp_path / "here")
    broken = []
    for name in ("one", "two", "well"):
        repo = Repo(tmp_path / f"{name}.git")
        files = {"a": "a\n", **({} if name == "well" else {"sub": ("160000", "1" * 40)})}
        repo.commit(files)  # type: ignore[arg-type]
        broken.append(table(repo, name, 'submodules = "none"'))
    place.lane(*broken)
    said = refused(place)
    assert [what.partition(":")[0] for _, what in said] == ["one", "two"]
    assert all("the gitlink sub is not filled" in what for _, what in said)


def test_every_branch_that_is_not_there(tmp_path: Path) -> None:
    place = Place(tmp_path / "here")
    repo = Repo(tmp_path / "one.git")
    repo.commit({"a": "a\n"})
    tables = [table(repo, name).replace('"main"', f'"no-{name}"') for name in ("one", "two")]
    place.lane(*tables)
    said = refused(place)
    assert [f"no-{name}" in what for (_, what), name in zip(said, ("one", "two"), strict=True)] == [
        True, True,
    ]  # fmt: skip


def test_no_dockerfile_and_no_patch_set(tmp_path: Path) -> None:
    place = Place(tmp_path / "here")
    repo = Repo(tmp_path / "one.git")
    repo.commit({"a": "a\n"})
    place.lane(table(repo, "one", 'patches = ["one/none"]'))
    (place.project.root / "docker-images/x/Dockerfile").unlink()
    codes = [code for code, _ in refused(place)]
    assert codes[0] == "image-missing"
    assert len(codes) == 2
