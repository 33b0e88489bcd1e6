"""What a RUN is made from: nothing that could change what it prints is left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builder.steps.step_inputs import RunInputs, run_inputs
from tests.unit.test_rebuild import FILE, given

RUNS = ["native 2/2", "tools 1/1", "stage-5 3/4"]


def found(*args: object, platform: str = "linux/arm64", **more: object) -> dict[str, str]:
    runs = run_inputs(given(*args, **more), platform)  # type: ignore[arg-type]
    return {f"{run.stage} {run.number}": run.digest for run in runs}


def moved(*args: object, **more: object) -> list[str]:
    """The RUNs that are made from something else."""
    before, after = found(), found(*args, **more)
    return [name for name in after if before.get(name) != after[name]]


def test_steps_are_named_as_buildkit_does() -> None:
    assert list(found()) == RUNS
    assert str(RunInputs("a", "1/2", "f")) == "a 1/2 f"


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ({}, []),
        ({"path": "sources/k-native.tar"}, ["native 2/2", "stage-5 3/4"]),
        ({"path": "sources/k-rest.tar"}, ["stage-5 3/4"]),
        ({"path": "sources/more.tar"}, ["stage-5 3/4"]),
        ({"path": "sources/other.tar"}, []),
        ({"path": "imgbuild/opt/imgbuild/inputs.json"}, []),  # copied behind the last RUN
        ({"debs": "2"}, ["tools 1/1", "stage-5 3/4"]),
        ({"args": {"ARCH": "12.0a"}}, ["native 2/2", "stage-5 3/4"]),
        ({"args": {"UNDECLARED": "x"}}, []),
        ({"args": {"BASE": "b@2"}}, RUNS),
        ({"platform": "linux/amd64"}, RUNS),
    ],
)  # fmt: skip
def test_inputs(after: dict[str, object], expected: list[str]) -> None:
    assert moved(**after) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("RUN make", "RUN make -j", ["native 2/2", "stage-5 3/4"]),
        ("RUN make", "ENV CC=x\nRUN make", ["native 2/2", "stage-5 3/4"]),
        ("RUN make", "USER 1\nRUN make", ["native 2/2", "stage-5 3/4"]),
        ("RUN make", "RUN make\nRUN after", ["native 3/3", "stage-5 3/4"]),
        ("sources/other.tar\n", "x\n", ["stage-5 3/4"]),
        ("ADD sources/k-native.tar", "ADD --chmod=1 sources/k-native.tar",
         ["native 2/2", "stage-5 3/4"]),
        ("COPY --from=native /out /", "COPY --from=native /out /x", ["stage-5 3/4"]),
        ("COPY imgbuild/ /", "COPY imgbuild/ /\nRUN y", ["stage-5 5/5"]),
        ("FROM base AS native", "# a comment\nFROM base AS native", []),
    ],
)  # fmt: skip
def test_instructions(old: str, new: str, expected: list[str]) -> None:
    before = found().values()
    after = found(FILE.replace(old, new))
    assert [name for name, digest in after.items() if digest not in before] == expected


def test_equal_instructions_are_two_steps() -> None:
    digests = found(FILE.replace("RUN make", "RUN make\nRUN make"))
    assert digests["native 2/3"] == found()["native 2/2"]
    assert digests["native 3/3"] != digests["native 2/3"]


def test_a_stage_that_a_variable_names_may_be_any() -> None:
    text = FILE.replace("COPY --from=native", "ARG S=native\nCOPY --from=$S")
    for change in ({"path": "sources/k-native.tar"}, {"debs": "2"}):
        assert found(text)["stage-5 3/4"] != found(text, **change)["stage-5 3/4"]


def test_what_is_fetched_without_a_digest_is_never_the_same() -> None:
    text = FILE.replace("RUN make", "ADD https://example.org/x /x\nRUN make")
    assert found(text)["native 3/3"] != found(text)["native 3/3"]
    for source in ("HTTPS://example.org/x", "me@example.org:x.git"):  # as check knows them
        other = text.replace("https://example.org/x", source)
        assert found(other)["native 3/3"] != found(other)["native 3/3"]
    checked = text.replace("ADD https", "ADD --checksum=sha256:1 https")
    assert found(checked) == found(checked)


def test_scratch_is_no_step() -> None:
    text = "FROM scratch\nADD x /\nWORKDIR /w\nRUN y\n"
    assert list(found(text)) == ["stage-0 3/3"]
    assert list(found(text.replace("scratch", "a@1"))) == ["stage-0 4/4"]
    base = replace(given(), args={"BASE": "scratch", "ARCH": "x"})
    assert [f"{r.stage} {r.number}" for r in run_inputs(base, "p")] == RUNS
