"""Ways to read a file that streams by."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from builder.model.values import ImageFile


@dataclass(frozen=True, slots=True)
class Content:
    """What a file holds, as far as it was asked."""

    sha256: str  # hex
    found: frozenset[str]


@dataclass(frozen=True, slots=True)
class Texts:
    """Looks for texts in a file of any size, and takes its digest."""

    wanted: tuple[str, ...]

    def __call__(self, file: ImageFile) -> _TextReading:  # noqa: ARG002
        return _TextReading({text: text.encode() for text in self.wanted})


@dataclass(slots=True)
class _TextReading:
    missing: dict[str, bytes]
    found: set[str] = field(default_factory=set)
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)
    tail: bytes = b""

    def feed(self, chunk: bytes) -> bool:
        self.digest.update(chunk)
        window = self.tail + chunk
        for text, needle in tuple(self.missing.items()):
            if needle in window:
                self.found.add(text)
                del self.missing[text]
        keep = max(map(len, self.missing.values()), default=1) - 1
        self.tail = window[-keep:] if keep else b""
        return True

    def result(self) -> Content:
        found = self.found | {text for text, needle in self.missing.items() if not needle}
        return Content(self.digest.hexdigest(), frozenset(found))


@dataclass(frozen=True, slots=True)
class Whole:
    """The bytes of a file, as long as there are not more than `limit`; else None."""

    limit: int  # bytes

    def __call__(self, file: ImageFile) -> _WholeReading:
        return _WholeReading(self.limit, file.size <= self.limit)


@dataclass(slots=True)
class _WholeReading:
    limit: int
    fits: bool
    data: bytearray = field(default_factory=bytearray)

    def feed(self, chunk: bytes) -> bool:
        self.fits = self.fits and len(self.data) + len(chunk) <= self.limit
        if self.fits:
            self.data += chunk
        return self.fits

    def result(self) -> bytes | None:
        return bytes(self.data) if self.fits else None
