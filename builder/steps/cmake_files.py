"""Which file of the sources `include`, `add_subdirectory` and `find_package` read."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from builder.steps.cmake_lines import Command
from builder.steps.cmake_scope import TREE, UNKNOWN, Scope, Value


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of the sources."""

    paths: Collection[str]
    text: Callable[[str], str | None]


def named(command: Command, value: Value, scope: Scope, tree: Tree) -> Sequence[str] | None:
    """The files that a command reads; None when that is not known, or lies elsewhere."""
    if value is UNKNOWN:
        return None
    if command.name == "find_package":
        return modules(f"Find{value}.cmake", tree)
    here = scope.normal.get("CMAKE_CURRENT_SOURCE_DIR", (TREE,))[0]
    whole = value if value.startswith((TREE, "/")) else f"{here or TREE}/{value}"
    if whole.startswith("/"):
        return None
    path = posixpath.normpath(whole.replace(TREE, "", 1).lstrip("/") or ".")
    if command.name == "add_subdirectory":
        path = posixpath.normpath(posixpath.join(path, "CMakeLists.txt"))
        return (path,) if path in tree.paths else ()
    if path in tree.paths:
        return (path,)
    if "/" not in value and not value.endswith(".cmake"):
        return modules(f"{value}.cmake", tree)
    return () if "OPTIONAL" in command.words else None


def modules(name: str, tree: Tree) -> Sequence[str]:
    """The files of that name, in whatever folder CMAKE_MODULE_PATH has."""
    return sorted(path for path in tree.paths if posixpath.basename(path) == name)


def at(scope: Scope, **folders: str) -> None:
    """Set variables to folders of the sources."""
    for name, folder in folders.items():
        scope.normal[name] = (f"{TREE}/{folder}" if folder else TREE,)
