"""Values of a lock that were edited while its intents stayed: none passes as following."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from builder.errors import LaneError
from builder.model.lock import Lock, LockedFile, LockedPackage
from builder.model.values import PatchFile, TreeEntry
from builder.steps import identity, series, trees
from builder.steps.drift import drift
from builder.steps.lanes import read_lane
from builder.tools.project import ProjectFolder, replace_file
from tests.unit.test_lanes import DIGEST, LANE, locked
from tests.unit.test_lanes import project as project

WHEEL = LANE.replace('12.1a"', '12.1a"\npython = "3.12"') + (
    '[python.crt]\nrequirement = "nvidia-cuda-crt==13.5.37"\n[debs.uring]\npackage = "liburing2"\n'
)


def whole(project: ProjectFolder) -> Lock:
    lane = read_lane("demo", project=project).lane
    file = {"linux/arm64": LockedFile("x.whl", DIGEST, 1)}
    crt = LockedPackage(identity.intent(lane.python["crt"]), "nvidia-cuda-crt", "13.5.37", file)
    deb = LockedPackage(identity.intent(lane.debs["uring"]), "liburing2", "2.5-1", file)
    return replace(locked(lane, project), python={"crt": crt}, debs={"uring": deb})


def source(**change: str) -> Callable[[Lock], Lock]:
    return lambda lock: replace(lock, sources={"kern": replace(lock.sources["kern"], **change)})


def package(kind: str, **change: str) -> Callable[[Lock], Lock]:
    def edit(lock: Lock) -> Lock:
        ((name, held),) = getattr(lock, kind).items()
        return replace(lock, **{kind: {name: replace(held, **change)}})

    return edit


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (source(commit="0" * 40), "kern: the lock's commit is not the lane's"),
        (source(url="https://evil.invalid/k.git"), "kern: the lock's url is not the lane's"),
        (
            package("python", name="nvidia-nvvm"),
            "crt: the lock's name is not that of nvidia-cuda-crt==13.5.37",
        ),
        (
            package("python", version="13.0.1"),
            "crt: the lock's version is not one of nvidia-cuda-crt==13.5.37",
        ),
        (package("debs", name="x"), "uring: the lock's name is not the lane's package"),
        (
            lambda lock: replace(
                lock,
                base={
                    "runtime": replace(
                        lock.base["runtime"], platforms={"linux/arm64": "sha256:" + "cd" * 32}
                    )
                },
            ),
            "runtime: the lock's platforms is not what the lane pins",
        ),
    ],
)
def test_edited(project: ProjectFolder, edit: Callable[[Lock], Lock], said: str) -> None:
    (project.root / "locks/demo.toml").write_text(WHEEL)
    lane, lock = read_lane("demo", project=project).lane, whole(project)
    assert drift(lane, lock, project=project) == ()
    assert [f.what for f in drift(lane, edit(lock), project=project)] == [said]


@pytest.mark.parametrize("target", [b"..\0", b"", b"a\nb", b"a/" * 3000])
def test_symlink_targets_that_tar_reads_otherwise(target: bytes) -> None:
    assert [*trees.leaving({"link": target})]


def test_a_long_name() -> None:
    assert [*trees.names([TreeEntry("100644", "0" * 40, "x" * 256)])]


def test_a_patch_that_adds_a_submodule() -> None:
    data = (
        b"diff --git a/s b/s\nnew file mode 160000\nindex 0000000..1111111\n--- /dev/null\n"
        b"+++ b/s\n@@ -0,0 +1 @@\n+Subproject commit 1111111111111111111111111111111111111111\n"
    )
    found = [f.code for f in series.findings(PatchFile("patches/x/0001.patch", DIGEST, data))]
    assert found == ["patch-malformed"]


def test_special_files_are_neither_read_nor_replaced(project: ProjectFolder) -> None:
    os.mkfifo(project.root / "locks/pipe.toml")
    (project.root / "locks/loop.toml").symlink_to("loop.toml")
    for name in ("pipe", "loop"):
        with pytest.raises(LaneError):
            project.read(f"locks/{name}.toml")
        with pytest.raises(LaneError, match="is not replaced"):
            replace_file(project.root / f"locks/{name}.toml", b"")
    assert Path(project.root / "locks/pipe.toml").is_fifo()
