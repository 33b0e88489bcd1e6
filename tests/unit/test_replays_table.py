"""docs/replays.md against the replays: none missing, none caught later than it must be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/scenarios/replays/golden"
ORDER = ("lock", "verify", "preflight", "stage", "build", "gate", "push")
LOCKING = ("before any stage", "at the lock, before any stage", "sources", "packages")
STAGES = (
    dict.fromkeys(LOCKING, "lock")
    | dict.fromkeys(("fetch", "verify", "compose", "patch", "deps", "online"), "verify")
    | {"preflight": "preflight", "stage": "stage", "build": "build", "gates": "gate"}
)
"""What the output calls a stage, and which one of ORDER it belongs to."""


def rows() -> Iterator[tuple[str, str, list[str], list[str]]]:
    """Number, named, caught and replays of each failure."""
    for line in (ROOT / "docs/replays.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if re.fullmatch(r"[ST]?\d+", cells[0]):
            yield cells[0], cells[2], cells[3].split(", "), cells[4].split(", ")


def stage_of(golden: str) -> str:
    """Where a replay stopped, or was warned of."""
    command, end = (GOLDEN / f"{golden}.txt").read_text().splitlines()[:2]
    if command.split()[2] in ("push", "nodes"):
        return "push"
    where = re.fullmatch(r"(?:stopped|not stopped, warned)(?: in)? (.+), exit \d+", end)
    assert where is not None, end
    return STAGES[where[1]]


@pytest.mark.parametrize("row", list(rows()), ids=lambda row: row[0])
def test_caught_where_the_table_says_and_not_later(
    row: tuple[str, str, list[str], list[str]],
) -> None:
    number, named, caught, replays = row
    goldens = [name for name in replays if not name.startswith("test_")]
    found = {stage_of(name) for name in goldens}
    assert found <= set(caught), number
    assert set(caught) == found or any(name.startswith("test_") for name in replays)
    assert max(map(ORDER.index, caught)) <= ORDER.index(named)


def test_every_failure_has_a_row_and_every_replay_a_place() -> None:
    every = list(rows())
    wanted = [*(f"S{i}" for i in range(1, 14)), *map(str, range(1, 30))]
    assert [number for number, *_ in every if not number.startswith("T")] == wanted
    named = {name for *_, replays in every for name in replays}
    assert {path.stem for path in GOLDEN.glob("*.txt")} == {n for n in named if n[:5] != "test_"}
    code = "".join(p.read_text() for d in ("scenarios/replays", "fleet")
                   for p in (ROOT / "tests" / d).glob("test_*.py"))  # fmt: skip
    assert [n for n in named if n[:5] == "test_" and f"def {n}(" not in code] == []
