"""The demo lane on a real engine: built, built again, and broken in every way of its issue."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.conftest import (
    IMGBUILD,
    Workplace,
    copy_project,
    docker,
    remove_images,
    repository,
)

pytestmark = pytest.mark.docker

DOCKERFILE = "docker-images/demo/Dockerfile"


def image_id(place: Workplace, tag: str = "local") -> str:
    return docker("image", "inspect", "-f", "{{.Id}}", f"{repository(place)}:{tag}").strip()


def test_a_build_is_labelled_recorded_and_not_done_twice(workplace: Workplace) -> None:
    built = workplace.good("build", "demo", "--json")
    record = json.loads(built.out)
    assert record["outcome"] == "built"
    assert [s["name"] for s in record["stages"]] == [
        "fetch", "verify", "patch", "preflight", "stage", "build", "gates", "label",
    ]  # fmt: skip
    assert all(v["passed"] for v in record["verdicts"])
    assert record["image"] == image_id(workplace)
    tags = {f"{repository(workplace)}:local", f"{repository(workplace)}:{record['build_id'][:12]}"}
    assert set(record["tags"]) == tags
    inputs = docker("run", "--rm", "--network", "none", "--entrypoint", "sha256sum",
                    record["image"], "/opt/imgbuild/inputs.json")  # fmt: skip
    assert inputs.split()[0] == record["build_id"]

    again = workplace.good("build", "demo")
    assert "nothing changed" in again.err
    assert "stage" not in again.err.replace("stages", "")

    inspected = workplace.good("inspect", f"{repository(workplace)}:local")
    assert record["build_id"] in inspected.out
    kern = re.search(r"kern\s+([0-9a-f]{40})\s+([0-9a-f]{40})", inspected.out)
    assert kern is not None
    history = workplace.good("history").out
    assert [line.split()[3] for line in history.splitlines()[1:]] == ["built", "unchanged"]
    gated = workplace.good("gate", f"{repository(workplace)}:local")
    assert "FAILED" not in gated.out


def test_the_same_image_from_another_folder_user_umask_and_timezone(
    workplace: Workplace, everyones: Path
) -> None:
    first = json.loads(workplace.good("build", "demo", "--no-cache", "--json").out)
    second = json.loads(workplace.good("build", "demo", "--no-cache", "--json").out)
    other = everyones / "an other" / "clone"
    copy_project(other)
    shutil.copy(workplace.root / "locks/demo.toml", other / "locks/demo.toml")
    config = os.environ.get("DOCKER_CONFIG")
    if config:  # where buildx keeps its state: each user has one
        shutil.copytree(config, other / "docker", symlinks=True)
    for path in [other, *other.rglob("*")]:
        if not path.is_symlink():
            shutil.chown(path, "nobody", "nogroup")
    elsewhere = Workplace(
        other,
        {
            "IMGBUILD_CACHE": str(other / "cache"), "IMGBUILD_STATE": str(other / "state"),
            "HOME": str(other), "DOCKER_CONFIG": str(other / "docker"),
            "TZ": "Pacific/Auckland", "LANG": "de_DE.UTF-8",
        },
        user="nobody",
        umask=0o077,
    )  # fmt: skip
    with open_socket():
        elsewhere.good("lock", "demo")
        lock = (other / "locks/demo.lock").read_bytes()
        assert lock == (workplace.root / "locks/demo.lock").read_bytes()
        third = json.loads(elsewhere.good("build", "demo", "--no-cache", "--json").out)
    assert first["image"] == second["image"] == third["image"]
    assert first["build_id"] == third["build_id"]


@pytest.fixture
def everyones() -> Iterator[Path]:
    """A folder that every user may enter: pytest's own are root's alone."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


class open_socket:  # noqa: N801 - reads as a verb
    """The engine's socket, its programs and ours can be used by any user for a while."""

    def __enter__(self) -> None:
        host = os.environ.get("DOCKER_HOST", "").removeprefix("unix://")
        socket = Path(host or "/var/run/docker.sock")
        programs = (Path(shutil.which("docker") or "/"), IMGBUILD, Path(sys.executable).resolve())
        folders = {*socket.parents, *(f for program in programs for f in program.parents)}
        self.modes = [(path, path.stat().st_mode) for path in (socket, *folders)]
        socket.chmod(0o666)
        for folder in folders:
            folder.chmod(folder.stat().st_mode | 0o011)

    def __exit__(self, *exc: object) -> None:
        for path, mode in self.modes:
            path.chmod(mode & 0o7777)


def broken(place: Workplace, *changes: tuple[str, str]) -> str:
    """The demo with another Dockerfile, locked again; what the build says."""
    place.edit(DOCKERFILE, *changes)
    place.good("lock", "demo")
    done = place.run("build", "demo")
    assert done.code == 7, done.err
    tags = docker("images", "--format", "{{.Tag}}", repository(place)).split()
    assert tags == [], "a failed gate leaves no tag"
    assert "imgbuild-candidate:demo-" in done.err
    candidate = re.search(r"imgbuild-candidate:\S+?(?=,)", done.err)
    assert candidate is not None
    labels = docker("image", "inspect", "-f", "{{json .Config.Labels}}", candidate[0])
    assert "io.imgbuild" not in labels
    return done.err


def test_another_architecture_in_one_stage(workplace: Workplace) -> None:
    flags = "-gencode=arch=compute_120a,code=sm_120a"  # preflight does not read Makefiles
    said = broken(
        workplace,
        (
            "    make -C /src/kern",
            f"    sed -i 's/[$][$]gencode/{flags}/' /src/kern/Makefile && make -C /src/kern",
        ),
    )
    assert "error[gate-cuda-arch]" in said
    assert "sm_120a" in said
    assert "sm_121a" in said
    assert "error[gate-link]" not in said


def test_another_architecture_in_the_dockerfile_is_found_before_the_build(
    workplace: Workplace,
) -> None:
    workplace.edit(
        DOCKERFILE,
        ("TORCH_CUDA_ARCH_LIST=${TORCH_CUDA_ARCH_LIST}", "TORCH_CUDA_ARCH_LIST=12.0a"),
    )
    workplace.good("lock", "demo")
    done = workplace.run("build", "demo")
    assert done.code == 3
    assert "error[arch-differs]: stage kern-cuda compiles kern with make for '12.0a'" in done.err
    assert docker("images", "-q", repository(workplace)) == ""


def test_without_the_headers_of_liburing(workplace: Workplace) -> None:
    said = broken(
        workplace,
        ("    ldconfig &&", "    dpkg --purge liburing-dev && ldconfig &&"),
        ("liburing2 liburing-dev &&", "liburing2 &&"),
    )
    assert "error[gate-package]" in said
    assert "liburing-dev" in said
    assert "error[gate-pkg-config]" in said or "error[gate-compile]" in said


def test_without_library_path(workplace: Workplace) -> None:
    said = broken(workplace, (" LIBRARY_PATH=/usr/local/cuda/lib64", ""))
    assert "error[gate-link]" in said
    assert "LIBRARY_PATH" in said
    assert "cannot find -lcudart" in said


def test_without_the_loaders_configuration(workplace: Workplace) -> None:
    said = broken(workplace, ("echo /usr/local/cuda/lib64 >/out", "echo /nowhere >/out"))
    assert "error[gate-load]" in said
    assert "error[gate-link]" not in said
    assert "ld.so.conf" in said


def test_a_wrong_tree_is_found_before_any_container(workplace: Workplace) -> None:
    lock = workplace.root / "locks/demo.lock"
    text = lock.read_text()
    at = text.index("[sources.kern]")
    tree = re.search(r'^tree = "([0-9a-f]{40})"$', text[at:], re.MULTILINE)
    assert tree is not None
    wrong = "77ab" + tree[1][4:]
    line = text[: at + tree.start()].count("\n") + 1
    lock.write_text(text[:at] + text[at:].replace(f'tree = "{tree[1]}"', f'tree = "{wrong}"', 1))
    done = workplace.run("build", "demo")
    assert done.code == 4
    assert f"error[tree-mismatch]: kern: the commit holds tree {tree[1][:12]}" in done.err
    assert f"the lock says {wrong[:12]}" in done.err
    assert f"  --> locks/demo.lock:{line}\n" in done.err
    assert "git checkout -- locks/demo.lock" in done.err
    assert "build " not in done.err.partition("error[")[0].partition("\n")[2]
    proof = workplace.run("verify-lock", "demo")
    assert proof.code == 4
    assert "tree-mismatch" in proof.err


def test_a_marker_that_is_gone_is_found_before_the_build(workplace: Workplace) -> None:
    workplace.edit("locks/demo.toml", ("_PREPARED_LAUNCHERS", "KERN_PREPARED_LAUNCHER"))
    done = workplace.run("build", "demo")
    assert done.code == 7
    assert "error[gate-marker]" in done.err
    assert "_PREPARED_LAUNCHERS" in done.err, "the near name is proposed"
    assert "  --> locks/demo.toml:" in done.err
    assert docker("images", "-q", repository(workplace)) == ""


def test_hooks_around_a_build(workplace: Workplace) -> None:
    """Only when something is built; a failing one before stops it, one after comes too late."""
    said, file = workplace.root / "said", workplace.root / "nodes.toml"
    file.write_text('schema = 1\n[hooks]\nbefore-build = [["sh", "-c", "echo busy; exit 1"]]\n')
    refused = workplace.run("build", "demo")
    assert refused.code == 6
    assert "error[build-hook-failed]: before-build: sh ended" in refused.err
    assert "  | busy" in refused.err
    assert not docker("images", "-q", repository(workplace))
    tell = f"echo $IMGBUILD_IMAGE $IMGBUILD_RESULT >>{said}"
    file.write_text(f'schema = 1\n[hooks]\nafter-build = [["sh", "-c", "{tell}; exit 1"]]\n')
    late = workplace.run("build", "demo")
    assert late.code == 6
    name, result = said.read_text().split()
    assert result == "ok"
    assert docker("images", "-q", name)
    again = workplace.run("build", "demo")
    assert again.code == 0, again.err
    assert len(said.read_text().splitlines()) == 1
    runs = json.loads(workplace.good("history", "--json").out)
    assert [run["outcome"] for run in runs] == ["failed", "failed", "unchanged"]


def test_two_lanes_cannot_take_one_name(workplace: Workplace) -> None:
    text = (workplace.root / "locks/demo.toml").read_text()
    (workplace.root / "locks/twin.toml").write_text(text)
    done = workplace.run("build", "demo")
    assert done.code == 3, done.err
    name = repository(workplace)
    assert f"error[name-taken]: demo and twin would both be {name}:local" in done.err


def test_a_tag_comes_back_with_its_lock(workplace: Workplace) -> None:
    first = json.loads(workplace.good("build", "demo", "--json").out)["image"]
    workplace.edit("locks/demo.toml", ('python = "3.11"', 'python = "3.11"\nargs = { X = "1" }'))
    assert json.loads(workplace.good("build", "demo", "--json").out)["image"] != first
    workplace.edit("locks/demo.toml", ('\nargs = { X = "1" }', ""))
    back = workplace.good("build", "demo")
    assert "nothing changed" in back.err
    assert f"moved back to it: {repository(workplace)}:local" in back.err
    assert image_id(workplace) == first


def test_a_compiler_error_is_shown_itself(workplace: Workplace) -> None:
    workplace.edit(
        DOCKERFILE,
        (
            "    make -C /src/kern",
            "    echo 'int f() { return x; }' >>/src/kern/csrc/reduce_bf16.cu && make -C /src/kern",
        ),
    )
    workplace.good("lock", "demo")
    done = workplace.run("build", "demo")
    assert done.code == 6, done.err
    assert "error[build-failed]" in done.err
    assert "kern-cuda" in done.err
    assert 'identifier "x" is undefined' in done.err
    assert "build.log" in done.err


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill-9"])
def test_interrupted_at_any_moment_the_next_run_succeeds(
    workplace: Workplace, how: signal.Signals, tmp_path: Path
) -> None:
    place = Workplace(workplace.root, {**workplace.env, "IMGBUILD_CACHE": str(tmp_path / "cache")})
    seed_packages(Path(workplace.env["IMGBUILD_CACHE"]), tmp_path / "cache")
    for delay in (0.15, 0.4, 0.8, 1.5, 3.0):
        process = place.start("build", "demo", "--no-cache")
        time.sleep(delay)
        os.killpg(process.pid, how)
        _, err = process.communicate(timeout=60)
        assert process.returncode in (130, -how, 0), err
        assert "Traceback" not in err
    done = place.good("build", "demo", "--no-cache")
    assert "label" in done.err
    word = {signal.SIGINT: "interrupted", signal.SIGKILL: "killed"}[how]
    assert word in place.good("history").out
    assert docker("ps", "-aq", "--filter", "name=imgbuild").split() == []


def seed_packages(shared: Path, cache: Path) -> None:
    """The downloaded packages alone, so that each attempt fetches and stages anew."""
    shutil.copytree(shared / "files" / "sha256", cache / "files" / "sha256", dirs_exist_ok=True)


def test_two_builds_of_one_lane_at_once(workplace: Workplace) -> None:
    both = [workplace.start("build", "demo", "--no-cache", "--json") for _ in range(2)]
    ends = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], ends
    records = [json.loads(out) for out, _ in ends]
    assert records[0]["image"] == records[1]["image"] == image_id(workplace)


def test_nothing_is_touched_on_the_network_the_second_time(workplace: Workplace) -> None:
    workplace.good("build", "demo")
    shutil.rmtree(workplace.root / ".demo/sources")
    offline = {
        **workplace.env,
        "https_proxy": "http://127.0.0.1:9",
        "http_proxy": "http://127.0.0.1:9",
    }
    place = Workplace(workplace.root, offline)
    assert "nothing changed" in place.good("build", "demo").err
    place.good("build", "demo", "--no-cache")
    place.good("verify-lock", "--offline")


@pytest.fixture(autouse=True)
def _no_images_are_left(workplace: Workplace) -> object:
    yield
    remove_images(workplace)
    left = subprocess.run(["docker", "ps", "-aq"], capture_output=True, text=True, check=True)
    assert left.stdout == "", "a container is left"
