"""Whether building a folder as a Python package compiles anything at all.

A tree can hold CUDA files that its package does not compile: they are data for a JIT compiler,
or benchmarks. What the build reads says so: setup.py, or the backend that pyproject.toml names.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterator
from typing import TypeAlias

from builder.model import toml_text

Plain: TypeAlias = Callable[[str, str], bool]
"""Of a source and a folder in it: whether its Python build compiles nothing."""

_PACK_ONLY = ("setuptools", "flit_core", "hatchling", "poetry", "pdm", "uv_build", "flit")
_COMPILES = re.compile(rb"ext_modules|Extension\(|cpp_extension|ARCH_LIST|(?i:cmake)|\baot\b")
"""Words of every build that compiles device code: of setuptools, torch, CMake, FlashInfer."""
_IMPORTS = re.compile(rb"^\s*(?:from|import)\s+([A-Za-z_]\w*)", re.MULTILINE)


def packs_only(
    folder: str, paths: Collection[str], read: Callable[[str], bytes | None]
) -> bool:  # fmt: skip
    """Whether the package in `folder` of a tree is only packed. In doubt it is not."""
    project = read(posixpath.join(folder, "pyproject.toml"))
    backend = _backend(project)
    if backend is None:
        return False
    name, own = backend
    started = [*own, "setup.py"] if name.partition(".")[0] == "setuptools" else own
    texts = [*_with_imports([posixpath.join(folder, p) for p in started], folder, paths, read)]
    if own and not texts:
        return False
    described = b"ext-modules" in (project or b"")
    known = bool(own) or name.partition(".")[0] in _PACK_ONLY
    return known and not described and not any(map(_COMPILES.search, texts))


def _backend(project: bytes | None) -> tuple[str, list[str]] | None:
    """The backend's name, and its file where it lies in the tree; None: it cannot be said."""
    if project is None:
        return "setuptools", []
    try:
        table = toml_text.parse(project).get("build-system", {})
    except toml_text.TomlInvalid:
        return None
    if not isinstance(table, dict):
        return None
    name, folders = table.get("build-backend", "setuptools"), table.get("backend-path", [])
    if not isinstance(name, str) or not isinstance(folders, list):
        return None
    module = name.partition(":")[0].replace(".", "/")
    return name, [posixpath.normpath(f"{path}/{module}.py") for path in folders]


def _with_imports(
    files: list[str], folder: str, paths: Collection[str], read: Callable[[str], bytes | None]
) -> Iterator[bytes]:
    """The texts of these files, and of what they import from beside them."""
    done: set[str] = set()
    while files:
        path = files.pop()
        if path in done or (text := read(path)) is None:
            continue
        done.add(path)
        yield text
        for name in _IMPORTS.findall(text):
            module = posixpath.join(folder, name.decode())
            inside = re.compile(rf"{re.escape(module)}(?:\.py|/[^/]+\.py)")
            files += [other for other in paths if inside.fullmatch(other)]
