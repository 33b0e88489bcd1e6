"""The same inputs give the same image, its labels included, on both stores."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from builder.model.label_names import BUILD_ID, CREATED, PROVEN
from builder.model.proven import digest_of, is_derived
from builder.model.values import BuildRequest, BuiltImage, PassedGates
from builder.steps.image import RECORD, dockerfile
from builder.steps.labels import (
    OnBuildLeft,
    candidate_reference,
    drop_candidates,
    label,
)
from builder.tools import docker_cli, push_source
from tests.integration.conftest import EPOCH, Bench

pytestmark = pytest.mark.docker
LABELS = {"io.imgbuild.lane": "test", "org.opencontainers.image.title": "with spaces = and so"}
DOCKERFILE = b"""\
ARG BASE_SMALL
FROM ${BASE_SMALL} AS one
RUN mkdir -p /out/opt/x && echo hi >/out/opt/x/hi && find /out -exec touch -h -d @315532800 {} +
FROM ${BASE_SMALL}
COPY --from=one /out/ /
ENV A=b
USER 1000
CMD ["sh"]"""


def candidate(bench: Bench, folder: Path, run: str, *more: bytes) -> BuiltImage:
    """Build anew, with the files of /opt/imgbuild in the context and another clock."""
    record = folder / RECORD
    record.mkdir(parents=True)
    (record / "inputs.json").write_text("{}")
    (folder / "Dockerfile").write_bytes(dockerfile(b"\n".join([DOCKERFILE, *more])))
    for path in (record / "inputs.json", record, record.parent, record.parent.parent):
        docker_cli.process.run(["touch", "-d", "@315532800", path], env={"PATH": "/usr/bin:/bin"},
                               timeout_s=10)  # fmt: skip
    request = BuildRequest(
        folder, {}, {"BASE_SMALL": bench.base, "SOURCE_DATE_EPOCH": str(EPOCH)}, {},
        candidate_reference("imgbuild-test", run), bench.platform, folder.with_suffix(".log"),
        no_cache=True,
    )  # fmt: skip
    image, steps = bench.engine.build(request, say=lambda _: None)
    return BuiltImage(image, request.tag, request.log, steps)


def history(image: str) -> list[str]:
    return docker_cli.run("history", "--no-trunc", "--format", "{{.CreatedBy}}", image).text.split(
        "\n"
    )


def test_two_builds_at_different_times_are_one_image(
    each_store: Bench, tag: str, tmp_path: Path
) -> None:
    engine, ids, candidates = each_store.engine, [], []
    for run in ("1", "2"):
        built = candidate(each_store, tmp_path / run, f"{run}-{tag.rpartition(':')[2]}")
        candidates.append(built.id)
        before, lines = engine.image(built.id), history(built.id)
        done = label(
            PassedGates(built, ()), LABELS, [tag], platform=each_store.platform, epoch=EPOCH,
            engine=engine,
        )  # fmt: skip
        after = engine.image(tag)
        assert before is not None
        assert after is not None
        assert (after.id, after.layers) == (done.id, before.layers)
        assert (
            after.labels
            == {**LABELS, PROVEN: digest_of(before)}
            == {**LABELS, PROVEN: digest_of(after)}
        )
        assert after.env["A"] == "b"
        assert history(tag) == lines  # no further entry
        assert after.created == "2025-09-12T16:00:00+00:00"
        assert engine.image(built.reference) is None
        ids.append(done.id)
        time.sleep(1.1 if run == "1" else 0)
    assert len(set(ids)) == 1
    assert len(set(candidates)) == 1
    assert not [t for i in engine.images("imgbuild-candidate") for t in i.tags if tag[-20:] in t]
    with engine.read_tree(tag, ["opt"]) as files:
        content = {file.path: reader.read() for file, reader in files if reader}
    assert content == {"opt/imgbuild/inputs.json": b"{}", "opt/x/hi": b"hi\n"}


def test_what_loses_its_last_name_goes(each_store: Bench, tag: str, tmp_path: Path) -> None:
    engine, kept, seen = each_store.engine, f"{tag}-kept", []
    for run, names in (("1", [tag, kept]), ("2", [tag]), ("3", [tag])):
        reference = candidate_reference("imgbuild-test", run)
        built = engine.relabel(
            each_store.base, {}, platform=each_store.platform, epoch=1, tag=reference,
            log=tmp_path / "log",
        )  # fmt: skip
        passed = PassedGates(BuiltImage(built, reference, tmp_path / "log", ()), ())
        done = label(
            passed, {"run": run}, names, platform=each_store.platform, epoch=EPOCH, engine=engine
        )
        seen.append(done.id)
    assert [engine.image(image) is not None for image in seen] == [True, False, True]
    assert engine.image(kept) is not None
    assert engine.image(each_store.base) is not None


@pytest.mark.parametrize(
    "behind", ["RUN touch /new", "ENV A=c", "USER root", 'ENTRYPOINT ["id"]', "LABEL a=b"]
)
def test_onbuild_is_not_run_by_labelling(
    bench: Bench, tag: str, tmp_path: Path, behind: str
) -> None:
    built = candidate(
        bench, tmp_path / "c", f"onbuild-{bench.store}", b"USER 0", f"ONBUILD {behind}".encode()
    )
    with pytest.raises(OnBuildLeft) as error:
        label(
            PassedGates(built, ()), LABELS, [tag], platform=bench.platform, epoch=EPOCH,
            engine=bench.engine,
        )  # fmt: skip
    assert f"ONBUILD {behind}" in str(error.value)
    assert bench.engine.image(tag) is None
    assert bench.engine.image(built.reference) is not None  # to look into
    drop_candidates("imgbuild-test", keep="", ended=lambda _: True, engine=bench.engine)
    assert bench.engine.image(built.reference) is None


def test_what_is_built_on_a_proven_image_inherits_its_labels_only(
    each_store: Bench, tag: str, tmp_path: Path
) -> None:
    """Another file, and no more than another variable: neither is the image that gates saw."""
    engine = each_store.engine
    built = candidate(each_store, tmp_path / "c", f"derive-{tag.rpartition(':')[2]}")
    labels = {**LABELS, BUILD_ID: "ab" * 32, CREATED: "2025-09-12T16:00:00Z"}
    label(
        PassedGates(built, ()), labels, [tag], platform=each_store.platform, epoch=EPOCH,
        engine=engine,
    )  # fmt: skip
    proven = engine.image(tag)
    assert proven
    assert not is_derived(proven.labels, digest_of(proven), proven.created)
    source = push_source.DockerSource().find(tag)
    assert source
    assert source.digest == digest_of(proven)  # both ways to describe it say the same
    for number, line in enumerate(("ENV A=other", "COPY --chmod=644 new /new")):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "new").write_text("new")
        (folder / "Dockerfile").write_text(f"FROM {tag}\n{line}\n")
        request = BuildRequest(
            folder, {}, {}, {}, f"{tag}-derived", each_store.platform, tmp_path / "log"
        )
        image, _ = engine.build(request, say=lambda _: None)
        found = engine.image(image)
        assert found
        assert found.labels == proven.labels
        assert is_derived(found.labels, digest_of(found), found.created)
    engine.untag(f"{tag}-derived")


def test_what_a_base_holds_behind_onbuild_is_in_the_candidate(
    bench: Bench, tag: str, tmp_path: Path
) -> None:
    (tmp_path / "Dockerfile").write_text(
        f"FROM {bench.base} AS base\nONBUILD ENV FROM_BASE=1\nONBUILD RUN touch /opt/triggered\n"
        "FROM base\n"
    )
    reference = candidate_reference("imgbuild-test", f"base-{bench.store}")
    request = BuildRequest(tmp_path, {}, {}, {}, reference, bench.platform, tmp_path / "log")
    image, steps = bench.engine.build(request, say=lambda _: None)
    before = bench.engine.config(image)
    label(
        PassedGates(BuiltImage(image, reference, request.log, steps), ()), LABELS, [tag],
        platform=bench.platform, epoch=EPOCH, engine=bench.engine,
    )  # fmt: skip
    assert "FROM_BASE=1" in str(before["Env"])
    assert bench.engine.config(tag) == {
        **before, "Labels": {**LABELS, PROVEN: bench.engine.config(tag)["Labels"][PROVEN]}
    }  # fmt: skip
