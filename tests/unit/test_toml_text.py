"""What is wrong with a TOML text is a finding with its place, in whatever file it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.errors import Finding, LaneError
from builder.model import toml_text
from builder.model.toml_text import TomlInvalid
from builder.steps import nodes
from builder.steps.lanes import lock_of, read_lane
from builder.steps.patch_files import read_edits
from builder.tools.project import ProjectFolder
from builder.tools.toml import lock_text
from tests.unit.test_lanes import LANE, locked, project

__all__ = ["project"]
WRONG = [
    (b"\xef\xbb\xbfschema = 1\n", "begins with a byte order mark", 1),
    (b"schema = 1\nx = " + b"9" * 10_000 + b"\n", "cannot be read", 2),
    (b"schema = 1\nx = -" + b"9_" * 5000 + b"9\n", "cannot be read", 2),
    (b"schema = 1\nx = 0x" + b"f" * 10_000 + b"\n", "x: is a number of more than 64 bits", 2),
    (b"schema = 1\n[a]\nx = [1, 9223372036854775808]\n", "a.x[1]: is a number of more than", 3),
    (b"schema = 1\nx = 2026-13-01\n", "is not TOML", 2),
    (b"schema = 1\n\xff", "is not UTF-8 text", 2),
    (b"x = " + b"[" * 9000, "is nested too deeply", None),
]


def of_lane(data: bytes, project: ProjectFolder) -> Finding:
    (project.root / "locks/demo.toml").write_bytes(data)
    with pytest.raises(LaneError) as caught:
        read_lane("demo", project=project)
    return caught.value.findings[0]


def of_gates(data: bytes, project: ProjectFolder) -> Finding:
    (project.root / "docker-images/demo/gates.toml").write_bytes(data)
    with pytest.raises(LaneError) as caught:
        read_lane("demo", project=project)
    return caught.value.findings[0]


def of_lock(data: bytes, project: ProjectFolder) -> Finding:
    path = project.root / "locks/demo.lock"
    path.write_bytes(data)
    with pytest.raises(LaneError) as caught:
        lock_of(data, path, "demo")
    return caught.value.findings[0]


def of_nodes(data: bytes, project: ProjectFolder) -> Finding:
    path = project.root / "nodes.toml"
    path.write_bytes(data)
    with pytest.raises(LaneError) as caught:
        nodes.read([(path, data)])
    return caught.value.findings[0]


def of_edits(data: bytes, project: ProjectFolder) -> Finding:
    path = project.root / "x.edits"
    path.write_bytes(data)
    wrong: list[Finding] = []
    assert read_edits(data, path, wrong) is None
    return wrong[0]


@pytest.mark.parametrize("read", [of_lane, of_gates, of_lock, of_nodes, of_edits])
@pytest.mark.parametrize(("data", "what", "line"), WRONG)
def test_a_finding_with_its_place(project, read, data, what, line) -> None:  # type: ignore[no-untyped-def]
    from builder.cli.findings import line_at

    found = read(data, project)
    assert what in found.what
    assert found.place is not None
    assert line_at(found.place) == line
    if "byte order mark" in what:
        assert "sed -i" in found.hint


def test_windows_line_ends_are_read(project: ProjectFolder) -> None:
    plain = read_lane("demo", project=project).lane
    lock = lock_text(locked(plain, project), "demo").encode()
    lane = project.root / "locks/demo.toml"
    lane.write_bytes(LANE.replace("\n", "\r\n").encode())
    assert read_lane("demo", project=project).lane == plain
    path = project.root / "locks/demo.lock"
    assert lock_of(lock.replace(b"\n", b"\r\n"), path, "demo") == lock_of(lock, path, "demo")
    text = b"schema = 1\r\n[nodes.a]\r\n"
    assert nodes.read([(Path("nodes.toml"), text)]).nodes.keys() == {"a"}


def test_numbers_that_fit() -> None:
    assert toml_text.parse(b"x = [-9223372036854775808, 9223372036854775807]")
    with pytest.raises(TomlInvalid):
        toml_text.parse(b"x = -9223372036854775809")
