"""`imgbuild import` and `imgbuild export` on a project."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from builder.errors import ImgbuildError
from builder.importers.draft import Wanted
from builder.model.lane import Pull
from builder.pipeline.exports import export
from builder.pipeline.imports import ImportReport, LaneExists, import_locks
from builder.steps.lanes import read_lane
from builder.tools.project import ProjectFolder
from builder.tools.toml import with_commit
from tests.unit.importers.files import (
    FILES,
    INPUTS,
    INTEGRATION,
    MANIFESTS,
    PINS,
    R31,
    R35,
    read,
)

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def project(tmp_path: Path) -> ProjectFolder:
    (tmp_path / "locks").mkdir()
    return ProjectFolder(tmp_path)


def run(
    project: ProjectFolder, *files: Path, lane: str = "x", force: bool = False, url: str = ""
) -> ImportReport:
    return import_locks(
        {file: file.read_bytes() for file in files},
        Wanted(lane, "glm53-jovian", "12.1a", ("linux/arm64",)),
        dict([url.split("=", 1)]) if url else {},
        force=force,
        project=project,
        beside=lambda path: path.read_bytes() if path.is_file() else None,
    )  # fmt: skip


def gathered(folder: Path, **texts: str) -> list[Path]:
    """Files that are all named alike, each in a folder of its own."""
    files = []
    for name, text in texts.items():
        (folder / name).mkdir(parents=True)
        files.append(folder / name / "integration.lock.json")
        files[-1].write_text(text)
    return files


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_every_published_file_through_a_lane(project: ProjectFolder, path: Path) -> None:
    report = run(project, path)
    done = read(path.read_bytes(), path.name)
    [document] = export("x", done.format, source=None, project=project)
    assert document.text.encode() == path.read_bytes()
    assert (document.name, document.notes) == (path.name, ())
    assert {f.code for f in report.open} <= {
        "image-missing",
        "unresolved",
        "patch-missing",
        "patch-set",
    }
    assert run(project, path).written == ()


@pytest.mark.parametrize(("lane", "path"), [("r31-glm53", R31), ("r35-glm53", R35)])
def test_the_real_lanes_hold_what_the_importer_writes(
    project: ProjectFolder, lane: str, path: Path
) -> None:
    report = run(project, path, lane=lane)
    assert report.written == (f"locks/imported/{lane}/{path.name}", f"locks/{lane}.toml")
    original, text = ((project.read(path) or b"").decode() for path in report.written)
    assert original == (REPOSITORY / report.written[0]).read_text()
    real = (REPOSITORY / report.written[1]).read_text().splitlines()
    rest = iter(real)
    assert [line for line in text.splitlines() if line not in rest] == []  # all, in this order
    known = {line.partition(" #")[0] for line in text.splitlines()}
    added = [line.partition(" #")[0] for line in real]
    assert [line for line in added if line not in known] == [
        'args = { BASE_KIND = "vllm" }',
        "[deps.vllm-cmake]", 'from = "vllm"',
        "[debs.liburing2]", 'package = "liburing2"',
        "[debs.liburing-dev]", 'package = "liburing-dev"',
        "[[gates]]", 'kind = "cuda-arch"', 'files = "opt/glm53/site/lmcache/*.so"',
        'require = ["sm_121a"]',
    ]  # fmt: skip
    (project.root / report.written[1]).write_text("\n".join(real) + "\n")
    with pytest.raises(LaneExists) as refused:
        run(project, path, lane=lane)
    assert "-[deps.vllm-cmake]" in refused.value.findings[0].detail


def test_three_integration_locks_make_one_lane(project: ProjectFolder, tmp_path: Path) -> None:
    names = {
        c: f"gilded-gnosis-v20-r31.{c}.integration.lock.json" for c in ("b12x", "lmcache", "vllm")
    }
    texts = {c: (INTEGRATION / name).read_text() for c, name in names.items()}
    run(project, *gathered(tmp_path / "in", **texts))
    lane = read_lane("x", project=project).lane
    assert [i.file for i in lane.imported] == [
        f"imported/x/{c}.integration.lock.json" for c in ("b12x", "lmcache", "vllm")
    ]
    assert lane.sources["b12x"].compose == (
        Pull(125, "282d61a483c908eaa440a19ba0d70a557c73197f",
             title="Declare compressed MLA decode row capacity"),
        Pull(126, "6022e6e7c7ea1199a06a27cf5a777c2804b13cfb",
             title="Prewarm target and native-MTP route packing"),
    )  # fmt: skip
    assert lane.sources["vllm"].result_tree == "fa13d334a2962756f9f7e9b562deb85387359f42"
    documents = export("x", "integration-lock", source=None, project=project)
    assert {d.text for d in documents} == set(texts.values())
    [one] = export("x", "integration-lock", source="vllm", project=project)
    assert one.text == texts["vllm"]


def test_a_manifest_and_its_lock(project: ProjectFolder) -> None:
    lock = INTEGRATION / "kimi-k3-hh-runtime-r1.b12x.integration.lock.json"
    run(project, MANIFESTS / "b12x.kimi-k3-hh-runtime.json", lock)
    table = read_lane("x", project=project).lane.sources["b12x"]
    assert table.commit == "184d7d52ad630841d0c6caf962f8b9d36f38992a"
    assert table.track.branch == "master"
    assert len(table.compose) == 3


def test_files_that_contradict_each_other(project: ProjectFolder, tmp_path: Path) -> None:
    with pytest.raises(ImgbuildError) as error:
        run(project, R31, R35)
    assert any("vllm.commit: swiglu" in f.what for f in error.value.findings)
    with pytest.raises(ImgbuildError) as error:
        run(project, R31, MANIFESTS / "b12x.kimi-k3-hh-runtime.json")
    assert "composes pull requests that the other does not" in str(error.value)
    assert not [*(tmp_path / "locks").iterdir()]


def test_an_existing_lane_is_not_overwritten(project: ProjectFolder) -> None:
    run(project, R31)
    with pytest.raises(ImgbuildError) as error:
        run(project, R35)
    found = error.value.findings[0]
    assert (error.value.exit_code, found.code) == (3, "lane-exists")
    assert "-commit = " in found.detail
    assert "-commit = " in run(project, R35, force=True).diff


def test_patches_beside_the_file(project: ProjectFolder, tmp_path: Path) -> None:
    patch = b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    digest = hashlib.sha256(patch).hexdigest()
    file = tmp_path / "pins.json"
    file.write_text(PINS.replace("3" * 64, digest))
    report = run(project, file)
    missing = [f for f in report.open if f.code == "patch-missing"]
    assert digest in missing[0].what
    (tmp_path / "p").mkdir()
    (tmp_path / "p/vllm.patch").write_bytes(patch + b"\n")
    with pytest.raises(ImgbuildError, match=r"components\.vllm\.patch says"):
        run(project, file, force=True)
    (tmp_path / "p/vllm.patch").write_bytes(patch)
    report = run(project, file)
    assert report.written == (
        f"patches/vllm/{digest[:12]}/series", f"patches/vllm/{digest[:12]}/vllm.patch",
    )  # fmt: skip
    assert not [f for f in report.open if f.code in ("patch-missing", "patch-set")]


def test_a_file_that_names_no_repository(project: ProjectFolder, tmp_path: Path) -> None:
    file = tmp_path / "inputs.json"
    file.write_text(INPUTS)
    with pytest.raises(ImgbuildError) as error:
        run(project, file)
    assert error.value.findings[0].hint == "say where it is: --url vllm=https://…"
    run(project, file, url="vllm=https://example.org/vllm.git")
    [document] = export("x", "sparkring-inputs", source=None, project=project)
    assert json.loads(document.text) == json.loads(INPUTS)


def move(project: ProjectFolder, source: str, commit: str) -> None:
    path = project.root / "locks/x.toml"
    path.write_text(with_commit(path.read_text(), "sources", source, commit))


def test_export_of_a_moved_lane(project: ProjectFolder) -> None:
    run(project, R31)
    move(project, "b12x", "1" * 40)
    assert "tree" not in read_lane("x", project=project).lane.sources["b12x"].parts
    [document] = export("x", "source-lock", source=None, project=project)
    again = read(document.text)
    assert again.warnings == ()
    lines = set(R31.read_text().splitlines()) ^ set(document.text.splitlines())
    assert {line.partition("=")[0] for line in lines} == {
        "b12x.commit", "b12x.tree", "b12x.package.tree", "b12x.bundle.sha256",
        "runtime.cache.fingerprint",
    }  # fmt: skip
    assert len(document.notes) == 4


def test_export_with_known_parts_recomputes_the_fingerprint(project: ProjectFolder) -> None:
    run(project, R31)
    path = project.root / "locks/x.toml"
    text = path.read_text()
    for key, value in (("commit", "3edbcbce70f491741b82f5eab9c1b30b39447228"),
                       ("b12x", "d76de6c4ceaa9c2feb49edaf8c2f77d5a29ab5cb")):  # fmt: skip
        text = text.replace(f'{key} = "{value}"', f'{key} = "{"1" * 40}"')
    path.write_text(text)
    [document] = export("x", "source-lock", source=None, project=project)
    assert "-b12x11111111-" in document.text.splitlines()[-1]
    read(document.text)


def test_export_refuses_what_no_lane_knows(project: ProjectFolder) -> None:
    run(project, INTEGRATION / "gilded-gnosis-v20-r34.b12x.integration.lock.json")
    move(project, "b12x", "1" * 40)
    with pytest.raises(ImgbuildError) as error:
        export("x", "integration-lock", source=None, project=project)
    assert {f.code for f in error.value.findings} == {"export-impossible"}
    with pytest.raises(ImgbuildError, match="was not made from a file of the format manifest"):
        export("x", "manifest", source=None, project=project)
    with pytest.raises(ImgbuildError, match="is composed of 3 pull requests"):
        export("x", "source-lock", source=None, project=project)


def test_a_manifest_follows_its_lane(project: ProjectFolder) -> None:
    file = MANIFESTS / "b12x.kimi-k3-hh-runtime.json"
    run(project, file)
    path = project.root / "locks/x.toml"
    path.write_text(path.read_text().replace("a5089aa3c6aa8cbe40dbdaf520a6c8bddf1d50e8", "2" * 40))
    [document] = export("x", "manifest", source=None, project=project)
    wanted = json.loads(file.read_text())
    wanted["pull_requests"][2]["head"] = "2" * 40
    assert json.loads(document.text) == wanted


def test_a_kept_file_that_was_changed(project: ProjectFolder) -> None:
    run(project, R31)
    kept = project.root / f"locks/imported/x/{R31.name}"
    kept.write_text(kept.read_text() + "\n")
    with pytest.raises(ImgbuildError, match="was changed after it was imported"):
        export("x", "source-lock", source=None, project=project)


def test_a_lane_by_hand_as_a_source_lock() -> None:
    project = ProjectFolder(REPOSITORY)
    [document] = export("r38-ds41", "source-lock", source=None, project=project)
    tables = {c.name: c.table for c in read(document.text).document.claims().sources}
    assert tables["lmcache"].tree == "5a88a1ea9d2627c76288d056e7193f7454669b64"
    assert tables["vllm"].commit == "66c293578412417476f842c1da5805d3a3d959a8"
