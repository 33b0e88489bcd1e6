"""Markers before the build: S1 of the operators' failures, and its like."""

from __future__ import annotations

import pytest

from builder.model.values import ImageFile
from builder.steps.gates import LaneFacts
from builder.steps.gates.gate import Evidence, Seen
from builder.steps.gates.marker import Marker, look, near_names
from builder.steps.gates.reading import Content

# The names of the real file (b12x/comm/pcie/_oneshot_cute.py), in their order.
ONESHOT = b"""\
from b12x.comm.pcie import barrier
_FULL_ROWS_PER_CTA = 4
MAX_RANKS = 8
_PREPARED_ONESHOT_LAUNCHERS: set[tuple[object, ...]] = set()
_PREPARED_FUSED_ONESHOT_LAUNCHERS: set[tuple[object, ...]] = set()
def is_oneshot_launcher_prepared(world_size, dtype):
    return (world_size, dtype) in _PREPARED_ONESHOT_LAUNCHERS
class PCIeOneshotAllReduce: pass
"""
GATE = Marker("B12X_PCIE_ONESHOT_PDL", source="b12x", file="b12x/comm/pcie/_oneshot_cute.py")


def test_a_marker_that_is_gone() -> None:
    verdict = look(GATE, ONESHOT)
    assert not verdict.passed
    assert verdict.gate == "marker"
    assert verdict.about == "b12x: b12x/comm/pcie/_oneshot_cute.py"
    assert verdict.seen == "does not hold 'B12X_PCIE_ONESHOT_PDL'"
    assert verdict.hint.startswith("near names in that file: _PREPARED_ONESHOT_LAUNCHERS (line 4)")


def test_a_marker_that_is_there() -> None:
    verdict = look(Marker(("_PREPARED", "barrier"), source="b12x", file="x.py"), ONESHOT)
    assert verdict.passed
    assert verdict.seen == "holds '_PREPARED', 'barrier'"


def test_a_file_that_moved() -> None:
    paths = ("b12x/__init__.py", "b12x/comm/oneshot/_oneshot_cute.py")
    verdict = look(GATE, None, paths=paths)
    assert verdict.seen == "the source has no such file"
    assert verdict.hint == "did it move to b12x/comm/oneshot/_oneshot_cute.py?"


def test_a_file_that_is_gone() -> None:
    assert look(GATE, None, paths=("README.md",)).hint == "was it renamed or removed?"


@pytest.mark.parametrize(
    ("wanted", "data", "nearest"),
    [
        ("ENABLE_NVFP4", b"set(ENABLE_NVFP4_KERNELS ON)\nset(ENABLE_FP8 ON)", "ENABLE_NVFP4_KERN"),
        ("load_weights", b"def load_weight(self): pass\ndef forward(self): pass", "load_weight "),
        ("KimiAlignerModel", b"class KimiVisionAligner:\n    pass", "KimiVisionAligner"),
    ],
)
def test_near_names(wanted: str, data: bytes, nearest: str) -> None:
    assert near_names(wanted, data)[0].startswith(nearest)


def test_nothing_is_near() -> None:
    assert near_names("B12X_PCIE", b"\x00\xff\nimport os\n") == []
    assert (
        look(GATE, b"").hint == "the source changed: change the marker's `contains`, or its patch"
    )


def judged(gate: Marker, **files: tuple[str, ...]) -> list[tuple[str, bool, str]]:
    seen = tuple(
        Seen(ImageFile(path, "file", 0o644), Content("", frozenset(found)))
        for path, found in files.items()
    )
    verdicts = gate.judge(Evidence(LaneFacts(), {}, (seen,)))
    return [(v.about, v.passed, v.seen) for v in verdicts]


def test_in_the_image() -> None:
    gate = Marker(("one", "two"), image_file="**/x.py")
    assert judged(gate, a=("one", "two")) == [("**/x.py", True, "holds 'one', 'two'")]
    assert judged(gate, a=("one",), b=("one", "two")) == [("a", False, "does not hold 'two'")]
    assert judged(gate) == [("**/x.py", False, "no such file in the image")]


def test_without_image_file_it_asks_nothing_of_the_image() -> None:
    assert GATE.searches() == GATE.probes() == GATE.judge(Evidence()) == ()
