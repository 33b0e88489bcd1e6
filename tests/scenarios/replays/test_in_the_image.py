"""Failures that only an image shows: caught by a gate, or by the build itself."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.scenarios.conftest import Ran, Workplace, docker, remove_images, repository
from tests.scenarios.replays.conftest import DOCKERFILE, Replay, copied

pytestmark = pytest.mark.docker

DEMO = "whole"
LANE = "locks/demo.toml"
CUDA = "cuda"  # the stage below the one that fails once

GATES: dict[str, str] = {
    "S2-a-module-that-pkg-config-does-not-know":
        'kind = "pkg-config"\nmodule = "libnuma"\ncompile = "numa.h"',
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
RECORD = 'kind = "wheel-record"\ndistribution = "minipkg"\nsource = "minipkg"'


@pytest.fixture(scope="module")
def judged(whole: Workplace, built: str, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """What one run of all of them says: they share a container, as the gates of a lane do."""
    place = copied(whole, tmp_path_factory.mktemp("judged"))
    lane = place.root / LANE
    tables = "\n".join(f"[[gates]]\n{gate}" for gate in (*GATES.values(), RECORD))
    lane.write_text(f"{lane.read_text()}\n{tables}\n")
    return place.run("gate", built)


def verdict_rows(table: str) -> list[list[str]]:
    """The lines of each verdict: its own, and the hint below it."""
    rows: list[list[str]] = []
    for line in table.splitlines():
        if line.startswith(("ok ", "FAILED ")):
            rows.append([])
        if line.startswith(("ok ", "FAILED ", "   ")):
            rows[-1].append(line)
    return rows


@pytest.mark.parametrize("name", GATES)
def test_gate(replay: Replay, built: str, judged: Ran, name: str) -> None:
    """Of the gates added, exactly this one's line is this one's golden."""
    kind = tomllib.loads(GATES[name])
    rows = verdict_rows(judged.out)
    at = list(GATES).index(name) - len(GATES) - 1  # the last is RECORD's
    replay.compare(name, ("gate", built), Ran(judged.code, "\n".join([*rows[at], ""]), judged.err))
    assert rows[at][0].split()[:2] == ["FAILED", kind["kind"]]


def test_p6_another_build_of_the_same_version(
    replay: Replay, built: str, judged: Ran, tmp_path: Path
) -> None:
    """The image's minipkg is not the lane's: a file of it differs."""
    assert verdict_rows(judged.out)[-1][0].split()[:2] == ["ok", "wheel-record"]
    (tmp_path / "Dockerfile").write_text(
        f"FROM {built}\nRUN echo '# upstream' >>$(python3 -c 'import minipkg; "
        "print(minipkg.__file__)')\n"
    )
    image = f"{built.partition(':')[0]}:other"
    words = ["docker", "buildx", "build", "--quiet", "--tag", image, str(tmp_path)]
    subprocess.run(words, check=True, capture_output=True, timeout=120)
    lane = replay.place.root / LANE
    lane.write_text(f"{lane.read_text()}\n[[gates]]\n{RECORD}\n")
    replay.expect("P6-another-build-of-the-same-version", "gate", image)


def test_s3_s13_a_failed_gate_keeps_its_candidate_and_its_log(replay: Replay) -> None:
    """No path to libcudart, and what is left to find out why."""
    shared = repository(replay.place)
    replay.place.edit(LANE, (f'"{shared}"', f'"{shared}-s3"'))
    replay.place.edit(DOCKERFILE, (" LIBRARY_PATH=/usr/local/cuda/lib64", ""))
    replay.place.good("lock", "demo")
    words = ("build", "demo", "--junit", "report.xml")
    done = replay.expect("S3-S13-no-path-to-libcudart", *words)
    kept = re.search(r"kept as (\S+), the log of its build at (\S+)", done.err)
    assert kept is not None
    assert docker("image", "inspect", "-f", "{{.Id}}", kept[1]).startswith("sha256:")
    assert Path(kept[2]).stat().st_size
    assert 'type="gate-link"' in (replay.place.root / "report.xml").read_text()
    remove_images(replay.place)


def test_s8_a_mirror_that_answers_503_once(replay: Replay, built: str) -> None:
    """The first attempt fails as apt does; the build goes on by itself, with what was done."""
    record = json.loads(replay.place.good("history", "demo", "--json").out)[0]
    assert (record["outcome"], record["tags"][0].partition(":")[0]) == (
        "built", built.partition(":")[0],
    )  # fmt: skip
    said = Path(record["log"]).read_text()
    assert "a server answered 5xx: trying again in 5 s" in said
    ran = {step["name"][:40]: step["cached"] for step in record["steps"] if step["stage"] == CUDA}
    assert ran
    assert all(ran.values())  # it is below the step that failed, and did not run again
    (compiled,) = (step for step in record["steps"] if "make -C" in step["name"])
    assert not compiled["cached"]


def test_s10_an_image_carries_its_lock(replay: Replay, built: str) -> None:
    (replay.place.root / "locks/demo.lock").unlink()
    words = ("run", "--rm", "--network", "none", "--entrypoint", "sha256sum", built)
    digest = docker(*words, "/opt/imgbuild/demo.lock").split()[0]
    labels = json.loads(docker("image", "inspect", "-f", "{{json .Config.Labels}}", built))
    assert labels["io.imgbuild.lock-digest"] == f"sha256:{digest}"
    assert repository(replay.place) in built


def test_all_gates_of_the_demo_take_one_start(replay: Replay, built: str) -> None:
    """One container is started, for the probes; one is created for the files."""
    began = docker("info", "-f", "{{.SystemTime}}").strip()
    told = re.search(r"ok gates +(\d+) of (\d+) ", replay.place.good("gate", built).err)
    assert told is not None
    assert told[1] == told[2]
    since = ("--since", began, "--until", docker("info", "-f", "{{.SystemTime}}").strip())
    seen = docker("events", *since, "--filter", "type=container", "--format",
                  "{{.Action}} {{.Actor.Attributes.image}}").splitlines()  # fmt: skip
    image = json.loads(docker("image", "inspect", built))[0]["Id"]
    ours = [line.split()[0] for line in seen if line.split()[-1] in (built, image)]
    assert (ours.count("start"), ours.count("create")) == (1, 2)
