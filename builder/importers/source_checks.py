"""Where a `*.source.lock` contradicts itself: values that follow from other values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from builder.errors import Finding, Place
from builder.importers import source_keys
from builder.importers.text import ImportInvalid

if TYPE_CHECKING:
    from builder.importers.source_lock import SourceLock

FINGERPRINT = "runtime.cache.fingerprint"
_PARTS: Mapping[str, str] = {
    "vllm": "vllm.package.tree",
    "b12x": "b12x.package.tree",
    "lmcache": "lmcache.package.tree",
    "flashkda": "flashkda.extension.sha256",
    "native": "vllm.native.extension.sha256",
    "fi": "flashinfer.commit",
}
"""Word of the fingerprint -> the key whose first eight digits follow it."""
_MODES = ("reuse-all", "cpu-rebuild-cuda-reuse")
_HEX_END = re.compile(r"[0-9a-f]{7,40}")


def contradictions(lock: SourceLock, at: Mapping[str, int], file: Path) -> Iterator[Finding]:
    """Every contradiction, each at the line of the value that follows from others."""

    def finding(key: str, what: str, hint: str = "", *, warning: bool = False) -> Finding:
        place = Place(file, at.get(key))
        found = Finding(ImportInvalid.code, f"{key}: {what}", hint, place=place)
        return replace(found, level="warning") if warning else found

    values = lock.values
    for key, expected in fingerprint(values).items():
        if expected is None:
            yield finding(FINGERPRINT, f"cannot be checked: {key} is not there", warning=True)
    if FINGERPRINT in values and (wrong := fingerprint_faults(values)):
        yield finding(FINGERPRINT, f"does not follow from its parts: {'; '.join(wrong)}")
    for component in _named(values):
        yield from _component_findings(lock, component, finding)
    yield from _overlay_findings(values, finding)
    trees: dict[str, tuple[str, str]] = {}
    for key in values:
        tree_key = key.removesuffix("commit") + "tree"
        if key.endswith("commit") and tree_key in values:
            known, where = trees.setdefault(values[key], (values[tree_key], tree_key))
            if known != values[tree_key]:
                yield finding(tree_key, f"the same commit has another tree in {where}")


def fingerprint(values: Mapping[str, str]) -> dict[str, str | None]:
    """Key -> the word of the cache fingerprint that follows from it; {} without a fingerprint."""
    if FINGERPRINT not in values:
        return {}
    found: dict[str, str | None] = {}
    for word, key in (("cu", "runtime.cuda.version"), ("torch", "runtime.pytorch.version")):
        version = values.get(key)
        found[key] = None if version is None else word + "".join(version.split(".")[:2])
    for word, key in _PARTS.items():
        found[key] = f"{word}{values[key][:8]}" if key in values else None
    return found


def fingerprint_faults(values: Mapping[str, str]) -> list[str]:
    """How the fingerprint differs from what its parts give."""
    words = values[FINGERPRINT].split("-")
    wanted = fingerprint(values)
    if len(words) != len(wanted) + 1 or not re.fullmatch(r"[a-z0-9]+", words[2]):
        return ["it must be cu…-torch…-MODEL-vllm…-b12x…-lmcache…-flashkda…-native…-fi…"]
    faults = []
    for word, (key, expected) in zip([*words[:2], *words[3:]], wanted.items(), strict=True):
        if expected is not None and word != expected:
            faults.append(f"it says {word}, {key} gives {expected}")
        elif expected is None and not word.startswith(_word_of(key)):
            faults.append(f"it says {word} where {_word_of(key)}… belongs")
    return faults


def version_commit(component: str, version: str) -> str | None:
    """The commit prefix at the end of a version's local part: `…+glm53.r35.vllmde982a50`."""
    last = re.split(r"[._-]", version.partition("+")[2])[-1].removeprefix(component)
    return last if _HEX_END.fullmatch(last) else None


def _others_commit(lock: SourceLock, name: str, version: str) -> str | None:
    """The other component whose name and commit stand at the end of a version."""
    last = re.split(r"[._-]", version.partition("+")[2])[-1]
    for other in lock.components:
        rest = last.removeprefix(other)
        if other != name and rest != last and _HEX_END.fullmatch(rest):
            return other
    return None


def _word_of(key: str) -> str:
    if key.startswith("runtime."):
        return "cu" if "cuda" in key else "torch"
    return next(word for word, known in _PARTS.items() if known == key)


def _named(values: Mapping[str, str]) -> dict[str, None]:
    return dict.fromkeys(c for key in values if (c := source_keys.component(key)))


def _component_findings(lock: SourceLock, name: str, finding: _Make) -> Iterator[Finding]:
    values = lock.values
    commit = lock.commit_key(name)
    if commit is None:
        first = next(key for key in values if source_keys.component(key) == name)
        yield finding(first, f"{name} has no commit", f"a line {name}.commit=… is missing")
        return
    for tree in (f"{name}.tree", f"{name}.integration.tree"):
        if tree in values and tree.replace("tree", "commit") not in values:
            yield finding(tree, f"{tree.replace('tree', 'commit')} is not there")
    version = f"{name}.version"
    if version in values:
        prefix = version_commit(name, values[version])
        if other := _others_commit(lock, name, values[version]):
            yield finding(version, f"is a version of {other}, not of {name}")
        elif prefix is None:
            what = "does not end in the commit that it was built from"
            yield finding(version, what, warning=True)
        elif not values[commit].startswith(prefix):
            yield finding(version, f"names commit {prefix}, {commit} is {values[commit]:.12}")
    mode = values.get(f"{name}.native.mode")
    if mode is not None and mode not in _MODES:
        what = f"{mode!r} is none of {', '.join(_MODES)}"
        yield finding(f"{name}.native.mode", what, warning=True)


def _overlay_findings(values: Mapping[str, str], finding: _Make) -> Iterator[Finding]:
    """The list of an overlay's files and their digests must name the same files."""
    prefix, suffix = "overlay.file.", ".sha256"
    hashed = [k[len(prefix) : -len(suffix)] for k in values if k.startswith(prefix)]
    if "overlay.files" not in values:
        if hashed:
            yield finding(f"{prefix}{hashed[0]}{suffix}", "overlay.files is not there")
        return
    listed = [name.strip() for name in values["overlay.files"].split(",")]
    if len(set(listed)) < len(listed) or "" in listed:
        yield finding("overlay.files", "names a file twice, or an empty name")
    for name in listed:
        if name and name not in hashed:
            yield finding("overlay.files", f"{prefix}{name}{suffix} is not there")
    for name in hashed:
        if name not in listed:
            yield finding(f"{prefix}{name}{suffix}", "overlay.files does not name this file")


if TYPE_CHECKING:
    from typing import Protocol

    class _Make(Protocol):
        def __call__(
            self, key: str, what: str, hint: str = "", *, warning: bool = False
        ) -> Finding: ...
