"""What a log shows of stages."""

from __future__ import annotations

import io
from typing import cast

import pytest

from builder.cli.progress import LiveProgress, PlainProgress, _LiveLine
from builder.model.values import BuildStep, Record, StageTime, Verdict
from builder.pipeline.recording import last_times
from builder.pipeline.timeline import Timeline
from builder.ports import Records


def test_a_stage_in_a_log() -> None:
    """The time of the last run is the stage's, and not that of the step beside it."""
    out = io.StringIO()
    with PlainProgress(out).stage("build") as line:
        line.expect(780)
        line.say("kern-cuda 3/7 RUN make")
        line.say("minipkg 1/4 RUN pip")
        line.done("kern-cuda 7.3 s")
    assert out.getvalue().splitlines() == [
        "  .. build      kern-cuda 3/7 RUN make  (build took 13 min 0 s last time)",
        "  .. build      minipkg 1/4 RUN pip",
        "  ok build      kern-cuda 7.3 s",
    ]


def test_a_stage_whose_result_is_bad() -> None:
    out = io.StringIO()
    with PlainProgress(out).stage("patches") as line:
        line.done("3 patches, 1 failed", good=False)
    with pytest.raises(ValueError), PlainProgress(out).stage("verify") as line:
        raise ValueError
    assert [text[:19] for text in out.getvalue().splitlines()] == [
        "  FAILED patches   ", "  FAILED verify    ",
    ]  # fmt: skip


def test_a_bad_result_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for good, glyph in ((True, "✓"), (False, "✗")):
        with LiveProgress().stage("patches") as line:
            line.done("3 patches", good=good)
        assert glyph in capsys.readouterr().err


def run(number: int, took: float, *ran: str, cached: tuple[str, ...] = ()) -> Record:
    steps = [BuildStep(name, "RUN make", 1.0, name in cached) for name in (*ran, *cached)]
    stages = (StageTime("build", took, ""), StageTime("gates", 2.5, ""))
    verdicts = (Verdict("marker", "x", True, ""),)
    return Record(
        f"2025010{number}", "demo", "b", "built", "", took, stages, tuple(steps), verdicts
    )


class Runs:
    def __init__(self, *runs: Record) -> None:
        self._runs = runs

    def runs(self, _lane: str | None = None) -> tuple[Record, ...]:
        return self._runs


def test_the_time_of_a_build_is_that_of_the_last_one_that_did_the_same() -> None:
    """Not of one that had the compiler's work in its cache."""
    runs = Runs(
        run(1, 780.0, "kern-cuda", "minipkg", ""),
        run(2, 1.9, "minipkg", "", cached=("kern-cuda",)),
        run(3, 0.4, cached=("kern-cuda", "minipkg", "")),
    )
    last = last_times("demo", cast("Records", runs))
    assert sorted(last) == ["build", "gates"]
    assert last["gates"]("") == 2.5
    told = last["build"]
    assert [told(""), told("kern-cuda  FROM base"), told("minipkg  RUN pip")] == [None, None, 1.9]
    assert [told("kern-cuda  RUN make"), told("image  COPY x")] == [780.0, 780.0]
    assert told("newcomer  RUN x") is None  # nothing to compare with


def test_a_stage_hears_its_last_time_as_it_speaks() -> None:
    out = io.StringIO()
    times = {"minipkg  RUN pip": 1.9, "kern-cuda  RUN make": 780.0}
    with Timeline(PlainProgress(out), {"build": times.get}).stage("build") as line:
        for said in times:
            line.say(said)
        line.done("minipkg 1.2 s")
    assert out.getvalue().splitlines()[:2] == [
        "  .. build      minipkg RUN pip  (build took 1.9 s last time)",
        "  .. build      kern-cuda RUN make  (build took 13 min 0 s last time)",
    ]


@pytest.mark.parametrize("name", ["build", "before-build"])
def test_a_line_leaves_room_for_what_a_terminal_types(name: str) -> None:
    """^C at its end must not wrap it: a line drawn anew would stand below a stale one."""
    for width in (40, 60, 80, 200):
        line = _LiveLine(name, width)
        line.say("kern-cuda  RUN make -j 8 " + "字" * 90)
        line.expect(780)
        line._began -= 99
        assert 30 < line.__rich__().cell_len <= width - 3
