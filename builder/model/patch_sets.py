"""What may stand in a patch set beside its diffs: `patches.toml`, and files of text edits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from builder.model.ids import RelPath


@dataclass(frozen=True, slots=True)
class Condition:
    """What a file of the source is like; a file that is not there lacks everything."""

    file: RelPath
    holds: str | None = None
    lacks: str | None = None
    absent: bool = False  # the file is not there

    def __str__(self) -> str:
        if self.absent:
            return f"{self.file} is not there"
        if self.holds is not None:
            return f"{self.file} holds {self.holds!r}"
        return f"{self.file} lacks {self.lacks!r}" if self.lacks is not None else self.file


@dataclass(frozen=True, slots=True)
class PatchOptions:
    """`[patch."0001-x.patch"]` of a `patches.toml`."""

    when: Condition | None = None  # elsewhere the patch is obsolete
    obsolete_if: Condition | None = None
    three_way: bool = False  # merge it where it does not apply as it stands
    moved: bool = False  # where git finds its lines is right, in whatever function that is
    reason: str = ""  # for people


@dataclass(frozen=True, slots=True)
class PatchSetFile:
    patch: Mapping[str, PatchOptions] = field(default_factory=dict)  # by name in the series


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Every one of `count` places that hold `find` holds `replace` afterwards."""

    file: RelPath
    find: str
    replace: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class EditFile:
    """`0002-x.edits`: text edits as one patch of a series; all of them, or none."""

    edit: tuple[TextEdit, ...]
    description: str = ""
