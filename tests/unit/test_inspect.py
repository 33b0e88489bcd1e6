"""What an image says of itself: what it was made of, and whether it is the one that was proven."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, cast

from builder.cli.commands import inspect
from builder.engine_ports import Engine
from builder.model.label_names import BUILD_ID, GATES, PROVEN
from builder.model.lane import Lane
from builder.model.proven import digest_of
from builder.model.schema import Reader
from builder.model.values import ImageFile, ImageInfo
from builder.pipeline.inspect import made_of
from builder.steps import identity
from builder.steps.lanes import lock_of
from tests.unit.locks import OBJECTS, lane_table, lock_table


def inputs() -> bytes:
    lane = Reader(Path("x"), "x").read(Lane, lane_table())
    assert lane
    return identity.inputs(lane, lock_of(lock_table(), Path("locks/demo.lock"), "demo"))


class Holding:
    """An engine whose images hold the inputs of a build, or nothing."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    @contextmanager
    def read_tree(
        self, _image: str, roots: Sequence[str]
    ) -> Iterator[Iterator[tuple[ImageFile, IO[bytes] | None]]]:
        row = (ImageFile(roots[0], "file", 0o644, len(self.data)), io.BytesIO(self.data))
        yield iter([row] if self.data else [])


def image(data: bytes) -> ImageInfo:
    layers = ("sha256:1", "sha256:2")
    labels = {BUILD_ID: hashlib.sha256(data).hexdigest(), GATES: "2 of 2"}
    found = ImageInfo("sha256:x", layers, labels, (), {"A": "b"}, "arm64", 1, "")
    return replace(found, labels={**labels, PROVEN: digest_of(found)})


def said(found: ImageInfo, data: bytes) -> str:
    inside = made_of(found, engine=cast("Engine", Holding(data)))
    return "\n".join(inspect._lines(found, inside))


def test_pull_requests_patches_and_deps_are_named() -> None:
    text = said(image(inputs()), inputs()).splitlines()
    rows = [" ".join(line.split()) for line in text]
    assert f"kern #7 {OBJECTS[5]} merged" in rows[rows.index("pull requests") :]
    assert "kern patches/kern/gb10/0001-a.patch applied" in rows[rows.index("patches") :]
    assert any(row.startswith("tinyfmt ") for row in rows[rows.index("deps") :])


def test_inputs_of_another_build_are_not_believed() -> None:
    assert made_of(image(inputs()), engine=cast("Engine", Holding(inputs() + b"\n"))) is None
    assert made_of(image(inputs()), engine=cast("Engine", Holding(b""))) is None


def test_an_image_built_on_a_proven_one_says_so() -> None:
    proven = image(inputs())
    build = proven.labels[BUILD_ID]
    assert "not proven" not in said(proven, inputs())
    derived = replace(proven, layers=(*proven.layers, "sha256:3"))
    assert "not proven" in said(replace(proven, env={"A": "c"}), inputs())
    text = said(derived, inputs())
    assert f"derived from build {build}, not proven" in text
    assert "not proven: they saw what it was built on (2 of 2)" in text
    older = replace(derived, labels={k: v for k, v in proven.labels.items() if k != PROVEN})
    assert "not proven" not in said(older, inputs())  # nothing tells
