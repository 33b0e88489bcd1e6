"""What a gate on the log sees of real builds: of this one, and of those that filled the cache."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import pytest

from builder.model.values import BuildRequest, Verdict
from builder.steps.dockerfile import parse
from builder.steps.gates import LaneFacts, build_log, examine
from builder.steps.gates.log import Log
from builder.steps.rebuild_stages import BuildInputs
from builder.steps.step_inputs import run_inputs
from builder.tools import buildx
from tests.integration.conftest import EPOCH, Bench

pytestmark = pytest.mark.docker

DOCKERFILE = """\
# escape=\\
ARG BASE_SMALL
FROM ${BASE_SMALL} AS Native
ARG NONCE
WORKDIR /src
COPY msg later /src/
RUN cat \\
    /src/msg | cat >/src/out; cat /src/msg
RUN cat /src/later
RUN cat /src/later
FROM ${BASE_SMALL} AS unused
RUN exit 1
FROM ${BASE_SMALL}
ARG NONCE
RUN --mount=type=bind,from=native,source=/src,target=/s <<END
cat /s/out | cat
echo and the last
END
COPY --from=native /src/out /
COPY own /
"""


@dataclass
class Builds:
    """Builds of one Dockerfile, one after another; `look` sees the log of the last one."""

    bench: Bench
    folder: Path
    tag: str
    text: str = DOCKERFILE
    logs: list[Path] = field(default_factory=list)
    nonce: str = field(default_factory=lambda: uuid.uuid4().hex)

    def build(self, **files: str) -> None:
        context = self.folder / f"{len(self.logs)}"
        context.mkdir()
        (context / "Dockerfile").write_text(self.text)
        for name, content in files.items():
            (context / name).write_text(content)
        args = {
            "BASE_SMALL": self.bench.base, "NONCE": self.nonce, "SOURCE_DATE_EPOCH": str(EPOCH),
        }  # fmt: skip
        held = {name: sha256(content.encode()).hexdigest() for name, content in files.items()}
        inputs = BuildInputs(parse(self.text.encode(), Path("Dockerfile")), held, {}, args)
        log = self.folder / f"{len(self.logs)}.log"
        notes = tuple(map(str, run_inputs(inputs, self.bench.platform)))
        request = BuildRequest(
            context, {}, args, {}, self.tag, self.bench.platform, log, notes=notes
        )
        buildx.build(request, say=lambda _: None)
        self.logs.insert(0, log)

    def look(self, gate: Log) -> Verdict:
        facts = LaneFacts("demo", logs=tuple(self.logs))
        (verdict,) = examine((gate,), self.tag, engine=self.bench.engine, facts=facts)
        return verdict


@pytest.fixture
def builds(bench: Bench, tag: str, tmp_path: Path) -> Builds:
    return Builds(bench, tmp_path, tag)


BAD, GOOD = "Not building NVFP4\n", "Building NVFP4\n"


@pytest.mark.parametrize("stage", ["", "native", "Native", "stage-2"])
def test_a_cached_step_is_not_judged_by_the_log_of_another(builds: Builds, stage: str) -> None:
    gate = Log(must_not=("Not building",), stage=stage)
    builds.build(msg=BAD, later="x\n", own="1")
    assert builds.look(gate).seen == f"a line that must not be there: {BAD.strip()}"
    builds.build(msg=GOOD, later="x\n", own="1")
    assert builds.look(gate).passed
    builds.build(msg=BAD, later="x\n", own="2")  # the RUNs come from the cache, or ran again
    assert "cached: RUN" in builds.logs[0].read_text()
    assert builds.look(gate).seen == f"a line that must not be there: {BAD.strip()}"
    del builds.logs[2]  # what is left is the other one's
    assert builds.look(gate).seen.startswith("could not look: steps of ")


def test_every_run_is_known_by_the_name_that_buildkit_gives_it(builds: Builds) -> None:
    builds.build(msg=GOOD, later="x\n", own="1")
    builds.build(msg=GOOD, later="x\n", own="2")
    log = build_log.read(builds.logs)
    assert {str(step): lines for step, lines in log.printed.items()} == {
        "native 4/6": (GOOD.strip(),),
        "native 5/6": ("x",),
        "native 6/6": ("x",),
        "stage-2 2/4": (GOOD.strip(), "and the last"),
    }
    assert (log.unseen, log.clipped) == ((), ())
    del builds.logs[1]
    assert sorted(map(str, build_log.read(builds.logs).unseen)) == [
        "native 4/6", "native 5/6", "native 6/6", "stage-2 2/4",
    ]  # fmt: skip


def test_equal_instructions_and_a_stage_that_is_alone(builds: Builds) -> None:
    builds.text = (
        "ARG BASE_SMALL\nFROM ${BASE_SMALL} AS Only\nARG NONCE\n"
        "RUN if [ -e /opt/x ]; then echo well; else echo bad; touch /opt/x; fi\n"
        "RUN if [ -e /opt/x ]; then echo well; else echo bad; touch /opt/x; fi\nCOPY own /\n"
    )
    for own in ("1", "2"):
        builds.build(own=own)
        assert not builds.look(Log(must_not=("bad",))).passed
        assert not builds.look(Log(must_not=("bad",), stage="only")).passed
        assert builds.look(Log(must=("bad", "well"), stage="Only")).passed


def test_a_log_that_the_engine_cuts_off_is_whole_or_said_to_be_cut(builds: Builds) -> None:
    builds.text = (
        "ARG BASE_SMALL\nFROM ${BASE_SMALL}\nARG NONCE\nRUN seq 600000; echo 'Not 'building\n"
    )
    builds.build()
    verdict = builds.look(Log(must_not=("Not building",)))
    assert not verdict.passed
    assert verdict.seen in (
        "a line that must not be there: Not building",
        "could not look: the engine cut off what stage-0 2/2 printed",
    )


def test_an_engine_that_cuts_logs_off(builds: Builds) -> None:
    """The engine that answers may have no limit; its words then come from a program."""
    builds.text = (
        "ARG BASE_SMALL\nFROM ${BASE_SMALL}\nARG NONCE\n"
        "RUN echo a; echo '[output clipped, log limit 2MiB reached]'\n"
    )
    builds.build()
    verdict = builds.look(Log(must_not=("b",)))
    assert verdict.seen == "could not look: the engine cut off what stage-0 2/2 printed"
