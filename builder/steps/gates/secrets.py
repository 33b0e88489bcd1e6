"""`secrets`: nothing that looks like a credential in history, environment, labels and layers.

What is looked for stands in `credentials.FORMS`. Of files, small texts in the folders where
people and tools leave credentials: those that the image shows, and in its own layers also those
that a later one hides or removes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from builder.model.values import ImageFile, Verdict
from builder.steps.gates.credentials import Credential, find, find_named
from builder.steps.gates.gate import Evidence, Fault, Gate, Search
from builder.steps.gates.glob import Glob, ImageGlob

_LARGEST = 256 * 1024  # bytes
_FILES = (
    "root/**", "home/**", "etc/**", "usr/local/etc/**", "opt/**", "data/**", "srv/**", "app/**",
    "workspace/**", "vllm-workspace/**", "tmp/**", "run/**", "var/lib/**", "var/tmp/**",
)  # fmt: skip
_INSTALLED = re.compile(
    r"(?:^|/)(?:lib(?:64)?/python\d[^/]*|site-packages|dist-packages|node_modules)/"
)
"""What package managers install there holds keys of its own tests; read only where it is named."""
_ARGUMENT = re.compile(r"(?:^|[\s|])([A-Za-z_][A-Za-z0-9_]*)=(\"[^\"]*\"|'[^']*'|\S*)")
_HINT = (
    "it is in the image for all who get it, a later layer does not take it out: revoke it, and use "
    "RUN --mount=type=secret; what only looks like one goes into `allow`"
)


@dataclass(frozen=True, slots=True)
class Secrets(Gate):
    """`allow` holds regular expressions for `place: what` of what is known to be harmless."""

    kind: ClassVar[str] = "secrets"
    wants: ClassVar[frozenset[Literal["config", "history"]]] = frozenset({"config", "history"})
    files: tuple[ImageGlob, ...] = _FILES
    allow: tuple[str, ...] = ()

    @property
    def about(self) -> str:
        return "history, env, labels, layers"

    def faults(self) -> Iterator[Fault]:
        for text in self.allow:
            try:
                re.compile(text)
            except re.error as error:
                yield Fault("allow", f"{text!r} is no regular expression: {error}")

    def searches(self) -> tuple[Search, ...]:
        shown = (Search(Glob(text), self._reading) for text in self.files)
        held = (Search(Glob(text), self._reading, layers=True) for text in self.files)
        return (*shown, *held)

    def _reading(self, file: ImageFile) -> CredentialReading:
        passed_over = self.files == _FILES and _INSTALLED.search(file.path)
        return CredentialReading(file, is_text=not passed_over and file.size <= _LARGEST)

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        texts = 0
        found: dict[str, Iterable[Credential]] = {}
        for name, value in sorted(evidence.config.env.items()):
            found[f"ENV {name}"] = find_named(name, value)
        for name, value in sorted(evidence.config.labels.items()):
            found[f"LABEL {name}"] = find_named(name, value)
        for i, line in enumerate(evidence.history, 1):
            found[f"history, line {i}"] = dict.fromkeys(_in_history(line))
        half = len(self.files)
        for seen in (s for search in evidence.files[:half] for s in search if s.value is not None):
            texts += 1
            found[seen.file.path] = seen.value
        for seen in (s for search in evidence.files[half:] for s in search if s.value):
            known = found.get(seen.file.path, ())
            if more := [c for c in seen.value if c not in known]:
                found[seen.file.path] = [*known, *(c._replace(layer=seen.layer) for c in more)]
        wrong = tuple(self._wrong(found))
        looked = f"none in {len(evidence.history)} lines of history and {texts} small files"
        return wrong or (self.passed(looked),)

    def _wrong(self, found: Mapping[str, Iterable[Credential]]) -> Iterator[Verdict]:
        for place, credentials in found.items():
            for what, shown, layer in credentials:
                if not any(re.search(allowed, f"{place}: {what}") for allowed in self.allow):
                    where = "" if layer is None else f" in layer {layer + 1}, hidden by a later one"
                    yield self.failed(f"holds {what} ({shown}){where}", _HINT, about=place)


def _in_history(line: str) -> Iterator[Credential]:
    yield from find(line.encode())
    for match in _ARGUMENT.finditer(line):
        yield from find_named(match[1], match[2].strip("\"'"))


@dataclass(slots=True)
class CredentialReading:
    """Reads a small text to its end; of others nothing."""

    file: ImageFile
    data: bytearray = field(default_factory=bytearray)
    is_text: bool = True

    def feed(self, chunk: bytes) -> bool:
        if self.is_text:
            self.data += chunk
            self.is_text = len(self.data) <= _LARGEST and b"\0" not in chunk
        return self.is_text

    def result(self) -> tuple[Credential, ...] | None:
        return tuple(find(bytes(self.data))) if self.is_text else None
