"""Every format we read, and how a file's own is told: by its content, never by its name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from builder.errors import Place
from builder.importers import inputs, integration_lock, manifest, merge_stack, pins, source_lock
from builder.importers.kind import JsonKind, unknown_keys
from builder.importers.shape import Node, Reader
from builder.importers.text import ImportInvalid, decode, parse
from builder.model.foreign import Read

SOURCE_LOCK = "source-lock"
JSON_KINDS: Mapping[str, JsonKind] = {
    "integration-lock": integration_lock.KIND,
    "merge-stack": merge_stack.KIND,
    "manifest": manifest.KIND,
    "sparkring-pins": pins.KIND,
    "sparkring-inputs": inputs.KIND,
}
FORMATS: tuple[str, ...] = (SOURCE_LOCK, *JSON_KINDS)


def read(data: bytes, file: Path) -> Read:
    """Read a foreign file of any format strictly. Raises: ImportInvalid with every finding."""
    text = decode(data, file)
    if not text.lstrip(" \t\r\n").startswith(("{", "[")):
        lock, warnings = source_lock.read(text, file)
        return Read(file, SOURCE_LOCK, data, lock, warnings)
    json = parse(text, file)
    name = _recognised(json.value, file)
    reader = Reader(file, json)
    document = JSON_KINDS[name].read(reader)
    assert isinstance(document, Node)
    return Read(file, name, data, document, unknown_keys(document, file, json))


def _recognised(value: object, file: Path) -> str:
    """The format most of whose marks the file has, and at least half of them."""
    if isinstance(value, Mapping):
        share = {
            name: len(kind.marks & value.keys()) / len(kind.marks)
            for name, kind in JSON_KINDS.items()
        }
        best = max(share, key=lambda name: share[name])
        if share[best] >= 0.5 and list(share.values()).count(share[best]) == 1:
            return best
    known = "\n".join(f"{name}: {kind.about}" for name, kind in JSON_KINDS.items())
    raise ImportInvalid(
        "is none of the formats that can be imported",
        detail=f"{SOURCE_LOCK}: key=value lines (*.source.lock)\n{known}",
        place=Place(file, 1),
    )
