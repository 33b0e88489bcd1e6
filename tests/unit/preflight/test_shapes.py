"""Dockerfiles as others write them: what is said of each is true, and nothing else is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.preflight.test_dockerfile import found

FOLDER = Path(__file__).parents[2] / "data/dockerfiles"
EXPECTED = {
    "clone-in-a-stage": [
        *["warning network-open 6"] * 2, "warning network-open 14", "warning arch-inherited 32",
        "warning network-open 23", "warning network-open 31",
    ],
    "extensions-then-wheel": [
        *["warning network-open 6"] * 2, "warning arch-differs 19", "warning failure-masked 26",
    ],
    "libraries-around-it": [
        "error from-unpinned 20", "error from-unpinned 21", "warning network-open 5",
    ],
    "list-in-another-stage": [
        "warning arch-missing 9", "warning arch-differs 17", "warning network-open 17",
    ],
    "no-gpu": [],
    "over-a-tested-image": ["error from-empty 3"],
    "wheels-of-a-release": [
        "warning syntax-unpinned 1", *["warning network-open 5"] * 2, "warning failure-masked 5",
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.iterdir()))
def test_exactly_what_is_true_is_said(name: str) -> None:
    assert found((FOLDER / name).read_text()) == EXPECTED[name]
