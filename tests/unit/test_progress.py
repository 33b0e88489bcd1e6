"""What a log shows of stages."""

from __future__ import annotations

import io

import pytest

from builder.cli.progress import LiveProgress, PlainProgress


def test_a_stage_in_a_log() -> None:
    """The time of the last run is the stage's, and not that of the step beside it."""
    out = io.StringIO()
    with PlainProgress(out).stage("build", last_s=780) as line:
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
