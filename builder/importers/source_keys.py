"""The keys of `*.source.lock`, each with the word its value must be (FORMATS 1).

Keys embed file names with dots and slashes, so they are told by prefix and suffix, never by
splitting; the first row that matches holds.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from builder.importers import words
from builder.model.schema import Check

_COMPONENT = (
    r"(?!(?:build|cache|draft|format|implementation|input|launcher|model|overlay|qualification"
    r"|release|runtime|status)\.)(?P<c>[a-z0-9][a-z0-9_-]*)"
)

NATIVE_PARTS: Mapping[str, str] = {
    "native.csrc.tree": "csrc",
    "native.cmake.tree": "cmake",
    "native.cmakelists.blob": "CMakeLists.txt",
}
"""Keys of a component that name a path in its tree; equal in two locks: nothing to compile."""


@dataclass(frozen=True, slots=True)
class Key:
    pattern: re.Pattern[str]
    word: Check


def _key(pattern: str, word: Check) -> Key:
    return Key(re.compile(pattern), word)


KEYS: tuple[Key, ...] = (
    _key(r"format|status|implementation\.status|qualification\.contract", words.TEXT),
    _key(r"release\.(?:name|version)", words.TEXT),
    _key(r"release\.parent\.digest", words.PREFIXED),
    _key(r"runtime\.base\.image|overlay\.base\.image", words.IMAGE),
    _key(r"runtime\.cache\.fingerprint|cache\..+\.fingerprint", words.TEXT),
    _key(r"(?:model|draft)\..+|runtime\..+", words.ANY),
    _key(r"(?:input|launcher|build)\..+\.sha256|overlay\.file\..+\.sha256", words.HEX64),
    _key(r"launcher\..+\.path", words.TEXT),
    _key(r"overlay\.(?:name|branch|files)", words.TEXT),
    _key(r"overlay\.repository", words.URL),
    _key(r"overlay\.(?:commit|tree)", words.OID),
    _key(_COMPONENT + r"\.repository", words.URL),
    _key(_COMPONENT + r"\.ref", words.REF),
    _key(_COMPONENT + r"\.(?:commit|tree)", words.OID),
    _key(_COMPONENT + r"\.(?:integration|base)\.(?:commit|tree)", words.OID),
    _key(_COMPONENT + r"\.package\.tree", words.OID),
    _key(_COMPONENT + r"\.native\.[a-z0-9_-]+\.(?:tree|blob)", words.OID),
    _key(_COMPONENT + r"\.(?:native\.)?artifact\.image", words.IMAGE),
    _key(_COMPONENT + r"\.native\.mode", words.TEXT),
    _key(_COMPONENT + r"\.(?:.+\.)?sha256", words.HEX64),
    _key(_COMPONENT + r"\.version", words.VERSION),
)

_NEAR = (
    "vllm.repository", "vllm.commit", "vllm.tree", "vllm.package.tree", "vllm.bundle.sha256",
    "vllm.version", "vllm.native.mode", "release.name", "release.version",
    "implementation.status", "qualification.contract", "status",
)  # fmt: skip


def match(key: str) -> Key | None:
    """The row of a key; None for a key that the format does not name."""
    return next((row for row in KEYS if row.pattern.fullmatch(key)), None)


def component(key: str) -> str | None:
    """The component that a key speaks of."""
    for row in KEYS:
        if found := row.pattern.fullmatch(key):
            return found.groupdict().get("c")
    return None


def near(key: str) -> str:
    """A hint for a key that is almost one of the format's."""
    name, _, rest = key.partition(".")
    found = difflib.get_close_matches(f"vllm.{rest}", _NEAR, n=1, cutoff=0.8)
    return f"is it {name}.{found[0].partition('.')[2]!s}?" if found else ""
