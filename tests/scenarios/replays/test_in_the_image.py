"""Failures that only an image shows: caught by a gate, or by the build itself."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.scenarios.conftest import docker, remove_images, repository
from tests.scenarios.replays.conftest import Replay

pytestmark = pytest.mark.docker

LANE, DOCKERFILE = "locks/demo.toml", "docker-images/demo/Dockerfile"

GATES: dict[str, str] = {
    "S12-a-package-that-is-not-there": 'kind = "python"\ndistribution = "instanttensor"',
    "S12-a-model-class-that-is-not-there":
        'kind = "python-attr"\nmodule = "minipkg.library"\nattr = "Aligner"',
    "P5-a-cpu-build-in-its-place":
        'kind = "python"\ndistribution = "minipkg"\nversion = "==0.4.1+cu130"',
    "P11-an-architecture-that-became-another":
        'kind = "log"\nstage = "kern-cuda"\narchitectures = "code=sm_(12)1a"',
    "P12-kernels-that-are-not-built":
        'kind = "log"\nstage = "kern-cuda"\nmust-not = ["nvcc --threads 0"]',
    "P13-code-for-another-gpu":
        'kind = "cuda-arch"\nfiles = "usr/local/lib/**/*.so"\nrequire = ["sm_100a"]',
    "P14-no-ptxas-that-takes-the-gpu": 'kind = "ptxas"\narch = ["sm_121a"]',
    "P15-a-library-that-the-linker-does-not-find": 'kind = "link"\nlibraries = ["curand"]',
    "P16-a-header-that-is-not-there": 'kind = "headers"\nheaders = ["curand_kernel.h"]',
    "P1-an-image-over-its-budget": 'kind = "size"\nmax = "1 MB"',
}  # fmt: skip


@pytest.mark.parametrize("name", GATES)
def test_gate(replay: Replay, built: str, name: str) -> None:
    lane = replay.place.root / LANE
    lane.write_text(f"{lane.read_text()}\n[[gates]]\n{GATES[name]}\n")
    replay.expect(name, replay.place.run("gate", built))


def test_p6_another_build_of_the_same_version(replay: Replay, built: str, tmp_path: Path) -> None:
    """The image's minipkg is not the lane's: a file of it differs."""
    (tmp_path / "Dockerfile").write_text(
        f"FROM {built}\nRUN echo '# upstream' >>$(python3 -c 'import minipkg; "
        "print(minipkg.__file__)')\n"
    )
    image = f"{built.partition(':')[0]}:other"
    words = ["docker", "buildx", "build", "--quiet", "--tag", image, str(tmp_path)]
    subprocess.run(words, check=True, capture_output=True, timeout=120)
    gate = 'kind = "wheel-record"\ndistribution = "minipkg"\nsource = "minipkg"'
    lane = replay.place.root / LANE
    lane.write_text(f"{lane.read_text()}\n[[gates]]\n{gate}\n")
    assert replay.place.run("gate", built).code == 0
    replay.expect("P6-another-build-of-the-same-version", replay.place.run("gate", image))


def own_repository(replay: Replay, name: str) -> None:
    """Builds of this replay leave the shared image alone."""
    shared = repository(replay.place)
    replay.place.edit(LANE, (f'"{shared}"', f'"{shared}-{name}"'))


def test_s3_no_path_to_libcudart(replay: Replay) -> None:
    own_repository(replay, "s3")
    replay.place.edit(DOCKERFILE, (" LIBRARY_PATH=/usr/local/cuda/lib64", ""))
    replay.place.good("lock", "demo")
    replay.expect("S3-no-path-to-libcudart", replay.place.run("build", "demo"))
    remove_images(replay.place)


def test_s13_a_failed_gate_keeps_its_candidate_and_its_log(replay: Replay) -> None:
    own_repository(replay, "s13")
    lane = replay.place.root / LANE
    lane.write_text(f'{lane.read_text()}\n[[gates]]\nkind = "env"\nname = "NONE"\n')
    done = replay.place.run("build", "demo", "--junit", "report.xml")
    replay.expect("S13-a-failed-gate-keeps-its-candidate", done)
    kept = re.search(r"kept as (\S+), the log of its build at (\S+)", done.err)
    assert kept is not None
    assert docker("image", "inspect", "-f", "{{.Id}}", kept[1]).startswith("sha256:")
    assert Path(kept[2]).stat().st_size
    assert 'type="gate-env"' in (replay.place.root / "report.xml").read_text()
    remove_images(replay.place)


def test_s8_a_mirror_that_answers_503_once(replay: Replay) -> None:
    """The first attempt fails as apt does; the build goes on by itself."""
    step = (
        "RUN --network=none --mount=type=cache,target=/once "
        "if [ ! -e /once/x ]; then touch /once/x; "
        "echo 'E: Failed to fetch http://deb.example/x.deb  503  Service Unavailable' >&2; "
        "exit 100; fi; rm /once/x\n"
    )
    own_repository(replay, "s8")
    replay.place.edit(DOCKERFILE, ("FROM base AS minipkg\n", f"FROM base AS minipkg\n{step}"))
    replay.place.good("lock", "demo")
    done = replay.place.good("build", "demo", "--json")
    record = json.loads(done.out)
    assert record["outcome"] == "built"
    assert "503" in Path(record["log"]).read_text()
    remove_images(replay.place)


def test_s9_an_image_is_known_by_its_label_not_by_where_it_was_loaded(
    replay: Replay, built: str, tmp_path: Path
) -> None:
    """Of the push only this much: what went through save and load is the same build."""
    archive = tmp_path / "image.tar"
    before = json.loads(docker("image", "inspect", built))[0]
    subprocess.run(["docker", "save", "-o", str(archive), built], check=True)
    subprocess.run(["docker", "load", "-q", "-i", str(archive)], check=True, capture_output=True)
    after = json.loads(docker("image", "inspect", built))[0]
    assert after["RootFS"] == before["RootFS"]
    assert after["Config"]["Labels"] == before["Config"]["Labels"]
    assert "nothing changed" in replay.place.good("build", "demo").err


def test_s10_an_image_carries_its_lock(replay: Replay, built: str) -> None:
    (replay.place.root / "locks/demo.lock").unlink()
    words = ("run", "--rm", "--network", "none", "--entrypoint", "sha256sum", built)
    digest = docker(*words, "/opt/imgbuild/demo.lock").split()[0]
    labels = json.loads(docker("image", "inspect", "-f", "{{json .Config.Labels}}", built))
    assert labels["io.imgbuild.lock-digest"] == f"sha256:{digest}"
    assert repository(replay.place) in built


def test_all_gates_of_the_demo_in_seconds(replay: Replay, built: str) -> None:
    """One container for the probes, one that is never started for the files: 1.2 s here."""
    done = replay.place.good("gate", built)
    took = re.search(r"gates\s+\d+ of \d+\s+\((\d+\.\d) s\)", done.err)
    assert took is None or float(took[1]) < 3
