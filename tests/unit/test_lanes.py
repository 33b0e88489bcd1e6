"""Reading lanes and locks from a project, and telling when a lock is stale."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builder.cli.findings import lines
from builder.errors import ImgbuildError, Place
from builder.model.ids import NAME_RULE, is_name
from builder.model.lane import Lane
from builder.model.lock import Final, Lock, LockedBase, LockedImage, LockedSource
from builder.steps import identity
from builder.steps.drift import drift
from builder.steps.image import folder_digest
from builder.steps.lanes import read_lane, read_lock
from builder.tools.project import ProjectFolder
from builder.tools.toml import inputs_text, lock_text, with_commit

COMMIT = "b40673cd006bf3496fdd70361dad2ad29eff54e7"
TREE = "5a88a1ea9d2627c76288d056e7193f7454669b64"
DIGEST = "sha256:" + "ab" * 32

LANE = f"""\
schema = 1
image = "demo"
repository = "x-demo"
platforms = ["linux/arm64"]

[build]
cuda-arch-list = "12.1a"

[sources.kern]   # the kernels
url = "https://example.org/kern.git"
commit = "{COMMIT}"

[base.runtime]
ref = "debian@{DIGEST}"

[[gates]]
kind = "package"
name = "liburing-dev"
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProjectFolder:
    (tmp_path / "locks").mkdir()
    (tmp_path / "docker-images/demo").mkdir(parents=True)
    (tmp_path / "docker-images/demo/Dockerfile").write_text("FROM scratch\n")
    (tmp_path / "locks/demo.toml").write_text(LANE)
    monkeypatch.chdir(tmp_path)
    return ProjectFolder(tmp_path)


def locked(lane: Lane, project: ProjectFolder) -> Lock:
    source = LockedSource(
        identity.intent(lane.sources["kern"]), lane.sources["kern"].url, COMMIT, TREE, DIGEST,
        1757692800, Final(TREE, DIGEST),
    )  # fmt: skip
    base = LockedBase(
        identity.intent(lane.base["runtime"]), {"linux/arm64": DIGEST}, f"debian@{DIGEST}"
    )
    image = LockedImage(folder_digest("docker-images/demo", project=project))
    return Lock(1, image, {"kern": source}, {"runtime": base}, path=Path("locks/demo.lock"))


def shown(error: pytest.ExceptionInfo[ImgbuildError]) -> str:
    return "\n".join(lines(error.value.findings))


def test_every_finding_has_file_and_line(project: ProjectFolder) -> None:
    text = LANE.replace("[build]", "[build]\njobs = 3").replace(COMMIT, "b40673c")
    text = text.replace('kind = "package"\nname', 'kind = "pakage"\nname')
    (project.root / "locks/demo.toml").write_text(text)
    with pytest.raises(ImgbuildError) as error:
        read_lane("demo", project=project)
    assert error.value.exit_code == 3
    assert shown(error) == (
        "error[lane-invalid]: build.jobs: unknown key\n"
        "  --> locks/demo.toml:7\n"
        "  hint: known keys: cuda-arch-list, python, args\n"
        "error[lane-invalid]: sources.kern.commit: must be a full object id, 40 or 64 lower-case "
        "hex digits, not 'b40673c'\n"
        "  --> locks/demo.toml:12\n"
        "  hint: git rev-parse b40673c prints it, in a clone of that repository; or name a branch "
        'or tag instead (track = { branch = "…" }), and imgbuild lock LANE finds its commit\n'
        "error[gates]: gates[0].kind: unknown kind of gate 'pakage'\n"
        "  --> locks/demo.toml:18\n"
        "  hint: did you mean 'package'?"
    )


@pytest.mark.parametrize(
    ("text", "what", "line"),
    [
        (LANE + "x = ", "is not TOML", 19),
        (LANE.replace("schema = 1", "schema = 1\nschema = 1"), "is not TOML", 2),
        (LANE.replace("schema = 1\n", ""), "schema: is missing", None),
        (LANE.replace(f'commit = "{COMMIT}"', ""), "neither commit nor track", 9),
        (LANE.replace("linux/arm64", "linux/riscv64"), "platforms[0]: must be", 4),
        (LANE.replace("12.1a", "sm_121a"), "cuda-arch-list: must be a CUDA", 7),
        (LANE.replace("https://", "https://me:secret@"), "without a password or", 10),
        (
            LANE.replace("kern.git", "kern.git?access_token=x"),
            "not 'https://example.org/kern.git?…'",
            10,
        ),
        (LANE.replace("https://example.org/kern.git", "ext::sh -c id"), "must be an https", 10),
        (LANE.replace(f"debian@{DIGEST}", DIGEST), "a digest stands behind a name", 14),
    ],
)
def test_bad_lanes(project: ProjectFolder, text: str, what: str, line: int | None) -> None:
    (project.root / "locks/demo.toml").write_text(text)
    with pytest.raises(ImgbuildError) as error:
        read_lane("demo", project=project)
    assert what in shown(error)
    place = "locks/demo.toml" + (f":{line}\n" if line else "")
    assert f"  --> {place}" in shown(error) + "\n"


def test_a_lane_without_its_image_folder_reads_and_is_stale(project: ProjectFolder) -> None:
    path = project.root / "locks/demo.toml"
    lock = locked(read_lane("demo", project=project).lane, project)
    path.write_text(LANE.replace('image = "demo"', 'image = "none"'))
    lane = read_lane("demo", project=project).lane
    found = drift(lane, lock, project=project)
    assert [f.code for f in found] == ["image-missing"]
    assert "\n".join(lines(found)) == (
        "error[image-missing]: image: there is no docker-images/none/Dockerfile\n"
        "  --> locks/demo.toml:2\n"
        "  hint: write it, or name another folder in the lane; there are: demo"
    )


def test_a_lane_that_is_not_there(project: ProjectFolder) -> None:
    with pytest.raises(ImgbuildError) as error:
        read_lane("dmo", project=project)
    assert shown(error) == "error[lane-invalid]: there is no lane 'dmo'\n  hint: did you mean demo?"
    for name in ("../demo", "a/demo", "", "-x", "Dmo", "demo.", "d" * 65, "d\n", "dé"):
        with pytest.raises(ImgbuildError, match=r"there is no lane .*: a lane has a name of a-z"):
            read_lane(name, project=project)
        assert not is_name(name)


@pytest.mark.parametrize("name", ["Demo", "demo-", ".demo", "_x", "d" * 65, "de mo", "dé"])
def test_a_lane_whose_name_breaks_the_rule(project: ProjectFolder, name: str) -> None:
    """One rule for all commands, and the error says it."""
    (project.root / f"locks/{name}.toml").write_text(LANE)
    with pytest.raises(ImgbuildError) as error:
        read_lane(name, project=project)
    (found,) = error.value.findings
    assert found.what == f"{name!r} is no lane's name: it must be {NAME_RULE}"
    assert found.place == Place(project.root / f"locks/{name}.toml")
    assert found.hint == f"rename its file: {name}.toml"
    assert not is_name(name)


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)  # fmt: skip
@given(name=st.text("ab0.-_AB/ é", max_size=5) | st.text(max_size=4))
def test_lanes_are_those_that_have_a_name(project: ProjectFolder, name: str) -> None:
    class Every(ProjectFolder):
        def read(self, path: str) -> bytes | None:
            return LANE.encode() if path.startswith("locks/") else super().read(path)

    refused = pytest.raises(ImgbuildError, match="of a-z, 0-9")
    with contextlib.nullcontext() if is_name(name) else refused:
        assert read_lane(name, project=Every(project.root)).lane.name == name


def test_a_lock_is_written_and_read_back(project: ProjectFolder) -> None:
    lane = read_lane("demo", project=project).lane
    lock = locked(lane, project)
    text = lock_text(lock, "demo")
    assert text.endswith("\n")
    assert "\r" not in text
    project.write("locks/demo.lock", text.encode())
    assert replace(read_lock(lane), path=lock.path) == lock
    assert lock_text(read_lock(lane), "demo") == text
    assert drift(lane, lock, project=project) == ()
    assert "intent" not in inputs_text(identity.inputs(lane, lock))


def test_what_changed_after_locking_is_told(project: ProjectFolder) -> None:
    lane = read_lane("demo", project=project).lane
    lock = locked(lane, project)
    (project.root / "docker-images/demo/Dockerfile").write_text("FROM scratch\nCOPY . .\n")
    new = f'[sources.new]\nurl = "./x"\ncommit = "{COMMIT}"\n[base'
    text = LANE.replace(COMMIT, "0" * 40).replace("[base", new)
    text = text.replace('["linux/arm64"]', '["linux/arm64", "linux/amd64"]')
    (project.root / "locks/demo.toml").write_text(text)
    lane = read_lane("demo", project=project).lane
    assert [f.what for f in drift(lane, lock, project=project)] == [
        "kern was changed after it was locked",
        "new is not locked yet",
        "runtime is not locked for linux/amd64",
        "docker-images/demo was changed after it was locked",
    ]


def test_missing_and_broken_locks(project: ProjectFolder) -> None:
    lane = read_lane("demo", project=project).lane
    with pytest.raises(ImgbuildError) as error:
        read_lock(lane)
    assert "hint: resolve it: imgbuild lock demo" in shown(error)
    project.write("locks/demo.lock", b"<<<<<<< ours\nlock-version = 1\n")
    with pytest.raises(ImgbuildError) as error:
        read_lock(lane)
    assert "unfinished merge" in shown(error)


def test_the_build_id_is_of_the_content(project: ProjectFolder) -> None:
    lane = read_lane("demo", project=project).lane
    lock = locked(lane, project)
    first = identity.build_id(lane, lock)
    written = LANE.replace("   # the kernels", "").replace("schema = 1\n", "") + "\n"
    written = 'schema=1\ndescription = "x"\n' + written.replace(
        "commit =", 'mirrors = ["https://example.org/mirror.git"]\ncommit ='
    )
    (project.root / "locks/demo.toml").write_text(written)
    same = read_lane("demo", project=project).lane
    assert identity.build_id(same, lock) == first
    assert drift(same, lock, project=project) == ()
    source = replace(lock.sources["kern"], final=Final(TREE, "sha256:" + "cd" * 32))
    assert identity.build_id(lane, replace(lock, sources={"kern": source})) != first
    assert identity.build_id(replace(lane, tags=("other",)), lock) != first


def test_a_moved_commit_keeps_what_a_person_wrote() -> None:
    text = with_commit(LANE, "sources", "kern", "1" * 40)
    assert text == LANE.replace(COMMIT, "1" * 40)
