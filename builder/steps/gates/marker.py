"""`marker`: text that must stand in a file, of a source before the build or of the image."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from builder.model.ids import RelPath
from builder.model.values import Verdict
from builder.steps.gates.gate import Evidence, Fault, Gate, Search
from builder.steps.gates.glob import Glob, ImageGlob
from builder.steps.gates.reading import Texts

_IDENTIFIER = re.compile(rb"[A-Za-z_][A-Za-z0-9_]{3,}")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@dataclass(frozen=True, slots=True)
class Marker(Gate):
    """`source` and `file` are checked by preflight, `image-file` in the built image."""

    kind: ClassVar[str] = "marker"
    contains: str | tuple[str, ...]
    source: str = ""
    file: RelPath | None = None  # in the patched tree of the source
    image_file: ImageGlob | None = None  # every file that matches must hold the text

    @property
    def about(self) -> str:
        return self.image_file or f"{self.source}: {self.file}"

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.contains,) if isinstance(self.contains, str) else self.contains

    def faults(self) -> Iterator[Fault]:
        if not self.texts or not all(self.texts):
            yield Fault("contains", "must name a text")
        if self.file is None and self.image_file is None:
            yield Fault(
                "file", "is missing", "file (with source): before the build; image-file: after it"
            )
        if self.file is not None and not self.source:
            yield Fault("source", "is missing", "a file of the image is named by image-file")
        if self.source and self.file is None:
            yield Fault("file", "is missing", "the file's path in the source")

    def searches(self) -> tuple[Search, ...]:
        if self.image_file is None:
            return ()
        return (Search(Glob(self.image_file), Texts(self.texts)),)

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Nothing for a marker without `image-file`: its verdict comes from `look`."""
        if self.image_file is None:
            return ()
        files = [seen for seen in evidence.files[0] if seen.value is not None]
        if not files:
            hint = "is it installed elsewhere? ** stands for any folders"
            return (self.failed("no such file in the image", hint),)
        wrong = [
            self.failed(
                f"does not hold {_quoted(t for t in self.texts if t not in seen.value.found)}",
                "the image was built from another state of the source than the marker describes",
                about=seen.file.path,
            )
            for seen in files
            if len(seen.value.found) < len(set(self.texts))
        ]
        return tuple(wrong) or (self.passed(f"holds {_quoted(self.texts)}"),)


def look(gate: Marker, data: bytes | None, *, paths: Iterable[str] = ()) -> Verdict:
    """Judge a marker on its file in the patched source tree, before anything is built.

    `data` is the file's content, None when the tree has no such file; then `paths` (of the
    tree) serve to say where it may have gone. On a miss the hint names what stands nearest.
    """
    about = f"{gate.source}: {gate.file}"
    if data is None:
        near = near_paths(gate.file or "", paths)
        hint = f"did it move to {' or '.join(near)}?" if near else "was it renamed or removed?"
        return gate.failed("the source has no such file", hint, about=about)
    missing = [text for text in gate.texts if text.encode() not in data]
    if not missing:
        return gate.passed(f"holds {_quoted(gate.texts)}", about=about)
    near = [near for text in missing for near in near_names(text, data)]
    hint = "the source changed: change the marker's `contains`, or its patch"
    if near:
        hint = f"near names in that file: {', '.join(dict.fromkeys(near))}; {hint}"
    return gate.failed(f"does not hold {_quoted(missing)}", hint, about=about)


def near_names(wanted: str, data: bytes, *, most: int = 3) -> list[str]:
    """Identifiers of a file that share parts or letters with a name, with their lines."""
    lines: dict[str, int] = {}
    for number, line in enumerate(data.split(b"\n"), 1):
        for match in _IDENTIFIER.finditer(line):
            lines.setdefault(match[0].decode(), number)
    ranked = sorted(((_nearness(wanted, name), -lines[name], name) for name in lines), reverse=True)
    return [f"{name} (line {-at})" for score, at, name in ranked[:most] if score >= 0.45]


def near_paths(wanted: str, paths: Iterable[str], *, most: int = 2) -> list[str]:
    """Paths of a tree with the same file name, or a similar one."""
    known = sorted(set(paths))
    name = wanted.rpartition("/")[2]
    same = [path for path in known if path.rpartition("/")[2] == name]
    return (same or difflib.get_close_matches(wanted, known, n=most, cutoff=0.75))[:most]


def _nearness(wanted: str, name: str) -> float:
    """From 0 to 1: letters in common, parts in common, written in the same style."""
    a, b = _parts(wanted), _parts(name)
    total = sum(map(len, a | b))
    shared = sum(map(len, a & b)) / total if total else 0.0
    letters = difflib.SequenceMatcher(None, wanted.lower(), name.lower(), autojunk=False).ratio()
    return 0.5 * letters + 0.3 * min(1.0, 2 * shared) + 0.2 * (wanted.isupper() == name.isupper())


def _parts(name: str) -> set[str]:
    return {part.lower() for part in _PART.findall(name)}


def _quoted(texts: Iterable[str]) -> str:
    return ", ".join(repr(text) for text in texts)
