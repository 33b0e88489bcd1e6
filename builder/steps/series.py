"""Read patch sets: `patches/<set>/series` and the patches beside it, all findings at once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from builder.errors import Finding, PatchError, Place
from builder.model.ids import is_relative_path
from builder.model.patch_sets import PatchOptions
from builder.model.values import PatchFile
from builder.ports import Project
from builder.steps import diffs
from builder.steps.patch_files import EDITS, OPTIONS, read_edits, read_options

_LINE = re.compile(r"(\S+)(?:\s+-p(\d{1,2}))?")
_PATCH_NAMES = (".patch", ".diff", EDITS)

_GITLINK = re.compile(
    rb"^(?:(?:new|deleted) file mode|(?:old|new) mode) 160000|^index \S+ 160000$", re.MULTILINE
)


class PatchSetInvalid(PatchError):
    """A patch set is not as it must be, before any tree is there to apply it to."""

    code = "patch-set"


def parse_series(text: str, *, file: Path) -> tuple[tuple[str, int], ...]:
    """Names and strip counts, in order: `0001-x.patch -p1  # why`. Raises: PatchSetInvalid."""
    found: list[tuple[str, int]] = []
    wrong: list[Finding] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = re.sub(r"(?:^|\s)#.*", "", line).strip()
        if not words:
            continue
        match = _LINE.fullmatch(words)
        what = _wrong_line(words, match, {name for name, _ in found})
        if what or match is None:
            hint = "one patch a line: its file name, and -p<number> if it is not -p1"
            wrong.append(Finding(PatchSetInvalid.code, what, hint, place=Place(file, number)))
        else:
            found.append((match[1], int(match[2] or 1)))
    if wrong:
        raise PatchSetInvalid.of(wrong)
    return tuple(found)


def read_sets(sets: Sequence[str], *, project: Project) -> tuple[PatchFile, ...]:
    """The patches of the sets, in order. Raises: PatchSetInvalid, with every finding."""
    patches: list[PatchFile] = []
    wrong: list[Finding] = []
    for name in sets:
        try:
            patches += _read_set(f"patches/{name}", project, wrong)
        except PatchSetInvalid as invalid:
            wrong += invalid.findings
    for patch in patches:
        wrong += findings(patch)
    if wrong:
        raise PatchSetInvalid.of(wrong)
    return tuple(patches)


def findings(patch: PatchFile) -> Iterator[Finding]:
    """What is wrong with a patch that no tree is needed to see."""
    if patch.edits:
        return  # read strictly
    form = diffs.read(patch.data, strip=patch.strip)
    file = Path(patch.path)
    if form.crlf_headers:
        yield Finding(
            "patch-crlf",
            f"{patch.path}: its own lines end in CRLF, so no context can match",
            hint=f"an editor or core.autocrlf converted it: sed -i 's/\\r$//' {patch.path}, and "
            "put '*.patch -text' in .gitattributes",
            place=Place(file, 1),
        )
    elif form.wrong:
        yield Finding(
            "patch-malformed",
            f"{patch.path}: {form.wrong}",
            hint="make it again with git format-patch or git diff; a hunk's counts are not "
            "edited by hand",
            place=Place(file, form.wrong_line),
        )
    if _GITLINK.search(patch.data):
        yield Finding(
            "patch-malformed",
            f"{patch.path}: adds or moves a submodule (mode 160000), which a patch cannot fill",
            hint="take a commit that has the submodule, or leave that part out",
            place=Place(file),
        )
    for touched in sorted(form.files):
        if touched.rpartition("/")[2].lower() == ".gitattributes":
            what = f"{patch.path}: changes {touched}, which tells git to run filters"
            yield Finding("patch-attributes", what, "leave that file out", place=Place(file))
        elif not is_relative_path(touched):
            what = f"{patch.path}: touches {touched!r}, which is not below the source"
            yield Finding("patch-path", what, "is its -p right?", place=Place(file))


def _read_set(folder: str, project: Project, wrong: list[Finding]) -> Iterator[PatchFile]:
    series = Path(folder, "series")
    text = project.read(str(series))
    if text is None:
        raise PatchSetInvalid(
            f"{series} is not there", hint="it names the set's patches, one a line, in order"
        )
    listed = parse_series(text.decode("utf-8", "replace"), file=series)
    beside = Path(folder, OPTIONS)
    names = [name for name, _ in listed]
    options = read_options(project.read(str(beside)), beside, names, wrong)
    for name, strip in listed:
        data = project.read(f"{folder}/{name}")
        if data is None:
            hint = f"add {folder}/{name}, or take it out of the series"
            what = f"{series} names {name}, which is not there"
            wrong.append(Finding(PatchSetInvalid.code, what, hint, place=_line(series, text, name)))
            continue
        patch = PatchFile(
            f"{folder}/{name}", f"sha256:{hashlib.sha256(data).hexdigest()}", data, strip,
            options.get(name, PatchOptions()),
        )  # fmt: skip
        if name.endswith(EDITS):
            read = read_edits(data, Path(patch.path), wrong)
            if read is None:
                continue
            patch = replace(patch, edits=read.edit)
        yield patch
    wrong += _unlisted(folder, text.decode("utf-8", "replace"), project)


def _unlisted(folder: str, text: str, project: Project) -> Iterator[Finding]:
    """Patches that lie there and that the series does not name, not even in a comment."""
    named = set(re.findall(r"[^\s#:,]+", text))
    for path, _ in project.files(folder) or ():
        if path.endswith(_PATCH_NAMES) and path not in named:
            yield Finding(
                PatchSetInvalid.code,
                f"{folder}/{path} is in no line of the series",
                hint=f"list it in {folder}/series, or say there why not: # {path}: …",
                place=Place(Path(folder, "series")),
            )


def _wrong_line(words: str, match: re.Match[str] | None, known: set[str]) -> str:
    if match is None:
        return f"not a line of a series: {words!r}"
    if not is_relative_path(match[1]) or match[1].startswith("-"):
        return f"not a file below the set: {match[1]!r}"
    return f"named twice: {match[1]}" if match[1] in known else ""


def _line(file: Path, text: bytes, name: str) -> Place:
    lines = text.decode("utf-8", "replace").splitlines()
    at = next((i for i, line in enumerate(lines, 1) if line.split()[:1] == [name]), None)
    return Place(file, at)
