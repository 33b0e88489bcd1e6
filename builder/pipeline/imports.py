"""`imgbuild import`: from foreign locks to a lane."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from builder.errors import Finding, LaneError, Place, UsageError
from builder.importers import kinds
from builder.importers.draft import Wanted, draft, patch_set
from builder.importers.merge import Merged, merge
from builder.importers.text import ImportInvalid
from builder.model.foreign import ForeignPatch, Read
from builder.model.ids import NAME_RULE, is_name
from builder.model.lane import Lane
from builder.model.schema import KeyPath
from builder.ports import Project, WorkFolder
from builder.steps.lanes import LaneInvalid, names, read_lane
from builder.steps.unresolved import unresolved
from builder.tools.lane_text import lane_text

_OPTIONS: Mapping[str | int, str] = {
    "image": "--image", "platforms": "--platform", "build": "--cuda-arch-list",
    "repository": "--lane",
}  # fmt: skip


class LaneExists(LaneError):
    """The lane is there already and would be written anew."""

    code = "lane-exists"


@dataclass(frozen=True, slots=True)
class ImportReport:
    lane: str
    formats: Mapping[str, str]  # file -> format
    written: tuple[str, ...]  # below the project, sorted
    removed: tuple[str, ...]  # copies that only the replaced lane referred to
    diff: str  # of a lane that was there before
    kept: Mapping[str, tuple[str, ...]]  # file -> keys that only its kept copy holds
    warnings: tuple[Finding, ...]
    open: tuple[Finding, ...]  # what is still to be resolved


def import_locks(
    files: Mapping[Path, bytes],
    wanted: Wanted,
    urls: Mapping[str, str],
    *,
    force: bool,
    project: WorkFolder,
    beside: Callable[[Path], bytes | None],
) -> ImportReport:
    """Write a lane from foreign files, and keep them beside it.

    `beside` reads a patch that a file names, relative to that file. Raises: ImportInvalid with
    every finding of every file; LaneInvalid for what the options say; LaneExists when another
    lane of that name is there and `force` is not set. Nothing is written then.
    """
    if not is_name(wanted.name):
        raise UsageError(f"--lane: {wanted.name!r} is no lane's name", hint=f"take {NAME_RULE}")
    reads = _read(files)
    merged = merge(reads, urls)
    made = draft(merged, reads, wanted)
    patches = _patches(merged, beside)
    path = f"locks/{wanted.name}.toml"
    text = lane_text(made.lane, head=[*_head(reads)], remarks=made.remarks)
    diff = _diff(project.read(path), text, path)
    if diff and not force:
        raise LaneExists(
            f"{path} is there and differs", detail=diff, place=Place(project.root / path),
            hint="another --lane, or --force to write it anew as the diff shows",
        )  # fmt: skip
    wholes = {**made.kept, **patches, path: text.encode()}
    ahead = _Ahead(project, wholes)
    lane = _read_back(wanted.name, ahead)
    open_ = (*_patches_missing(merged, lane, ahead), *unresolved(lane, project=ahead))
    changed = sorted(p for p, data in wholes.items() if project.read(p) != data)
    removed = _left_over(wanted.name, made.kept, project) if diff else ()
    project.change({p: wholes[p] for p in changed} | dict.fromkeys(removed))
    return ImportReport(
        wanted.name,
        {read.label: read.format for read in reads},
        tuple(changed),
        tuple(removed),
        diff,
        {read.label: read.document.claims().information for read in reads},
        tuple(warning for read in reads for warning in read.warnings),
        open_,
    )


@dataclass(frozen=True, slots=True)
class _Ahead:
    """The project as it will be, to be looked at before anything of it is written."""

    project: Project
    written: Mapping[str, bytes]

    @property
    def root(self) -> Path:
        return self.project.root

    def read(self, path: str) -> bytes | None:
        return self.written.get(path, self.project.read(path))

    def write(self, path: str, data: bytes) -> None:
        raise AssertionError(f"nothing is written yet: {path}, {len(data)} bytes")

    def files(self, folder: str) -> tuple[tuple[str, bool], ...] | None:
        inside = [p[len(folder) + 1 :] for p in self.written if p.startswith(f"{folder}/")]
        there = self.project.files(folder)
        if there is None and not inside:
            return None
        return tuple(sorted({**dict.fromkeys(inside, False), **dict(there or ())}.items()))


def _read_back(name: str, ahead: _Ahead) -> Lane:
    """The lane as a build would read it; a finding in it names the option that it comes from.

    Raises: LaneInvalid.
    """
    try:
        return read_lane(name, project=ahead).lane
    except LaneInvalid as invalid:
        lane = ahead.root / "locks" / f"{name}.toml"
        raise LaneInvalid.of(
            replace(found, hint=f"correct {_option(found.place.key)}", place=None)
            if found.place and found.place.file == lane else found
            for found in invalid.findings
        ) from invalid  # fmt: skip


def _option(key: KeyPath) -> str:
    if key[0] == "sources" and key[2:] == ("url",):
        return f"--url {key[1]}=…"
    return _OPTIONS.get(key[0], "the imported file")


def _left_over(name: str, kept: Mapping[str, bytes], project: Project) -> list[str]:
    """The copies that the lane of that name kept and no lane will refer to."""
    others = [project.read(f"locks/{o}.toml") or b"" for o in names(project) if o != name]
    with contextlib.suppress(LaneError):
        former = [f"locks/{i.file}" for i in read_lane(name, project=project).lane.imported]
        return [
            path for path in former
            if path.startswith(f"locks/imported/{name}/") and path not in kept
            and not any(path.removeprefix("locks/").encode() in text for text in others)
        ]  # fmt: skip
    return []


def _read(files: Mapping[Path, bytes]) -> Sequence[Read]:
    reads: list[Read] = []
    findings: list[Finding] = []
    for file, data in files.items():
        try:
            reads.append(kinds.read(data, file))
        except ImportInvalid as invalid:
            findings += invalid.findings
    if findings:
        raise ImportInvalid.of(findings)
    plain = [read.file.name for read in reads]
    return [
        replace(
            r, label="/".join(r.file.parts[-2:]) if plain.count(r.file.name) > 1 else r.file.name
        )
        for r in reads
    ]


def _head(reads: Sequence[Read]) -> Iterator[str]:
    for read in reads:
        digest = hashlib.sha256(read.data).hexdigest()
        yield f"Imported by `imgbuild import` from {read.label!a} ({read.format}),"
        yield f"sha256 {digest}."
    yield "A remark behind a value names its key there. The lane is yours to change."


def _patches(merged: Merged, beside: Callable[[Path], bytes | None]) -> Mapping[str, bytes]:
    """The patch sets of which every file was found; the others stay to be filled in by hand."""
    found: dict[str, bytes] = {}
    wrong: list[Finding] = []
    for name, gathered in merged.sources.items():
        folder = f"patches/{patch_set(name, gathered)}"
        rows: list[str] = []
        files: dict[str, bytes] = {}
        for patch, read in gathered.patches:
            data = beside(read.file.parent / patch.path)
            if data is None:
                continue
            wrong += _wrong_patch(patch, read, data)
            row = patch.path.rpartition("/")[2]
            rows.append(f"{len(rows):04}-{row}" if row in rows else row)
            files[f"{folder}/{rows[-1]}"] = data
        if rows and len(rows) == len(gathered.patches):
            found |= files
            found[f"{folder}/series"] = ("\n".join(rows) + "\n").encode()
    if wrong:
        raise ImportInvalid.of(wrong)
    return found


def _patches_missing(merged: Merged, lane: Lane, project: Project) -> Iterator[Finding]:
    """The patches that the files name and nobody has given us."""
    for name, gathered in sorted(merged.sources.items()):
        folder = f"patches/{patch_set(name, gathered)}"
        if gathered.patches and project.read(f"{folder}/series") is None:
            named = ", ".join(f"{p.path} ({p.sha256})" for p, _ in gathered.patches)
            yield Finding(
                "patch-missing",
                f"{name}: a lock does not carry its patches: {named}",
                f"put them below {folder}/ and their names into {folder}/series, or beside the "
                "imported file, and import again",
                place=Place(lane.path, key=("sources", name, "patches")),
            )


def _wrong_patch(patch: ForeignPatch, read: Read, data: bytes) -> Iterator[Finding]:
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    if digest != patch.sha256:
        what = f"{patch.path} is {digest:.19}, {patch.key} says {patch.sha256:.19}"
        yield Finding(ImportInvalid.code, what, place=Place(read.file))


def _diff(before: bytes | None, text: str, path: str) -> str:
    if before is None:
        return ""
    old = before.decode("utf-8", "replace").splitlines(keepends=True)
    lines = difflib.unified_diff(old, text.splitlines(keepends=True), path, f"{path} (imported)")
    return "".join(lines)
