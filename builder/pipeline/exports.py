"""`imgbuild export`: a lane and its lock in a foreign format."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from builder.errors import LaneError, Place
from builder.importers import kinds
from builder.importers.moving import ExportImpossible
from builder.importers.source_lock import FORMAT, Line, SourceLock
from builder.model.lane import Imported, Lane, Source
from builder.ports import Project
from builder.steps.lanes import LockMissing, read_lane, read_lock


class KeptChanged(LaneError):
    """The kept copy of a foreign file is not what was imported."""

    code = "kept-changed"


@dataclass(frozen=True, slots=True)
class Exported:
    name: str  # of the file that was imported, or would be
    format: str
    text: str
    notes: tuple[str, ...]  # what the format could not be told


def export(
    name: str, format_: str, *, source: str | None, project: Project
) -> tuple[Exported, ...]:
    """Every document of that format that the lane was made from, as the lane is now.

    A lane that was made from none can be written as a source-lock. Raises: ExportImpossible,
    KeptChanged.
    """
    lane = read_lane(name, project=project).lane
    tables = _locked(lane)
    chosen = [
        i for i in lane.imported
        if i.format == format_ and (source is None or source in i.sources)
    ]  # fmt: skip
    if not chosen and format_ == kinds.SOURCE_LOCK and source is None:
        return (_fresh(lane, tables),)
    if not chosen:
        raise ExportImpossible(
            f"{name} was not made from a file of the format {format_}"
            + (f" that speaks of {source}" if source else ""),
            hint=_others(lane),
        )
    return tuple(_exported(lane, entry, tables, project) for entry in chosen)


def _exported(
    lane: Lane, entry: Imported, tables: Mapping[str, Source], project: Project
) -> Exported:
    """The kept file with what the lane says now; its own bytes when that is the same."""
    path = f"locks/{entry.file}"
    data = project.read(path)
    if data is None or f"sha256:{hashlib.sha256(data).hexdigest()}" != entry.sha256:
        what = "is not there" if data is None else "was changed after it was imported"
        raise KeptChanged(
            f"{path} {what}", place=Place(lane.path, key=("imported",)),
            hint="bring it back from git, or import the foreign file again",
        )  # fmt: skip
    document = kinds.read(data, project.root / path).document
    moved, notes = document.moved({k: t for k, t in tables.items() if k in entry.sources})
    text = data.decode("utf-8") if moved == document else moved.render()
    return Exported(entry.file.rpartition("/")[2], entry.format, text, notes)


def _locked(lane: Lane) -> Mapping[str, Source]:
    """The lane's sources, with commit and tree of the lock where there is one."""
    tables = dict(lane.sources)
    with suppress(LockMissing):
        lock = read_lock(lane)
        for name in tables.keys() & lock.sources.keys():
            locked = lock.sources[name]
            tables[name] = replace(
                tables[name], commit=locked.commit, tree=_tree(tables[name], locked.tree)
            )
    return tables


def _tree(table: Source, tree: str) -> str | None:
    """The commit's tree; where the lane composes, foreign locks do not speak of it."""
    return table.tree if table.compose else tree


def _fresh(lane: Lane, tables: Mapping[str, Source]) -> Exported:
    """A source-lock of a lane that was made by hand: only what is known stands in it."""
    lines = [Line("format", FORMAT), Line("release.name", lane.name)]
    notes: list[str] = []
    if (base := lane.base.get("runtime")) and base.ref and "@sha256:" in base.ref:
        lines.append(Line("runtime.base.image", base.ref))
    for name, table in sorted(tables.items()):
        if table.commit is None:
            notes.append(f"{name}: its commit is not known: imgbuild lock {lane.name}")
            continue
        lines.append(Line(f"{name}.repository", table.url))
        lines.append(Line(f"{name}.commit", table.commit))
        if table.tree is not None:
            lines.append(Line(f"{name}.tree", table.tree))
    document, left_out = SourceLock(tuple(lines)).moved(tables)
    notes += left_out
    return Exported(f"{lane.name}.source.lock", kinds.SOURCE_LOCK, document.render(), tuple(notes))


def _others(lane: Lane) -> str:
    known = sorted({entry.format for entry in lane.imported})
    if known:
        return f"it was made from: {', '.join(known)}"
    return "it was written by hand: only source-lock can be written from a lane alone"
