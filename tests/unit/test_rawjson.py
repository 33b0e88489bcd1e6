"""Decoding what buildx tells, from recordings of buildx 0.13.1."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from builder.tools.rawjson import LogLine, Vertices, decode, printable

RECORDED = Path(__file__).parents[1] / "data/rawjson"


def heard(name: str) -> tuple[Vertices, list[str], list[str]]:
    """The vertices, the log lines and the plain text of a recording."""
    vertices, logs, texts = Vertices(), [], []
    with (RECORDED / name).open("rb") as lines:
        for message in decode(lines):
            if isinstance(message, str):
                texts.append(message)
            else:
                logs += [e.text for e in vertices.apply(message) if isinstance(e, LogLine)]
    return vertices, logs, texts


def test_steps_have_stage_instruction_time_and_cache() -> None:
    steps = heard("two-stages.txt")[0].steps()
    by_name = {step.name: step for step in steps}
    assert by_name["RUN echo hiRUN <<X"].stage == "a"
    run = by_name['RUN echo ok; sleep 1; printf "a\\rb\\rc"']
    assert (run.stage, run.cached) == ("b", False)
    assert run.seconds == pytest.approx(1.07, abs=0.01)
    assert by_name["COPY --from=b /bin/ls /q"].stage == ""  # BuildKit's "stage-2"
    assert by_name["FROM docker.io/library/imgbuild-base:d1121b641876"].cached
    assert not any("internal" in step.name for step in steps)


def test_steps_stand_stage_after_stage_by_their_lines() -> None:
    """BuildKit tells of them in any order."""
    told = [
        ("[stage-2 1/2] FROM c", 9), ("exporting to image", 10), ("[b 3/3] RUN three", 6),
        ("[a 2/2] RUN a", 5), ("[b 1/3] FROM c", 2), ("[b 2/3] RUN two", 3), ("[a 1/2] FROM c", 1),
        ("[stage-2 2/2] COPY x", 9),
    ]  # fmt: skip
    vertices = Vertices()
    for name, second in told:
        at = f"2025-01-01T00:00:{second:02}Z"
        [*vertices.apply({"vertexes": [
            {"digest": name, "name": name, "started": at, "completed": at}]})]  # fmt: skip
    assert [(step.stage, step.name) for step in vertices.steps()] == [
        ("a", "FROM c"), ("a", "RUN a"), ("b", "FROM c"), ("b", "RUN two"), ("b", "RUN three"),
        ("", "FROM c"), ("", "COPY x"), ("", "exporting to image"),
    ]  # fmt: skip


def test_log_lines_are_whole_and_show_the_last_state_of_a_drawn_line() -> None:
    assert heard("two-stages.txt")[1] == ["hiRUN", "ok", "c"]


def test_the_step_that_failed_is_told_from_those_that_were_canceled() -> None:
    vertices, logs, texts = heard("compile-error.txt")
    failed = [v for v in vertices.by_digest.values() if v.failed]
    canceled = [v for v in vertices.by_digest.values() if v.error and not v.failed]
    assert [v.stage for v in failed] == ["kern-cuda"]
    assert [v.stage for v in canceled] == ["other"]
    assert failed[0].lines[1] == 'cast.cu(3): error: identifier "foo" is undefined'  # no colours
    assert logs == [*failed[0].lines]
    assert texts[0] == "Dockerfile:7"
    assert texts[-1].startswith("ERROR: failed to solve: ")


def test_one_object_a_line_as_newer_buildx_writes() -> None:
    compact = []
    for message in decode((RECORDED / "two-stages.txt").read_bytes().splitlines(keepends=True)):
        assert not isinstance(message, str)
        compact.append(json.dumps(message).encode() + b"\n")
    assert list(decode(compact)) == list(
        decode((RECORDED / "two-stages.txt").read_bytes().splitlines())
    )


def test_what_is_no_json_is_text() -> None:
    said = list(decode([b"{\n", b'  "logs": [\n', b"}\n", b"{broken\n", b"WARN x\n", b"{\n"]))
    assert said == ["{", '  "logs": [', "}", "{broken", "WARN x", "{"]


def test_a_line_that_comes_in_pieces_is_one_line() -> None:
    vertices = Vertices()
    list(vertices.apply({"vertexes": [{"digest": "d", "name": "[1/2] RUN x"}]}))

    def log(data: bytes) -> list[object]:
        text = base64.b64encode(data).decode()
        return list(vertices.apply({"logs": [{"vertex": "d", "data": text}]}))

    assert log(b"nvcc ca") == []
    assert log(b"st.cu\nnext") == [LogLine("d", "nvcc cast.cu")]
    told = {"digest": "d", "name": "[1/2] RUN x", "started": "2026-01-01T00:00:00Z",
            "completed": "2026-01-01T00:00:00.123456789Z"}  # fmt: skip
    assert LogLine("d", "next") in list(vertices.apply({"vertexes": [told]}))
    assert vertices.by_digest["d"].seconds == pytest.approx(0.123456)


@pytest.mark.parametrize(
    "log", [{"vertex": "nobody", "data": "eA=="}, {"vertex": "d", "data": "%"}]
)
def test_logs_that_make_no_sense_are_left_out(log: dict[str, str]) -> None:
    vertices = Vertices()
    list(vertices.apply({"vertexes": [{"digest": "d", "name": "x"}]}))
    assert list(vertices.apply({"logs": [log]})) == []


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]52;c;aGk=\x07copied", "copied"),
        ("bell\x07", "bell\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("abc\u202egpj", "abc\\u202egpj"),
        ("a\tb", "a    b"),
        ("übersicht ✓", "übersicht ✓"),
    ],
)
def test_what_comes_from_outside_is_made_printable(raw: str, shown: str) -> None:
    assert printable(raw) == shown
