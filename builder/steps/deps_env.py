"""Tell a build where the staged deps are: `deps.env` for a shell, `deps.cmake` for CMake.

`deps.env` exports the variables that the CMake files look for (`VLLM_CUTLASS_SRC_DIR`).
`deps.cmake` is an initial cache (`cmake -C`) for those contents that no variable stands for:
`FETCHCONTENT_SOURCE_DIR_<NAME>` is CMake's own, and cannot come from the environment. Both take
$DEPS_DIR for the folder in which deps-src.tar.gz was unpacked, /src/deps unless it is set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from builder.model.lock import LockedDep

FOLDER = "/src/deps"


def files(deps: Mapping[str, LockedDep]) -> Mapping[str, bytes]:
    """The files of the context by their paths; none when no dep needs to be told."""
    if not any(dep.variable or dep.from_ for dep in deps.values()):
        return {}
    return {
        "deps/deps.cmake": _text(_cmake(deps)),
        "deps/deps.env": _text(_shell(deps)),
    }


def folder_of(dep: LockedDep) -> str:
    """What a dep's variable points at, below the folder of the deps."""
    return f"{dep.into}/{dep.subfolder}" if dep.variable and dep.subfolder else dep.into


def _shell(deps: Mapping[str, LockedDep]) -> Iterator[str]:
    yield "# Written by imgbuild from the lock: where the build finds what it would fetch."
    yield f': "${{DEPS_DIR:={FOLDER}}}"'
    yield "export DEPS_DIR"
    for name, dep in sorted(deps.items()):
        if dep.variable:
            yield f'export {dep.variable}="$DEPS_DIR/{folder_of(dep)}"  # {name} {dep.commit:.12}'


def _cmake(deps: Mapping[str, LockedDep]) -> Iterator[str]:
    yield "# Written by imgbuild from the lock: an initial cache, for cmake -C."
    yield 'set(deps_dir "$ENV{DEPS_DIR}")'
    yield 'if(deps_dir STREQUAL "")'
    yield f'  set(deps_dir "{FOLDER}")'
    yield "endif()"
    for name, dep in sorted(deps.items()):
        if not dep.variable and dep.file:
            variable = f"FETCHCONTENT_SOURCE_DIR_{name.upper()}"
            yield f'set({variable} "${{deps_dir}}/{dep.into}" CACHE PATH "{dep.commit:.12}")'


def _text(lines: Iterator[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
