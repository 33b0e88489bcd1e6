"""What CMake does and what is read of it: nothing that CMake would fetch is missed.

FetchContent_Declare is replaced by a function that writes down how it was called.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builder.steps import cmake

CMAKE = os.environ.get("IMGBUILD_CMAKE") or shutil.which("cmake")
pytestmark = pytest.mark.skipif(CMAKE is None, reason="there is no cmake here")

STUB = """
cmake_minimum_required(VERSION 3.25)
function(FetchContent_Declare)
  file(APPEND "$ENV{CALLS}" "${ARGN}\\n")
endfunction()
include("$ENV{SCRIPT}")
"""
FETCH = "FetchContent_Declare({} GIT_REPOSITORY https://h.invalid/x GIT_TAG {})\n"


def fetched(script: str, folder: Path, outside: Mapping[str, str]) -> dict[str, str] | None:
    """The tag of each content that CMake would fetch; None when CMake refuses the script."""
    (folder / "stub.cmake").write_text(STUB)
    (folder / "script.cmake").write_text(script)
    (folder / "calls").write_text("")
    assert CMAKE is not None
    done = subprocess.run(
        [CMAKE, *(f"-D{name}={value}" for name, value in outside.items()), "-P", "stub.cmake"],
        cwd=folder, capture_output=True, check=False,
        env={"CALLS": str(folder / "calls"), "SCRIPT": str(folder / "script.cmake")},
    )  # fmt: skip
    if done.returncode:
        return None
    found: dict[str, str] = {}
    for line in (folder / "calls").read_text().splitlines():
        name, *rest = line.split(";")
        if "GIT_REPOSITORY" in rest:  # the first of two declarations counts
            tag = rest[rest.index("GIT_TAG") + 1 :] if "GIT_TAG" in rest else []
            found.setdefault(name.lower(), tag[0] if tag else "")
    return found


def missed(script: str, real: Mapping[str, str]) -> list[str]:
    """What is neither found with its tag nor told."""
    fetches, unclassified = cmake.read({"script.cmake": script})
    tags = {fetch.name: fetch.tag for fetch in fetches}
    told = {one.name for one in unclassified}
    if "" in told:
        return []
    return [
        f"{name} at {tag}: {tags.get(name, 'none')}"
        for name, tag in real.items()
        if name not in told and tags.get(name) != tag
    ]


TABLE = {
    "a variable of someone else": "if(gpu_lang STREQUAL \"CUDA\")\n{x}endif()",
    "a version of someone else": "if(CUDAToolkit_VERSION_MAJOR EQUAL 13)\n{x}endif()",
    "a folder to download to": (
        "set(X_SRC_DIR $ENV{{X_SRC_DIR}})\nif(NOT X_SRC_DIR)\n"
        "set(X_SRC_DIR ${{CMAKE_BINARY_DIR}}/x)\nendif()\n"
        "FetchContent_Declare(x GIT_REPOSITORY u GIT_TAG v1 SOURCE_DIR ${{X_SRC_DIR}})"
    ),
    "a folder of the environment": (
        "FetchContent_Declare(x GIT_REPOSITORY u GIT_TAG v1 SOURCE_DIR $ENV{{DEPS_CACHE}}/x)"
    ),
    "option after set": 'set(WITH_X ON)\noption(WITH_X "" OFF)\nif(WITH_X)\n{x}endif()',
    "unset": "set(X 1)\nunset(X)\nif(NOT DEFINED X)\n{x}endif()",
    "set without a value": "set(X 1)\nset(X)\nif(NOT DEFINED X)\n{x}endif()",
    "set to nothing": 'set(X "")\nif(DEFINED X)\n{x}endif()',
    "or before and": "set(A 1)\nif(A OR B AND B)\nelse()\n{x}endif()",
    "and before or": "set(A 1)\nif(B AND A OR A)\n{x}endif()",
    "a number": "set(V 13.0)\nif(V EQUAL 13)\n{x}endif()",
    "no number": "set(V foo)\nif(NOT V EQUAL 13)\n{x}endif()",
    "a quoted word": 'set(V foo)\nif("${{V}}")\nelse()\n{x}endif()',
    "zeros": 'set(V 00)\nif(V)\n{x}endif()\nif(00)\n{y}endif()',
    "a set environment": "set(ENV{{USE}} 1)\nif(DEFINED ENV{{USE}})\n{x}endif()",
    "cached twice": "set(T v1 CACHE STRING \"\")\nset(T v2 CACHE STRING \"\")\n{t}",
    "cached after set": "set(T v1)\nset(T v2 CACHE STRING \"\")\n{t}",
    "cached with force": "set(T v2 CACHE STRING \"\")\nset(T v1 CACHE STRING \"\" FORCE)\n{t}",
    "set from nothing": "set(T v0)\nset(T $ENV{{X}})\nif(NOT T)\nset(T v1)\nendif()\n{t}",
    "a loop's variable": "set(T v1)\nforeach(T a b)\nendforeach()\n{t}",
    "a loop's last round": (
        "set(T v0)\nforeach(i 1 2)\nset(T ${{U}})\nset(U v${{i}})\nendforeach()\n{t}"
    ),
    "a parameter": "set(T v0)\nfunction(f T)\n{t}endfunction()\nf(v1)",
    "a macro's parameter": "set(T v0)\nmacro(f T)\n{t}endmacro()\nf(v1)",
    "a macro that sets": "set(T v0)\nmacro(f)\nset(T v1)\nendmacro()\nf()\n{t}",
    "a function that sets": (
        "set(T v0)\nfunction(f o)\nset(${{o}} v1 PARENT_SCOPE)\nendfunction()\nf(T)\n{t}"
    ),
    "a function's own": "set(T v1)\nfunction(f)\nset(T v0)\nendfunction()\nf()\n{t}",
    "defined twice": (
        "macro(f)\nset(T v0)\nendmacro()\nmacro(f)\nset(T v1)\nendmacro()\nf()\n{t}"
    ),
    "an early return": "function(f)\nset(T v1 PARENT_SCOPE)\nreturn()\nset(T v0 PARENT_SCOPE)\n"
                       "endfunction()\nf()\n{t}",
    "break": "foreach(i 1 2)\nset(T v1)\nbreak()\nset(T v0)\nendforeach()\n{t}",
    "call": "cmake_language(CALL FetchContent_Declare x GIT_REPOSITORY u GIT_TAG v1)",
    "eval": 'cmake_language(EVAL CODE "FetchContent_Declare(x GIT_REPOSITORY u GIT_TAG v1)")',
    "block": "set(T v1)\nblock()\nset(T v0)\nendblock()\n{t}",
    "block, outside": "set(T v0)\nblock(PROPAGATE T)\nset(T v1)\nendblock()\n{t}",
    "an element": 'set(L a;b)\nif(b IN_LIST L)\n{x}endif()\nif(c IN_LIST L)\n{y}endif()',
    "versions": 'set(V 12.10)\nif(V VERSION_GREATER 12.9)\n{x}endif()',
    "texts": 'set(V b)\nif(V STRGREATER "a")\n{x}endif()',
    "a reference of a reference": (
        "set(N T)\nset(T v1)\nset(U ${{${{N}}}})\n" + FETCH.format("x", "${{U}}")
    ),
    "an escaped reference": 'set(A "\\${{T}}")\nset(T v1)\nif(A STREQUAL "v1")\nelse()\n{t}endif()',
    "an operator in a variable": 'set(A ON)\nset(B OR)\nif(OFF ${{B}} A)\n{x}endif()',
    "a word that goes": "set(E \"\")\nif(ON ${{E}})\n{x}endif()",
    "options in a variable": "set(O GIT_REPOSITORY u GIT_TAG v1)\nFetchContent_Declare(x ${{O}})",
}  # fmt: skip


@pytest.mark.parametrize("script", TABLE.values(), ids=TABLE.keys())
def test_cases(script: str, tmp_path: Path) -> None:
    """Both find it; what is unknown in the script may be anything."""
    text = script.format(x=FETCH.format("x", "v1"), y=FETCH.format("y", "v1"),
                         t=FETCH.format("x", "${T}"))  # fmt: skip
    real = fetched(text, tmp_path, {"gpu_lang": "CUDA", "CUDAToolkit_VERSION_MAJOR": "13"})
    assert real == {"x": "v1"}
    assert missed(text, real) == []


EXACT = {"option after set", "unset", "set without a value", "a number", "cached twice",
         "cached after set", "set from nothing", "a parameter", "a macro's parameter",
         "a macro that sets", "a function that sets", "a function's own", "call", "eval",
         "an early return", "a loop's variable", "or before and", "a quoted word",
         "a set environment", "options in a variable", "zeros"}  # fmt: skip


@pytest.mark.parametrize("name", sorted(EXACT))
def test_cases_that_are_decided(name: str) -> None:
    text = TABLE[name].format(x=FETCH.format("x", "v1"), y=FETCH.format("y", "v1"),
                              t=FETCH.format("x", "${T}"))  # fmt: skip
    fetches, unclassified = cmake.read({"script.cmake": text})
    assert [(fetch.name, fetch.tag) for fetch in fetches] == [("x", "v1")]
    assert unclassified == ()


# --- any scripts

NAMES = st.sampled_from(["A", "B", "c_d"])
READ = st.sampled_from(["A", "B", "c_d", "OUT", "out_v"])
VALUES = st.sampled_from(
    ["ON", "OFF", "1", "0", "v1", "v2", '""', "13.0", "13", "x;y", "NOTFOUND", "A", "B", "${A}",
     '"${B}"', "${c_d}", "${OUT}", "$ENV{E}", "v${A}", "00", "OUT", "OR"]
)  # fmt: skip
WORDS = st.one_of(READ, VALUES, st.sampled_from(['"${A}"', '"A"', "13", '"v1"', "ENV{E}"]))
TESTS = st.one_of(
    WORDS,
    st.builds("DEFINED {}".format, st.one_of(READ, st.just("ENV{E}"))),
    st.builds(
        "{} {} {}".format,
        WORDS,
        st.sampled_from(
            [
                "STREQUAL",
                "EQUAL",
                "LESS",
                "VERSION_LESS",
                "IN_LIST",
                "STRLESS",
                "GREATER_EQUAL",
                "VERSION_EQUAL",
            ]
        ),
        WORDS,
    ),
)
CONDITIONS = st.recursive(
    TESTS,
    lambda inner: st.one_of(
        st.builds("NOT {}".format, inner),
        st.builds("( {} )".format, inner),
        st.builds("{} {} {}".format, inner, st.sampled_from(["AND", "OR"]), inner),
    ),
    max_leaves=4,
)
PLAIN = st.one_of(
    st.builds("set({} {})\n".format, NAMES, VALUES),
    st.builds("set({} {})\n".format, NAMES, VALUES),
    st.builds('set({} {} CACHE STRING "")\n'.format, NAMES, VALUES),
    st.builds('set({} {} CACHE STRING "" FORCE)\n'.format, NAMES, VALUES),
    st.builds('option({} "" {})\n'.format, NAMES, VALUES),
    st.builds("set({} {} PARENT_SCOPE)\n".format, NAMES, VALUES),
    st.builds("set(ENV{{E}} {})\n".format, VALUES),
    st.builds("unset({}{})\n".format, NAMES, st.sampled_from(["", " CACHE", " PARENT_SCOPE"])),
    st.builds("list(APPEND {} z)\n".format, NAMES),
    st.builds("string(TOUPPER \"${{{}}}\" {})\n".format, READ, NAMES),
    st.builds("f({} {})\n".format, NAMES, VALUES),
    st.builds("m({} {})\n".format, NAMES, VALUES),
    st.sampled_from(["return()\n", "unset(ENV{E})\n"]),
    st.builds("fetch({})\n".format, VALUES),
    st.builds("fetch({})\n".format, st.builds("${{{}}}".format, NAMES)),
)  # fmt: skip
BODIES = st.recursive(
    st.lists(PLAIN, min_size=1, max_size=4).map("".join),
    lambda inner: st.one_of(
        st.builds("if({})\n{}else()\n{}endif()\n".format, CONDITIONS, inner, inner),
        st.builds("if({})\n{}elseif({})\n{}endif()\n".format, CONDITIONS, inner, CONDITIONS, inner),
        st.builds("foreach({} 1 2)\n{}endforeach()\n".format, NAMES, inner),
        st.builds("foreach(i 1 2)\n{}break()\nendforeach()\n".format, inner),
        st.builds("block()\n{}endblock()\n".format, inner),
        st.lists(inner, min_size=2, max_size=4).map("".join),
    ),
    max_leaves=12,
)
SCRIPTS = st.builds(
    "function(f A v)\n{}endfunction()\nmacro(m c_d v)\n{}endmacro()\n{}".format,
    st.lists(st.one_of(PLAIN, st.just("set(${A} ${v} PARENT_SCOPE)\n")), max_size=4)
    .map("".join).filter(lambda body: "f(" not in body and "m(" not in body),
    st.lists(st.one_of(PLAIN, st.just("set(${c_d} ${v})\n")), max_size=4)
    .map("".join).filter(lambda body: "f(" not in body and "m(" not in body),
    BODIES,
)  # fmt: skip


@settings(
    max_examples=250, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(SCRIPTS, st.sampled_from(["", "ON", "v1", "13", "x;y"]))
def test_any_script(tmp_path_factory: pytest.TempPathFactory, script: str, outside: str) -> None:
    parts = script.split("fetch(")
    text = parts[0] + "".join(
        f"FetchContent_Declare(d{i} GIT_REPOSITORY https://h.invalid/x GIT_TAG {part}"
        for i, part in enumerate(parts[1:])
    )
    known = {"OUT": outside, "out_v": "CUDA"} if outside else {}
    real = fetched(text, tmp_path_factory.mktemp("script"), known)
    if real is not None:
        assert missed(text, real) == [], text
