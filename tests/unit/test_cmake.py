"""What CMake files would fetch, on snippets of our own in the forms that are met in the wild."""

from __future__ import annotations

import pytest

from builder.steps import cmake
from builder.steps.cmake import Fetch, Unclassified
from builder.steps.cmake_condition import holds
from builder.steps.cmake_lines import Command, Unreadable, commands
from builder.steps.cmake_scope import Scope

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
        ('lang_of STREQUAL "CUDA"', None),
        ("KNOWN STREQUAL yes", None),  # a bare word may be a variable
        ("CUDAToolkit_VERSION_MAJOR EQUAL 13", None),
        ("${ELSEWHERE} OR OFF_NOW", None),  # may be several words, or none
        ("OFF_NOW AND ()", None),  # CMake refuses it
        ("13.0 EQUAL 13", True),
        ("2.10 VERSION_GREATER 2.9", True),
        ('"yes"', True),
        ('"${KNOWN}x"', False),
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
    assert said(text, WITH_X="OFF") == ["7 y: GIT_TAG ${Y_TAG} is not known"]
    assert one(text, X_TAG="v3").tag == "v3"  # as -D: it is in the cache first


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
        ("CPMFindPackage(NAME q)", "1 cpmfindpackage(name …) fetches at build time"),
        (
            'execute_process(COMMAND sh -c "cd x && git clone u")',
            "1 execute_process runs git clone",
        ),
        (
            'execute_process(COMMAND bash -c "set -e; git -C x submodule update --init")',
            "1 execute_process runs git submodule",
        ),
        ("execute_process(COMMAND ${GIT} clone u)", "1 execute_process runs ${GIT} clone"),
        (
            "add_custom_target(x COMMAND ${Python_EXECUTABLE} -m pip install y)",
            "1 add_custom_target runs pip install",
        ),
        (
            "set(GET curl)\nexecute_process(COMMAND ${GET} -O u)",
            "2 execute_process runs curl u",
        ),
        (
            "cmake_language(CALL ${WHICH} x)",
            "1 cmake_language(CALL ${WHICH} x …): what it runs is not known",
        ),
        (
            'cmake_language(EVAL CODE "${TEXT}")',
            "1 cmake_language(EVAL CODE ${TEXT} …): what it runs is not known",
        ),
        (
            "cmake_language(CALL FetchContent_Declare x URL u)",
            "1 x is fetched by URL",
        ),
        (
            "include(${WHERE}/x.cmake)",
            "1 include(${WHERE}/x.cmake): which file that is is not known",
        ),
        (
            "include(cmake/gone.cmake)",
            "1 include(cmake/gone.cmake): which file that is is not known",
        ),
        (
            "set(N a)\nfunction(get N)\nFetchContent_Declare(${N} GIT_REPOSITORY u GIT_TAG v1)"
            "\nendfunction()",
            "3 a content whose name is not known: ${N}",
        ),
        ("FetchContent_Declare(x SOURCE_DIR d ${MORE})", "1 x is fetched in no known way"),
        ("if(X)\n", "1 not CMake: if( has no endif"),
        ("if(X)\nendforeach()\n", "2 not CMake: endforeach( ends nothing"),
        ("macro(m)\nm()\nendmacro()\nm()", "1 functions call each other without end"),
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


FETCH = "FetchContent_Declare(x GIT_REPOSITORY https://h.invalid/x GIT_TAG ${T})\n"


def test_a_folder_to_download_to_is_no_local_one() -> None:
    text = """
set(X_SRC_DIR $ENV{X_SRC_DIR})
if(NOT X_SRC_DIR)
  set(X_SRC_DIR ${CMAKE_BINARY_DIR}/x)
endif()
FetchContent_Declare(x GIT_REPOSITORY https://h.invalid/x GIT_TAG v1 SOURCE_DIR ${X_SRC_DIR})
FetchContent_Declare(y URL https://h.invalid/y.tgz SOURCE_DIR $ENV{DEPS_CACHE}/y)
"""
    ((fetch,), (other,)) = read(text)
    assert (fetch.tag, fetch.variable) == ("v1", None)  # it would still download
    assert other.what == "y is fetched by URL"
    assert read("FetchContent_Declare(x SOURCE_DIR ${X_SRC_DIR})") == ((), ())


@pytest.mark.parametrize(
    "how",
    [
        "include(cmake/new.cmake)",
        "include(${CMAKE_CURRENT_LIST_DIR}/cmake/new.cmake)",
        "set(HERE ${PROJECT_SOURCE_DIR}/cmake)\ninclude(${HERE}/new.cmake)",
        "list(APPEND CMAKE_MODULE_PATH x)\ninclude(new)",
        "add_subdirectory(lib)",
        "find_package(New)",
        "include(cmake/deep.cmake)",
        "macro(all)\ninclude(cmake/new.cmake)\nendmacro()\nall()",
    ],
)
def test_files_that_are_reached_are_read(how: str) -> None:
    held = {
        "CMakeLists.txt": f"set(T v1)\n{how}\n",
        "cmake/new.cmake": FETCH,
        "lib/CMakeLists.txt": "include(${CMAKE_CURRENT_SOURCE_DIR}/../cmake/new.cmake)\n",
        "cmake/FindNew.cmake": FETCH,
        "cmake/deep.cmake": "include(${CMAKE_CURRENT_LIST_DIR}/new.cmake)\n",
    }
    top = {"CMakeLists.txt": held["CMakeLists.txt"]}
    ((fetch,), unclassified) = cmake.read(top, {}, cmake.Tree(held.keys(), held.get))
    assert (fetch.tag, unclassified) == ("v1", ())
    assert fetch.file in ("cmake/new.cmake", "cmake/FindNew.cmake")


def test_a_folder_below_has_variables_of_its_own() -> None:
    held = {
        "CMakeLists.txt": f"set(T v1)\nadd_subdirectory(lib)\n{FETCH}",
        "lib/CMakeLists.txt": "set(T v0)\n",
    }
    ((fetch,), unclassified) = cmake.read(held)
    assert (fetch.tag, unclassified) == ("v1", ())
    held["lib/CMakeLists.txt"] = "set(T v2 PARENT_SCOPE)\n"
    assert cmake.read(held)[0][0].tag == "v2"


def test_files_without_end() -> None:
    loop = {"CMakeLists.txt": "include(a.cmake)\ninclude(a.cmake)\n",
            "a.cmake": "include(CMakeLists.txt)\ninclude(a.cmake)\n"}  # fmt: skip
    (_, unclassified) = cmake.read(loop)
    assert "files include each other without end" in [one.what for one in unclassified]
    bombs = [
        "set(A x)\n" + "set(A ${A}${A})\n" * 64,
        "if(" + "(" * 5000 + "A" + ")" * 5000 + ")\nendif()",
        "if(A)\n" * 5000 + "endif()\n" * 5000,
        "".join(f"if(M{i})\nset(A{i} x)\nelse()\nset(A{i} y)\nendif()\n" for i in range(40))
        + "set(A " + "".join(f"${{A{i}}}" for i in range(40)) + ")\n",
        "set(A " + "${" * 3000 + "}" * 3000 + ")",
    ]  # fmt: skip
    for bomb in bombs:
        fetches, unclassified = read(bomb + "\nset(T v1)\n" + FETCH)
        assert fetches or unclassified


def test_an_older_cmake_may_take_the_cache_first() -> None:
    text = f'set(T v1)\nset(T v2 CACHE STRING "")\n{FETCH}'
    assert one(text).tag == "v1"
    assert said(f"cmake_minimum_required(VERSION 3.18)\n{text}") == [
        "4 x: GIT_TAG ${T} is v1 or v2"
    ]


def test_a_byte_order_mark_is_no_command() -> None:
    assert one("\ufeffset(T v1)\n" + FETCH).tag == "v1"


def test_what_fetches_nothing() -> None:
    assert read("execute_process(COMMAND git -C x rev-parse HEAD)") == ((), ())
    assert read("if(POLICY CMP1)\nreturn()\nendif()\ninclude(gone.cmake OPTIONAL)") == ((), ())
    assert read("execute_process(COMMAND git rev-parse HEAD)\nfile(READ x y)\n") == ((), ())
    assert read("if(DEFINED ENV{X})\nexecute_process(COMMAND git clone u)\nendif()") == ((), ())
