"""The kinds of gates, and how their tables are read."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from builder.errors import Finding
from builder.model.schema import KeyPath, RawTable, Reader
from builder.steps.gates.command import Command
from builder.steps.gates.cuda_arch import CudaArch
from builder.steps.gates.entrypoint import Entrypoint
from builder.steps.gates.env import Env
from builder.steps.gates.file import File
from builder.steps.gates.gate import Gate
from builder.steps.gates.headers import Headers
from builder.steps.gates.label import Label
from builder.steps.gates.layers import Layers
from builder.steps.gates.link import Link
from builder.steps.gates.log import Log
from builder.steps.gates.marker import Marker
from builder.steps.gates.package import Package
from builder.steps.gates.pkg_config import PkgConfig
from builder.steps.gates.ptxas import Ptxas
from builder.steps.gates.python import Python
from builder.steps.gates.python_attr import PythonAttr
from builder.steps.gates.secrets import Secrets
from builder.steps.gates.size import Size
from builder.steps.gates.user import User
from builder.steps.gates.wheel_record import WheelRecord

GATES: Mapping[str, type[Gate]] = {
    "marker": Marker,
    "package": Package,
    "file": File,
    "python": Python,
    "python-attr": PythonAttr,
    "wheel-record": WheelRecord,
    "link": Link,
    "headers": Headers,
    "pkg-config": PkgConfig,
    "cuda-arch": CudaArch,
    "ptxas": Ptxas,
    "env": Env,
    "label": Label,
    "entrypoint": Entrypoint,
    "user": User,
    "size": Size,
    "secrets": Secrets,
    "layers": Layers,
    "log": Log,
    "command": Command,
}

Parsed: TypeAlias = tuple[tuple[Gate, ...], tuple[Finding, ...]]


def parse(
    tables: Sequence[object],
    *,
    file: Path,
    at: KeyPath = ("gates",),
    sources: Collection[str] | None = None,
) -> Parsed:
    """The gates of a file's `[[gates]]` tables, and all that is wrong with them.

    With `sources`, a gate on a source must name one of them. Findings have the code "gates".
    """
    reader = Reader(file, "gates")
    gates = []
    for i, table in enumerate(tables):
        gate = _gate(reader, table, (*at, i))
        if gate is not None:
            gates.append(gate)
            _source(reader, gate, sources, (*at, i))
    return tuple(gates), tuple(reader.findings)


def _gate(reader: Reader, table: object, at: KeyPath) -> Gate | None:
    if not isinstance(table, Mapping):
        reader.report(at, "must be a table")
        return None
    kind = _kind(reader, table, at)
    if kind is None:
        return None
    gate = reader.read(kind, {key: table[key] for key in table if key != "kind"}, at)
    if gate is None:
        return None
    faults = tuple(gate.faults())
    for fault in faults:
        reader.report((*at, fault.key), fault.what, fault.hint)
    return None if faults else gate


def _kind(reader: Reader, table: RawTable, at: KeyPath) -> type[Gate] | None:
    name = table.get("kind")
    if isinstance(name, str) and name in GATES:
        return GATES[name]
    known = f"known kinds: {', '.join(GATES)}"
    if name is None:
        reader.report((*at, "kind"), "is missing", known)
    else:
        near = difflib.get_close_matches(str(name), GATES, n=1, cutoff=0.6)
        hint = f"did you mean {near[0]!r}?" if near else known
        reader.report((*at, "kind"), f"unknown kind of gate {name!r}", hint)
    return None


def _source(reader: Reader, gate: Gate, sources: Collection[str] | None, at: KeyPath) -> None:
    named = gate.source if isinstance(gate, Marker | WheelRecord) else ""
    if sources is None or not named or named in sources:
        return
    near = difflib.get_close_matches(named, sources, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]!r}?" if near else f"sources: {', '.join(sorted(sources))}"
    reader.report((*at, "source"), f"the lane has no source {named!r}", hint)
