"""Read what stands in a patch set beside the series: `patches.toml`, and text edits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from builder.errors import Finding, Place
from builder.model import toml_text
from builder.model.patch_sets import Condition, EditFile, PatchOptions, PatchSetFile
from builder.model.schema import Reader
from builder.model.toml_text import TomlInvalid

OPTIONS = "patches.toml"
EDITS = ".edits"
CODE = "patch-set"

T = TypeVar("T")


def read_options(
    data: bytes | None, file: Path, listed: Sequence[str], wrong: list[Finding]
) -> Mapping[str, PatchOptions]:
    """The options of a set's patches by name; what is wrong is added to `wrong`."""
    if data is None:
        return {}
    read = _read(PatchSetFile, data, file, wrong)
    if read is None:
        return {}
    for name, options in sorted(read.patch.items()):
        at = ("patch", name)
        if name not in listed:
            what, hint = f"{name} is in no line of the series", "list it there, or take this out"
            wrong.append(Finding(CODE, what, hint, place=Place(file, key=at)))
        if options.three_way and name.endswith(EDITS):
            wrong.append(Finding(CODE, f"{name}: text edits cannot be merged", place=Place(file)))
        for key, condition in (("when", options.when), ("obsolete-if", options.obsolete_if)):
            if condition is not None and _asks(condition) != 1:
                what = f"{name}: {key} needs exactly one of holds, lacks and absent = true"
                wrong.append(Finding(CODE, what, place=Place(file, key=(*at, key))))
    return read.patch


def read_edits(data: bytes, file: Path, wrong: list[Finding]) -> EditFile | None:
    """A file of text edits; None when something is wrong with it, which is added to `wrong`."""
    read = _read(EditFile, data, file, wrong)
    if read is None:
        return None
    found = list(_edit_findings(read, file))
    wrong += found
    return None if found else read


def _edit_findings(read: EditFile, file: Path) -> Iterator[Finding]:
    if not read.edit:
        yield Finding(CODE, f"{file}: it holds no [[edit]]", place=Place(file))
    for i, edit in enumerate(read.edit):
        place = Place(file, key=("edit", i))
        if not edit.find:
            yield Finding(CODE, f"{file}: edit {i + 1} has nothing to find", place=place)
        if edit.count < 1:
            yield Finding(CODE, f"{file}: edit {i + 1}: count must be 1 or more", place=place)
        if edit.find == edit.replace:
            yield Finding(CODE, f"{file}: edit {i + 1} changes nothing", place=place)
        if edit.file.rpartition("/")[2].lower() == ".gitattributes":
            what = f"{file}: changes {edit.file}, which tells git to run filters"
            yield Finding("patch-attributes", what, "leave that file out", place=place)


def _read(kind: type[T], data: bytes, file: Path, wrong: list[Finding]) -> T | None:
    try:
        raw = toml_text.parse(data)
    except TomlInvalid as bad:
        wrong.append(bad.finding(CODE, file))
        return None
    reader = Reader(file, CODE)
    read = reader.read(kind, raw)
    wrong += reader.findings
    return None if reader.findings else read


def _asks(condition: Condition) -> int:
    return sum((condition.holds is not None, condition.lacks is not None, condition.absent))
