"""Which stages run again: nothing that does is left out, and what is left out has its reasons."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from builder.model.lane import Lane
from builder.model.schema import Reader
from builder.steps import dockerfile, identity, image, kept, rebuild
from builder.steps.lanes import lock_of
from builder.steps.rebuild_stages import BuildInputs, stage_runs
from builder.tools.files import FileStore
from builder.tools.project import ProjectFolder
from tests.unit.locks import DIGESTS, OBJECTS, lane_table, lock_table

FILE = """\
ARG BASE
ARG FLAVOUR=plain
FROM ${BASE} AS base
FROM base AS native
ARG ARCH
ADD sources/k-native.tar /src/
RUN make
FROM base AS python
ADD ./sources/k-rest.tar sources/m*.tar /src/
COPY <<END /x
sources/other.tar
END
FROM base AS tools
RUN --mount=type=bind,from=debs,target=/debs dpkg -i /debs/*
FROM alpine:${FLAVOUR} AS unused
COPY . /all
FROM tools
COPY --from=native /out /
COPY --from=1 /out2 /
RUN --mount=from=python,target=/p cp /p/x /x
COPY imgbuild/ /
"""
CONTEXT = {"sources/k-native.tar": "1", "sources/k-rest.tar": "1", "sources/m.tar": "1",
           "sources/other.tar": "1", "imgbuild/opt/imgbuild/inputs.json": "1"}  # fmt: skip
ARGS = {"BASE": "b@1", "ARCH": "12.1a"}


def given(
    text: str = FILE, *, args: Mapping[str, str] | None = None, debs: str = "1", path: str = ""
) -> BuildInputs:
    """The inputs, with one file of the context (`path`) changed."""
    read = dockerfile.parse(text.encode(), Path("Dockerfile"))
    context = {**CONTEXT, **({path: "2"} if path else {})}
    return BuildInputs(read, context, {"debs": {"x.deb": debs}}, {**ARGS, **(args or {})})


def runs(before: BuildInputs, after: BuildInputs) -> dict[str, int]:
    """The stages that run, with the line from which they do."""
    return {r.title: r.reasons[0].line for r in stage_runs(before, after) if r.runs}


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (given(), {}),
        (given(path="sources/k-native.tar"), {"native": 6, "image": 18}),
        (given(path="sources/k-rest.tar"), {"python": 9, "image": 20}),
        (given(path="sources/more.tar"), {"python": 9, "image": 20}),
        (given(path="sources/other.tar"), {}),
        (given(path="imgbuild/opt/imgbuild/inputs.json"), {"image": 21}),
        (given(debs="2"), {"tools": 14, "image": 17}),
        (given(args={"ARCH": "12.0a"}), {"native": 5, "image": 18}),
        (given(args={"UNDECLARED": "x"}), {}),
        (given(args={"FLAVOUR": "x"}), {}),  # of a stage that nothing needs
        (given(args={"BASE": "b@2"}),
         {"base": 3, "native": 4, "python": 8, "tools": 13, "image": 17}),
        (given(FILE.replace("RUN make", "RUN make -j")), {"native": 7, "image": 18}),
        (given(FILE.replace("sources/other.tar\n", "x\n")), {"python": 10, "image": 20}),
        (given(FILE.replace("RUN make\n", "")), {"native": 6, "image": 17}),
        (given(FILE.replace("AS tools", "AS utils").replace("FROM tools", "FROM utils")),
         {"utils": 13, "image": 17}),
        (given(FILE.replace("FROM base AS python", "# x\n\nFROM base AS python")), {}),
    ],
)  # fmt: skip
def test_stages(after: BuildInputs, expected: dict[str, int]) -> None:
    assert runs(given(), after) == expected


def lane() -> Lane:
    reader = Reader(Path("x"), "x")
    found = reader.read(Lane, lane_table())
    assert found is not None
    return found


def pipeline(change: dict[str, object]) -> dict[str, tuple[str, ...]]:
    """Why each stage of the pipeline runs when values of the lock change."""
    after = lock_table()
    for path, value in change.items():
        *above, last = path.split("/")
        at: object = after
        for part in above:
            at = at[part]  # type: ignore[index]
        at[last] = value  # type: ignore[index]
    found = []
    for table in (lock_table(), after):
        held = json.loads(identity.inputs(lane(), lock_of(table, Path("x"), "demo")))
        found.append(rebuild.inputs(held, [("Dockerfile", False, "1")], b"FROM scratch\n"))
    return {again.name: again.why for again in rebuild.rebuild(*found).again if again.why}


def test_the_pipeline_in_order() -> None:
    assert pipeline({}) == {}
    moved = pipeline({"sources/loader/commit": OBJECTS[8], "sources/loader/tree": OBJECTS[8],
                      "sources/loader/final/content": DIGESTS[8]})  # fmt: skip
    assert moved["fetch"] == ("sources.loader commit",)
    assert moved["verify"] == ("sources.loader tree",)
    assert moved["stage"] == ("sources/loader.tar", "imgbuild/opt/imgbuild/inputs.json")
    assert "patch" not in moved
    assert moved["gates"] == ("the image",)
    assert moved["label"] == ("the build id",)
    wheel = pipeline({"python/crt/platforms": {
        "linux/amd64": {"filename": "crt-2.whl", "sha256": DIGESTS[8], "size": 1}}})  # fmt: skip
    assert next(iter(wheel)) == "stage"
    assert wheel["stage"][-2:] == ("wheels/crt.whl", "wheels/crt-2.whl")


def test_arguments_and_files_are_those_of_a_build() -> None:
    """rebuild.py says a second time what image.py and assemble.py do: the names must agree."""
    lock = lock_of(lock_table(), Path("x"), "demo")
    held = json.loads(identity.inputs(lane(), lock))
    found = rebuild.inputs(held, [], b"FROM scratch\n")
    bases = dict.fromkeys(lock.base, "x")
    args = image.build_args(lane(), lock, bases)
    assert set(found.build.args) == set(args)
    assert found.build.args["CACHE_FINGERPRINT"] == args["CACHE_FINGERPRINT"]
    assert {p for p in found.build.context if p.startswith("deps/")} == {
        "deps/deps-src.tar.gz", "deps/deps.env", "deps/deps.cmake",
    }  # fmt: skip


def test_a_build_can_be_recalled_by_its_id(tmp_path: Path) -> None:
    folder = tmp_path / "docker-images/demo"
    folder.mkdir(parents=True)
    (tmp_path / "locks").mkdir()
    (folder / "Dockerfile").write_text("FROM scratch\n")
    (folder / "tool").write_text("é")
    (folder / "tool").chmod(0o755)
    project, files = ProjectFolder(tmp_path), FileStore(tmp_path / "cache")
    table = lock_table()
    table["image"]["content"] = image.folder_digest("docker-images/demo", project=project)
    inputs = identity.inputs(lane(), lock_of(table, Path("x"), "demo"))
    build_id = hashlib.sha256(inputs).hexdigest()
    assert kept.recall(build_id, files=files) is None
    kept.keep(inputs, "docker-images/demo", project=project, files=files)
    found = kept.recall(build_id, files=files)
    assert found is not None
    assert found[0] == json.loads(inputs)
    assert found[1:] == (kept.image_rows("docker-images/demo", project=project), b"FROM scratch\n")


def test_a_lane_of_packages_alone_without_a_base() -> None:
    lock = {key: lock_table()[key] for key in ("lock-version", "image", "debs")}
    lane = {
        key: lane_table()[key] for key in ("schema", "image", "repository", "platforms", "build")
    }
    found = rebuild.inputs({"name": "x", "lane": lane, "lock": lock}, (), b"FROM scratch\n")
    assert found.fetch == {}
    assert rebuild.rebuild(found, found).first is None
