"""Failures that cost people a build or a boot, caught before a container starts.

S numbers are the operators' own logs, P numbers public reports; both tables are those of the
steering repository's FAILURES.md. What each broken input gives is in golden/.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from builder.steps.image import folder_digest
from builder.tools.project import ProjectFolder
from tests.scenarios.conftest import Workplace
from tests.scenarios.replays.conftest import DOCKERFILE, Replay

DEMO = "sketch"
LANE, LOCK = "locks/demo.toml", "locks/demo.lock"
ARG = "ARG TORCH_CUDA_ARCH_LIST\nENV TORCH_CUDA_ARCH_LIST=${TORCH_CUDA_ARCH_LIST} "
DIGEST = "sha256:" + "0" * 64
TOKEN = "ghp_" + "aB3x" * 9

Break = Callable[[Workplace], None]


def edit(path: str, *changes: tuple[str, str], lock: bool = True) -> Break:
    def change(place: Workplace) -> None:
        place.edit(path, *changes)
        if lock and path == DOCKERFILE:
            locked_folder(place)
        elif lock:
            place.good("lock", "demo")

    return change


def edits(*changes: tuple[str, tuple[str, str]]) -> Break:
    def change(place: Workplace) -> None:
        for path, pair in changes:
            place.edit(path, pair)
        place.good("lock", "demo")

    return change


def locked_folder(place: Workplace) -> None:
    """What `imgbuild lock` would write after a change of the image folder alone."""
    content = folder_digest("docker-images/demo", project=ProjectFolder(place.root))
    file = place.root / LOCK
    head, table, rest = file.read_text().partition('[image]\ncontent = "')
    file.write_text(f'{head}{table}{content}"{rest.partition(chr(34))[2]}')


def lane(before: str, after: str, *, lock: bool = False) -> Break:
    return edit(LANE, (before, after), lock=lock)


def dockerfile(before: str, after: str) -> Break:
    return edit(DOCKERFILE, (before, after))


def locked_value(key: str, value: str) -> Break:
    """Another value for the first such key below [sources.kern] of the lock, by hand."""

    def change(place: Workplace) -> None:
        file = place.root / LOCK
        head, table, rest = file.read_text().partition("[sources.kern]\n")
        lines = rest.split("\n")
        at = next(i for i, line in enumerate(lines) if line.startswith(f"{key} = "))
        lines[at] = f'{key} = "{value}"'
        file.write_text(head + table + "\n".join(lines))

    return change


def patch(change: Callable[[str], str]) -> Break:
    def apply(place: Workplace) -> None:
        file = place.root / "patches/kern/gb10/0001-gb10-one-block-for-each-of-the-48-SMs.patch"
        file.write_text(change(file.read_text()))

    return apply


KERN = "90afcbbd2b8a9c0faed5a71d52db753905ce157c"


def gone(place: Workplace) -> None:
    """A lane that follows a branch, whose locked commit was force-pushed away."""
    edit("locks/demo.toml", (f'commit = "{KERN}"\n', ""))(place)
    edit(LOCK, (KERN, "9" * 40), lock=False)(place)


CHECK, LOCKING = ("check", "demo"), ("lock", "demo")
WITHOUT_DEV = ((" /debs/liburing-dev_*.deb", ""), ("liburing2 liburing-dev &&", "liburing2 &&"))
CASES: dict[str, tuple[Break, tuple[str, ...]]] = {
    "S1-a-marker-that-upstream-renamed": (
        lane("_PREPARED_LAUNCHERS", "KERN_PREPARED_LAUNCHER"), CHECK,
    ),
    "S2-no-liburing-in-the-last-stage": (edit(DOCKERFILE, *WITHOUT_DEV), CHECK),
    "S2-a-deb-that-is-not-locked": (
        lane('[debs.liburing-dev]\npackage = "liburing-dev"\n', "", lock=True), CHECK,
    ),
    "S2-a-deb-without-its-library": (
        edits((LANE, ('[debs.liburing2]\npackage = "liburing2"\n', "")),
              (DOCKERFILE, ("/debs/liburing2_*.deb /debs/liburing-dev_*.deb", "/debs/*.deb"))),
        CHECK,
    ),
    "S4-a-gate-that-the-list-denies": (
        lane('cuda-arch-list = "12.1a"', 'cuda-arch-list = "12.0a"', lock=True), CHECK,
    ),
    "S4-an-architecture-list-of-its-own": (
        dockerfile("TORCH_CUDA_ARCH_LIST=${TORCH_CUDA_ARCH_LIST}", "TORCH_CUDA_ARCH_LIST=12.0a"),
        CHECK,
    ),
    "S4-an-architecture-list-that-got-lost": (dockerfile(ARG, "ENV "), CHECK),
    "S4-an-architecture-list-that-is-inherited": (
        edit(DOCKERFILE, (ARG, "ENV "), ("FROM base AS cuda\n", f"FROM base AS cuda\n{ARG}X=1\n")),
        CHECK,
    ),
    "S5-a-submodule-that-is-not-filled": (
        lane('submodules = "all"', 'submodules = "none"'), LOCKING,
    ),
    "S7-an-anchor-that-was-replaced": (
        patch(lambda text: text.replace("\n ", "\n  ", 4)), LOCKING,
    ),
    "P3-one-pin-moved-the-lock-left-behind": (
        lane('commit = "f08e8af5', 'commit = "a08e8af5'), CHECK,
    ),
    "P4-two-wheels-of-one-distribution": (
        lane("[python.runtime]", '[python.again]\nrequirement = "NVIDIA_cuda.runtime"\n'
             "[python.runtime]"),
        LOCKING,
    ),
    "P9-a-patch-that-was-skipped": (locked_value("state", "already-there"), CHECK),
    "P10-a-patch-edited-by-hand": (
        patch(lambda text: re.sub(r"@@ -(\d+),\d+", r"@@ -\1,99", text, count=1)), LOCKING,
    ),
    "P17-a-stage-that-may-fetch": (
        dockerfile("RUN --network=none \\\n    site=$(python3 -c 'import sysconfig; "
                   "print(sysconfig.get_path(\"purelib\", \"posix_local\"))') && \\\n    make",
                   "RUN site=$(python3 -c 'import sysconfig; "
                   "print(sysconfig.get_path(\"purelib\", \"posix_local\"))') && \\\n    make"),
        CHECK,
    ),
    "P17-packages-from-a-network": (
        dockerfile("FROM base AS loader\n",
                   "FROM base AS loader\nRUN apt-get update && apt-get install -y curl\n"),
        CHECK,
    ),
    "P20-a-bare-digest-behind-FROM": (
        dockerfile("FROM ${BASE_RUNTIME} AS base", f"FROM {DIGEST} AS base"), CHECK,
    ),
    "P20-a-tag-behind-FROM": (
        dockerfile("FROM ${BASE_RUNTIME} AS base", "FROM nvidia/cuda:13.0.1-devel AS base"), CHECK,
    ),
    "P21-a-patch-that-is-not-the-pinned-one": (
        patch(lambda text: text.replace("Subject: ", "Subject: again, ", 1)), CHECK,
    ),
    "P22-a-commit-that-nobody-has": (gone, CHECK),
    "P22-a-commit-that-the-lane-does-not-name": (
        edit(LOCK, (KERN, "9" * 40), lock=False), CHECK,
    ),
    "P22-a-tree-that-is-another": (locked_value("tree", "7" * 40), CHECK),
    "P24-a-build-folder-for-all-stacks": (
        dockerfile("RUN --network=none \\\n    site=$(python3 -c 'import sysconfig; "
                   "print(sysconfig.get_path(\"purelib\", \"posix_local\"))') && \\\n    make",
                   "RUN --network=none --mount=type=cache,target=/src/kern/build \\\n"
                   "    site=$(python3 -c 'import sysconfig; "
                   "print(sysconfig.get_path(\"purelib\", \"posix_local\"))') && \\\n"
                   "    cmake -S /src/kern -B /src/kern/build && make"),
        CHECK,
    ),
    "P25-a-failure-behind-export": (
        dockerfile("    export SOURCE_DATE_EPOCH=315532800 && \\",
                   "    export SOURCE_DATE_EPOCH=$(jq -r .time /src/minipkg/release.json) && \\"),
        CHECK,
    ),
    "P29-a-token-in-a-url": (
        lane('url = "./.demo/sources/loader.git"', f'url = "https://me:{TOKEN}@github.com/a/b"'),
        CHECK,
    ),
    "P29-a-token-in-the-dockerfile": (
        dockerfile("ENV CUDA_HOME=/usr/local/cuda PATH", f"ENV GIT_TOKEN={TOKEN} PATH"), CHECK,
    ),
    "P29-a-token-in-a-build-argument": (
        lane('python = "3.11"', f'python = "3.11"\nargs = {{ GIT_TOKEN = "{TOKEN}" }}', lock=True),
        CHECK,
    ),
    "T1-a-transport-that-runs-commands": (
        lane('url = "./.demo/sources/loader.git"', 'url = "ext::sh -c touch% /tmp/x"'), CHECK,
    ),
    "T2-a-key-with-a-typing-error": (lane("cuda-arch-list", "cuda-arch-lists"), CHECK),
    "T3-a-frontend-without-a-digest": (
        dockerfile("# imgbuild's demo: two", "# syntax=docker/dockerfile:1.7\n# two"), CHECK,
    ),
    "T4-a-gate-for-a-source-that-is-not-there": (lane('source = "kern"', 'source = "kren"'), CHECK),
    "T5-what-the-context-does-not-hold": (
        edit(DOCKERFILE, ("sources/kern-rest.tar", "sources/kern.tar"),
             ("COPY --from=loader", "COPY serve.sh /\nCOPY --from=loader")),
        CHECK,
    ),
    "T6-a-stage-by-nearly-its-name": (
        dockerfile("COPY --from=minipkg", "COPY --from=minipkgg"), CHECK,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_replay(replay: Replay, name: str) -> None:
    broken, command = CASES[name]
    broken(replay.place)
    replay.expect(name, *command)


def test_all_findings_at_once(replay: Replay) -> None:
    """Three causes of three kinds, one answer."""
    replay.place.edit(LANE, ("_PREPARED_LAUNCHERS", "KERN_PREPARED_LAUNCHER"))
    replay.place.edit(
        DOCKERFILE,
        *WITHOUT_DEV,
        ("TORCH_CUDA_ARCH_LIST=${TORCH_CUDA_ARCH_LIST}", "TORCH_CUDA_ARCH_LIST=12.0a"),
    )
    locked_folder(replay.place)
    text = (replay.place.root / LOCK).read_text()
    replay.place.good("lock", "demo")
    assert (replay.place.root / LOCK).read_text() == text
    report = json.loads(replay.place.run("check", "demo", "--json").out)
    codes = {found["code"] for found in report[0]["findings"]}
    assert codes == {"gate-marker", "package-not-installed", "arch-differs"}


def staged(place: Workplace) -> dict[str, str]:
    report = json.loads(place.good("stage", "demo", "--json").out)
    return {a["path"]: a["sha256"] for a in report["archives"]} | {"context": report["context"]}


@pytest.fixture(scope="module")
def before(sketch: Workplace) -> dict[str, str]:
    """What is staged of the demo as it is."""
    return staged(sketch)


def test_s6_files_that_a_mac_leaves(replay: Replay, before: dict[str, str]) -> None:
    for name in ("._Dockerfile", ".DS_Store"):
        (replay.place.root / "docker-images/demo" / name).write_bytes(b"Mac OS X")
    assert staged(replay.place) == before
    assert not [p for p in Path(before["context"]).rglob("*") if p.name.startswith("._")]


def test_s11_an_identical_deps_set_is_the_same_tarball(
    replay: Replay, before: dict[str, str]
) -> None:
    replay.place.edit(LANE, ('python = "3.11"', 'python = "3.11"\nargs = { MAX_JOBS = "2" }'))
    replay.place.good("lock", "demo")
    after = staged(replay.place)
    assert after["deps/deps-src.tar.gz"] == before["deps/deps-src.tar.gz"]


def test_p28_the_same_bytes_whatever_the_machine_is_set_to(
    replay: Replay, before: dict[str, str], tmp_path: Path
) -> None:
    config = tmp_path / "gitconfig"
    config.write_text("[core]\nautocrlf = true\n[tar]\numask = 077\n")
    env = {**replay.place.env, "GIT_CONFIG_GLOBAL": str(config), "TZ": "Pacific/Auckland"}
    env["IMGBUILD_CACHE"] = str(tmp_path / "cache")
    other = Workplace(replay.place.root, env, umask=0o077)
    packages = Path(replay.place.env["IMGBUILD_CACHE"]) / "files"
    (tmp_path / "cache").mkdir()
    shutil.copytree(packages, tmp_path / "cache/files", copy_function=os.link)
    after = staged(other)
    assert {p: d for p, d in after.items() if p != "context"} == {
        p: d for p, d in before.items() if p != "context"
    }
