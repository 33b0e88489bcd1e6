"""`*.source.lock`, local-inference-source-lock/v1: one `key=value` a line (FORMATS 1)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from builder.errors import Finding, Place
from builder.importers import source_checks, source_keys, source_moves
from builder.importers.naming import KNOWN_REPOSITORIES, branch
from builder.importers.text import ImportInvalid
from builder.model.foreign import Claims, Document, ForeignPatch, SourceClaim
from builder.model.lane import Source, Track

FORMAT = "local-inference-source-lock/v1"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_MOST = 10_000  # characters of a line


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the file; `key` is "" for a blank or a comment, whose text is in `value`."""

    key: str
    value: str

    @property
    def text(self) -> str:
        return f"{self.key}={self.value}" if self.key else self.value


@dataclass(frozen=True)
class SourceLock(Document):
    """Every line in its order; the properties are typed views of them."""

    lines: tuple[Line, ...]
    ends: bool = True  # with a line end

    @cached_property
    def values(self) -> Mapping[str, str]:
        return {line.key: line.value for line in self.lines if line.key}

    @cached_property
    def components(self) -> tuple[str, ...]:
        """Names of all components that have a commit, in the file's order."""
        named = dict.fromkeys(c for k in self.values if (c := source_keys.component(k)))
        return tuple(c for c in named if self.commit_key(c))

    def commit_key(self, component: str) -> str | None:
        """The key of the component's commit: what was integrated before what it is based on."""
        keys = (f"{component}.{k}commit" for k in ("", "integration.", "base."))
        return next((key for key in keys if key in self.values), None)

    def claims(self) -> Claims:
        sources = tuple(self._claim(name) for name in self.components)
        bases = {}
        if image := self.values.get("runtime.base.image"):
            bases["runtime"] = (image, "runtime.base.image")
        taken = {"format", *(key for _, key in bases.values())}
        taken |= {key for claim in sources for key in claim.said.values()}
        name, version = (self.values.get(f"release.{k}", "") for k in ("name", "version"))
        text = name if name.endswith(version) else f"{name} {version}".strip()
        kept = tuple(key for key in self.values if key not in taken)
        return Claims(sources, bases, (text, "release.name, release.version"), kept)

    def _claim(self, name: str) -> SourceClaim:
        said = dict(self._said(name))
        value = {lane: self.values[key] for lane, key in said.items() if key in self.values}
        parts = {k.partition("/")[2]: v for k, v in value.items() if k.startswith("parts/")}
        ref = value.get("track", "")
        table = Source(
            value.get("url", KNOWN_REPOSITORIES.get(name, "")),
            track=Track(branch(ref)) if ref.startswith("refs/heads/") else Track(),
            commit=value["commit"],
            tree=value.get("tree"),
            parts=parts,
            native=tuple(sorted(p for p in parts if p != name)),
        )
        patches: tuple[ForeignPatch, ...] = ()
        if digest := self.values.get(f"{name}.patch.sha256"):
            key = f"{name}.patch.sha256"
            patches = (ForeignPatch(f"{name}.patch", f"sha256:{digest}", key),)
        return SourceClaim(name, table, said, patches)

    def _said(self, name: str) -> Iterator[tuple[str, str]]:
        """(lane key, key of the file), of all that is there."""
        commit = self.commit_key(name) or ""
        rows = [
            ("url", f"{name}.repository"),
            ("track", f"{name}.ref"),
            ("commit", commit),
            ("tree", commit.removesuffix("commit") + "tree"),
            *((f"parts/{path}", f"{name}.{k}") for k, path in source_keys.NATIVE_PARTS.items()),
            (f"parts/{name}", f"{name}.package.tree"),
        ]
        return ((lane, key) for lane, key in rows if key in self.values)

    def render(self) -> str:
        text = "\n".join(line.text for line in self.lines)
        return f"{text}\n" if self.ends else text

    def moved(self, sources: Mapping[str, Source]) -> tuple[Document, tuple[str, ...]]:
        """Values that followed from a moved commit and that no lane holds are left out."""
        values, notes = source_moves.moved(self, sources)
        lines = [
            replace(line, value=values[line.key]) if line.key else line
            for line in self.lines
            if not line.key or line.key in values
        ]
        lines += [Line(key, value) for key, value in values.items() if key not in self.values]
        return SourceLock(tuple(lines), self.ends), notes


def read(text: str, file: Path) -> tuple[SourceLock, tuple[Finding, ...]]:
    """The lock and its warnings. Raises: ImportInvalid with every finding."""
    findings: list[Finding] = []
    at: dict[str, int] = {}
    lines: list[Line] = []
    rows = text.split("\n")
    ends = len(rows) > 1 and rows[-1] == ""
    for number, row in enumerate(rows[:-1] if ends else rows, 1):
        what, hint = _wrong_line(row, number, at)
        if what:
            findings.append(_finding(file, number, what, hint))
            continue
        key, equals, value = row.partition("=")
        is_entry = bool(equals) and not row.startswith("#")
        lines.append(Line(key, value) if is_entry else Line("", row))
        if is_entry:
            at[key] = number
            findings += _word_findings(key, value, number, file)
    lock = SourceLock(tuple(lines), ends)
    if not _errors(findings):
        findings += source_checks.contradictions(lock, at, file)
    if errors := _errors(findings):
        raise ImportInvalid.of(errors)
    return lock, tuple(findings)


def _errors(findings: list[Finding]) -> list[Finding]:
    return [f for f in findings if f.level == "error"]


def _wrong_line(row: str, number: int, at: Mapping[str, int]) -> tuple[str, str]:
    """What is wrong with a line before its value is looked at, and a hint."""
    if number == 1 and row != f"format={FORMAT}":
        shown = row if len(row) < 60 else f"{row[:57]}…"
        return f"the first line must be format={FORMAT}, not {shown!r}", ""
    if row.endswith("\r"):
        return "the line ends in CRLF", "convert the file to LF line ends"
    if _CONTROL.search(row) or len(row) > _MOST:
        return "holds a control character, or is too long", ""
    if not row.strip() or row.startswith("#"):
        return "", ""
    key, equals, _ = row.partition("=")
    if not equals:
        return f"has no '=': {row[:60]!r}", "a line is key=value; a comment begins with #"
    if not key or re.search(r"\s", key):
        return f"{key[:60]!r} is no key", "no space before or around the first ="
    if key in at:
        return f"{key} is repeated: first in line {at[key]}", "keep one of the two"
    return "", ""


def _word_findings(key: str, value: str, number: int, file: Path) -> Iterator[Finding]:
    row = source_keys.match(key)
    if row is None:
        what = f"{key}: not a key of this format; it is kept, and nothing reads it"
        yield replace(_finding(file, number, what, source_keys.near(key)), level="warning")
    elif not row.word.holds(value):
        shown = repr(value) if len(value) < 80 else f"{value[:77]!r}…"
        yield _finding(file, number, f"{key}: must be {row.word.says}, not {shown}", "")


def _finding(file: Path, line: int, what: str, hint: str) -> Finding:
    return Finding(ImportInvalid.code, what, hint, place=Place(file, line))
