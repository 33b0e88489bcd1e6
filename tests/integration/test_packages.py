"""Wheels and Debian packages through the machine's own pip and apt."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from builder.errors import ToolMissing
from builder.model.lock import LockedFile
from builder.tools.apt_index import AptIndex
from builder.tools.packages import PackageUnavailable, digest
from builder.tools.pip_index import PipIndex, RequirementInvalid

network = pytest.mark.network
ARM, AMD = "linux/arm64", "linux/amd64"


@pytest.fixture(scope="module")
def apt(tmp_path_factory: pytest.TempPathFactory) -> AptIndex:
    if not shutil.which("apt-get"):
        pytest.skip("no apt-get")
    return AptIndex(tmp_path_factory.mktemp("cache"))


def locked(path: Path) -> LockedFile:
    return LockedFile(path.name, digest(path), path.stat().st_size)


@network
def test_a_wheel_is_resolved_and_brought_again(tmp_path: Path) -> None:
    index, again = PipIndex("3.12"), tmp_path / "again"
    again.mkdir()
    name, version, path = index.resolve("six>=1.16", ARM, tmp_path)
    assert (name, path.parent) == ("six", tmp_path)
    assert version in path.name
    brought = index.download(name, version, locked(path), ARM, again)
    assert brought == again / path.name
    assert [p.name for p in again.iterdir()] == [path.name]  # nothing beside it


@network
def test_the_wheel_is_the_images_not_this_machines(tmp_path: Path) -> None:
    for platform, machine in ((ARM, "aarch64"), (AMD, "x86_64")):
        _, _, path = PipIndex("3.12").resolve("markupsafe", platform, tmp_path)
        assert machine in path.name
        assert "cp312" in path.name


@network
def test_wheels_that_cannot_be_had(tmp_path: Path) -> None:
    index = PipIndex("3.12")
    with pytest.raises(PackageUnavailable, match="no such wheel") as missing:
        index.resolve("six==99.9", ARM, tmp_path)
    assert "six==99.9" in missing.value.findings[0].detail
    with pytest.raises(PackageUnavailable, match="source distributions"):
        index.resolve("docopt", ARM, tmp_path)
    other = LockedFile("six-1.17.0-py2.py3-none-any.whl", "sha256:" + "0" * 64, 1)
    with pytest.raises(PackageUnavailable, match="another file than the locked one") as swapped:
        index.download("six", "1.17.0", other, ARM, tmp_path)
    assert "imgbuild lock LANE --update NAME" in swapped.value.findings[0].hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("inner==1.16.9", "correct it there; the index has 1.6.1, 1.16.0, 1.17.0;"),
        ("inner>9", "correct it there; the index has 1.6.1, 1.16.0, 1.17.0;"),
        ("innner==1.16.0", "correct the name or the version there;"),
    ],
)
def test_a_version_that_nobody_has_is_the_lanes_fault(
    wanted: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("1.6.1", "1.16.0", "1.17.0"):
        (tmp_path / f"inner-{version}-py3-none-any.whl").touch()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(PackageUnavailable) as missing:
        PipIndex("3.12").resolve(wanted, ARM, tmp_path)
    assert f"the lane asks for {wanted}: {said}" in missing.value.findings[0].hint
    assert "--update" not in missing.value.findings[0].hint


@pytest.mark.parametrize(
    "wanted",
    ["-r/etc/passwd", "six @ https://example.org/six.whl", "./six.whl", "six; python_version>'3'"],
)
def test_only_names_and_versions_are_requirements(wanted: str, tmp_path: Path) -> None:
    with pytest.raises(RequirementInvalid):
        PipIndex("3.12").resolve(wanted, ARM, tmp_path)


def test_the_images_python_must_be_known(tmp_path: Path) -> None:
    with pytest.raises(RequirementInvalid, match="does not say which") as unknown:
        PipIndex("").resolve("six", ARM, tmp_path)
    assert "build.python" in unknown.value.findings[0].hint


def test_a_venv_without_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho /x/python: No module named pip >&2; exit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    with pytest.raises(ToolMissing, match="pip is not installed"):
        PipIndex("3.12").resolve("six", ARM, tmp_path)


@network
def test_a_deb_of_either_architecture(apt: AptIndex, tmp_path: Path) -> None:
    for platform, architecture in ((AMD, "amd64"), (ARM, "arm64")):
        name, version, path = apt.resolve("liburing-dev", platform, tmp_path)
        assert name == "liburing-dev"
        assert path.name == f"liburing-dev_{version}_{architecture}.deb"
        again = tmp_path / architecture
        again.mkdir()
        assert apt.download(name, version, locked(path), platform, again) == again / path.name
        assert [p.name for p in again.iterdir()] == [path.name]


@network
def test_a_deb_with_an_epoch_and_one_for_all_architectures(apt: AptIndex, tmp_path: Path) -> None:
    _, version, path = apt.resolve("busybox-static", AMD, tmp_path)
    assert ":" in version
    assert path.name == f"busybox-static_{version.partition(':')[2]}_amd64.deb"
    assert apt.download("busybox-static", version, locked(path), AMD, tmp_path) == path
    assert apt.resolve("tzdata", ARM, tmp_path)[2].name.endswith("_all.deb")


@network
def test_debs_that_cannot_be_had(apt: AptIndex, tmp_path: Path) -> None:
    with pytest.raises(PackageUnavailable, match="no package of this name"):
        apt.resolve("imgbuild-no-such-package", AMD, tmp_path)
    _, version, path = apt.resolve("tzdata", AMD, tmp_path)
    file = locked(path)
    with pytest.raises(PackageUnavailable, match="not in apt's sources") as gone:
        apt.download("tzdata", "1990a-1", file, AMD, tmp_path)
    assert version in gone.value.findings[0].detail
    assert "--update NAME" in gone.value.findings[0].hint
    with pytest.raises(PackageUnavailable, match="another file than the locked one"):
        apt.download("tzdata", version, replace(file, sha256="sha256:" + "0" * 64), AMD, tmp_path)


@network
def test_several_at_once(apt: AptIndex, tmp_path: Path) -> None:
    found: list[str] = []

    def resolve(folder: Path) -> None:
        folder.mkdir()
        found.append(apt.resolve("tzdata", AMD, folder)[1])

    threads = [threading.Thread(target=resolve, args=(tmp_path / str(i),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1


def test_a_system_without_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match="apt-get is not there"):
        AptIndex(tmp_path).resolve("tzdata", AMD, tmp_path)


@pytest.mark.parametrize("name", ["-o=x", "a b", "Tz", "tzdata=1"])
def test_names_that_are_none(name: str, tmp_path: Path, apt: AptIndex) -> None:
    with pytest.raises(PackageUnavailable):
        apt.download(name, "1", LockedFile("x.deb", "sha256:" + "0" * 64, 1), AMD, tmp_path)
