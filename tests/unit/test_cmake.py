"""What CMake files would fetch, on snippets of our own in the forms that are met in the wild."""

from __future__ import annotations

import pytest

from builder.steps import cmake
from builder.steps.cmake import Fetch, Unclassified
from builder.steps.cmake_lines import Command, Unreadable, commands
from builder.steps.cmake_scope import Scope, holds

REVISION = "a" * 40


def read(text: str, **given: str) -> tuple[tuple[Fetch, ...], tuple[Unclassified, ...]]:
    return cmake.read({"cmake/x.cmake": text}, given)


def one(text: str, **given: str) -> Fetch:
    fetches, unclassified = read(text, **given)
    assert unclassified == ()
    (fetch,) = fetches
    return fetch


def said(text: str, **given: str) -> list[str]:
    return [f"{u.line} {u.what}" for u in read(text, **given)[1]]


# --- the language


def parsed(text: str) -> list[Command]:
    return list(commands(text))


def test_comments_quotes_brackets_and_lines() -> None:
    text = (
        "#[[ a\nblock ]] # a line\n"
        'set(X "a;b" # why\n  [=[c "]" d]=] e\\;f)\n\n'
        'if((A AND "B") OR NOT C)\nendif()\n'
    )
    first, condition, end = parsed(text)
    assert (first.name, first.line) == ("set", 3)
    assert first.words == ("X", "a;b", 'c "]" d', "e\\;f")
    assert [a.quoted for a in first.arguments] == [False, True, True, False]
    assert condition.words == ("(", "A", "AND", "B", ")", "OR", "NOT", "C")
    assert (end.name, end.line) == ("endif", 7)


@pytest.mark.parametrize(
    ("text", "line"),
    [("a(\nb", 1), ("\nwords and words", 2), ('\n\nset(X "open)', 3), ("set)", 1), ("x y()", 1)],
)
def test_what_is_no_cmake_is_told_with_its_line(text: str, line: int) -> None:
    with pytest.raises(Unreadable) as caught:
        parsed(text)
    assert caught.value.line == line
    assert said(text) == [f"{line} not CMake: {caught.value}"]


@pytest.mark.parametrize(
    ("condition", "truth"),
    [
        ("ON", True),
        ("NOT ON", False),
        ("KNOWN", True),
        ("OFF_NOW", False),
        ("ELSEWHERE", None),
        ("DEFINED ENV{HOME}", False),
        ("DEFINED KNOWN", True),
        ("DEFINED ELSEWHERE", None),
        ('KNOWN STREQUAL "yes"', True),
        ('"${KNOWN}" STREQUAL "no"', False),
        ('LANG_OF STREQUAL "CUDA"', None),
        ('NOT "$ENV{X}" STREQUAL ""', False),
        ("ELSEWHERE AND OFF_NOW", False),
        ("ELSEWHERE OR KNOWN", True),
        ("ELSEWHERE OR OFF_NOW", None),
        ("NOT (OFF_NOW OR ELSEWHERE)", None),
        ('EXISTS "${KNOWN}/x" AND OFF_NOW', False),
        ("VERSION VERSION_GREATER 3", None),
    ],
)
def test_conditions(condition: str, truth: bool | None) -> None:
    scope = Scope.of({"KNOWN": "yes", "OFF_NOW": "OFF"})
    (command,) = parsed(f"if({condition})")
    assert holds(command.arguments, scope) is truth


# --- forms of a fetch


DECLARED = """
include(FetchContent)
if(DEFINED ENV{WIDGET_SRC_DIR})
  set(WIDGET_SRC_DIR $ENV{WIDGET_SRC_DIR})
endif()
if(WIDGET_SRC_DIR)
  FetchContent_Declare(widget SOURCE_DIR ${WIDGET_SRC_DIR} CONFIGURE_COMMAND "")
else()
  # GIT_TAG in a comment is none
  FetchContent_Declare(
    widget
    GIT_REPOSITORY https://example.invalid/widget.git
    GIT_TAG aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    GIT_SUBMODULES "lib/one" "lib/two"
    GIT_PROGRESS TRUE
    BUILD_COMMAND "")
endif()
FetchContent_MakeAvailable(widget)
"""


def test_declared_with_a_variable_that_replaces_it() -> None:
    assert one(DECLARED) == Fetch(
        "widget", "https://example.invalid/widget.git", REVISION, "cmake/x.cmake", 10,
        ("lib/one", "lib/two"), "WIDGET_SRC_DIR",
    )  # fmt: skip


def test_populated_directly_with_pins_in_variables() -> None:
    fetch = one("""
if(DEFINED ENV{GADGET_SRC_DIR})
  set(GADGET_SRC_DIR $ENV{GADGET_SRC_DIR})
endif()
if(GADGET_SRC_DIR)
  set(_user "${GADGET_SRC_DIR}")
  cmake_path(ABSOLUTE_PATH _user BASE_DIRECTORY "${CMAKE_SOURCE_DIR}" NORMALIZE)
  set(GADGET_SRC_DIR "${_user}")
  set(gadget_SOURCE_DIR "${GADGET_SRC_DIR}")
else()
  set(_REPO "https://example.invalid/gadget.git")
  set(_TAG "v1.2")
  set(_root "${FETCHCONTENT_BASE_DIR}")
  if(NOT _root)
    set(_root "${CMAKE_BINARY_DIR}/_deps")
  endif()
  if(EXISTS "${_root}/gadget-src/a.cpp")
    set(gadget_SOURCE_DIR "${_root}/gadget-src")
  else()
    FetchContent_Populate(gadget SUBBUILD_DIR "${_root}/b" SOURCE_DIR "${_root}/gadget-src"
      GIT_REPOSITORY "${_REPO}" GIT_TAG "${_TAG}")
  endif()
endif()
""")
    assert (fetch.url, fetch.tag) == ("https://example.invalid/gadget.git", "v1.2")
    assert (fetch.variable, fetch.submodules, fetch.line) == ("GADGET_SRC_DIR", None, 20)


def test_a_variable_that_points_at_a_subfolder() -> None:
    fetch = one("""
set(DEFAULT_TAG "v3")
if(DEFINED ENV{KERNELS_TAG})
  set(TAG $ENV{KERNELS_TAG})
else()
  set(TAG ${DEFAULT_TAG})
endif()
if (DEFINED ENV{KERNELS_SRC_DIR})
  FetchContent_Declare(Kernels SOURCE_DIR $ENV{KERNELS_SRC_DIR})
else()
  FetchContent_Declare(Kernels GIT_REPOSITORY https://example.invalid/k GIT_TAG ${TAG}
    SOURCE_SUBDIR python/kernels)
endif()
""")
    assert (fetch.name, fetch.tag) == ("kernels", "v3")
    assert (fetch.variable, fetch.subfolder) == ("KERNELS_SRC_DIR", "python/kernels")


def test_submodules_of_every_branch_that_may_be_taken() -> None:
    text = """
set(MODULES "")
if(GPU_LANG STREQUAL "CUDA")
  set(MODULES "csrc/a;csrc/b")
endif()
FetchContent_Declare(x GIT_REPOSITORY https://h.invalid/x GIT_TAG v1 GIT_SUBMODULES ${MODULES})
"""
    assert one(text).submodules == ("csrc/a", "csrc/b")
    assert one(text, GPU_LANG="HIP").submodules == ()
    assert one(text, GPU_LANG="CUDA").submodules == ("csrc/a", "csrc/b")


def test_options_and_cached_variables_have_defaults() -> None:
    text = """
option(WITH_X "x" ON)
set(X_TAG "v2" CACHE STRING "of x")
if(WITH_X)
  FetchContent_Declare(x GIT_REPOSITORY https://h.invalid/x GIT_TAG ${X_TAG})
else()
  FetchContent_Declare(y GIT_REPOSITORY https://h.invalid/y GIT_TAG ${Y_TAG})
endif()
"""
    assert (one(text).name, one(text).tag) == ("x", "v2")
    assert said(text, WITH_X="OFF") == []  # what the file sets wins over what was given


def test_variables_of_earlier_files_are_known() -> None:
    files = {
        "CMakeLists.txt": 'set(REV "v9")\n',
        "cmake/external_projects/x.cmake": "FetchContent_Declare(x GIT_REPOSITORY "
        "https://h.invalid/x GIT_TAG ${REV})",
    }
    ((fetch,), unclassified) = cmake.read(files)
    assert (fetch.tag, unclassified) == ("v9", ())


# --- what cannot be classified


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("FetchContent_Declare(x URL https://h.invalid/x.tgz)", "1 x is fetched by URL"),
        ("FetchContent_Declare(x FIND_PACKAGE_ARGS)", "1 x is fetched in no known way"),
        ("FetchContent_Declare(x GIT_REPOSITORY https://h.invalid/x)", "1 x: GIT_TAG is missing"),
        (
            "FetchContent_Declare(x GIT_REPOSITORY https://h.invalid/x GIT_TAG ${NOWHERE})",
            "1 x: GIT_TAG ${NOWHERE} is not known",
        ),
        (
            "FetchContent_Declare(x GIT_REPOSITORY ${A}/x GIT_TAG v1 PATCH_COMMAND git apply p)",
            "1 x has a PATCH_COMMAND, which does not run where a folder is given",
        ),
        (
            "foreach(n a b)\nFetchContent_Declare(${n} GIT_REPOSITORY u GIT_TAG v)\nendforeach()",
            "2 a content whose name is not known: ${n}",
        ),
        ("ExternalProject_Add(z URL u)", "1 externalproject_add(z …) fetches at build time"),
        ("CPMAddPackage(NAME q)", "1 cpmaddpackage(name …) fetches at build time"),
        ("file(DOWNLOAD https://h.invalid/f f)", "1 file(DOWNLOAD https://h.invalid/f)"),
        ("execute_process(COMMAND git clone u)", "1 execute_process runs git clone"),
        (
            "execute_process(COMMAND ${GIT_EXECUTABLE} submodule update)",
            "1 execute_process runs ${GIT_EXECUTABLE} submodule",
        ),
        (
            "set(T v1)\nif(MAYBE)\nset(T v2)\nendif()\n"
            "FetchContent_Declare(x GIT_REPOSITORY https://h.invalid/x GIT_TAG ${T})",
            "5 x: GIT_TAG ${T} is v1 or v2",
        ),
        (
            "set(T v1)\nstring(REPLACE v w T ${T})\n"
            "FetchContent_Declare(x GIT_REPOSITORY https://h.invalid/x GIT_TAG ${T})",
            "3 x: GIT_TAG ${T} is not known",
        ),
    ],
)
def test_what_cannot_be_classified_is_told(text: str, says: str) -> None:
    assert said(text) == [says]


def test_two_that_differ() -> None:
    declare = "FetchContent_Declare(x GIT_REPOSITORY https://h.invalid/x GIT_TAG v%d)\n"
    text = f"if(MAYBE)\n{declare % 1}else()\n{declare % 2}endif()\n"
    (what,) = said(text)
    assert "v1 (cmake/x.cmake:2), and from https://h.invalid/x at v2" in what
    assert one(text, MAYBE="ON").tag == "v1"
    assert one(text, MAYBE="0").tag == "v2"


def test_what_fetches_nothing() -> None:
    assert read("execute_process(COMMAND git rev-parse HEAD)\nfile(READ x y)\n") == ((), ())
    assert read("if(DEFINED ENV{X})\nexecute_process(COMMAND git clone u)\nendif()") == ((), ())
