"""The deps set of a lane: derived from real trees, locked, staged, and compared before a build."""

from __future__ import annotations

import contextlib
import gzip
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder.errors import ImgbuildError
from builder.model.lock import Lock
from builder.pipeline.deps import listed
from builder.pipeline.prove import prove
from builder.pipeline.timeline import Timeline
from builder.steps import assemble, deps_env
from builder.steps.lanes import read_lane, read_lock
from tests.integration.projects import PlainProject
from tests.integration.repositories import Content

DECLARE = """
if(DEFINED ENV{{{upper}_SRC_DIR}})
  set({upper}_SRC_DIR $ENV{{{upper}_SRC_DIR}})
endif()
if({upper}_SRC_DIR)
  FetchContent_Declare({name} SOURCE_DIR ${{{upper}_SRC_DIR}})
else()
  FetchContent_Declare({name} GIT_REPOSITORY {url} GIT_TAG {tag} {more})
endif()
"""
LANE = """
[sources.engine]
url = "./repos/engine.git"
track = {{ branch = "main" }}
native = ["CMakeLists.txt", "cmake"]
[deps.engine-cmake]
from = "engine"
{deps}
"""


class Place(PlainProject):
    """A project with the source `engine`, which would fetch `widget` and `gadget`."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.engine, self.widget, self.gadget, self.fmt, self.big = map(
            self.repo, ("engine", "widget", "gadget", "fmt", "big")
        )
        c_fmt = self.fmt.commit({"fmt.h": "fmt\n"})
        c_big = self.big.commit({"big.h": "big\n"})
        modules = "".join(
            f'[submodule "{n}"]\n\tpath = lib/{n}\n\turl = ../{n}.git\n' for n in ("fmt", "big")
        )
        self.widget_files: dict[str, Content] = {
            "w.h": "widget\n", ".gitmodules": modules,
            "lib/fmt": ("160000", c_fmt), "lib/big": ("160000", c_big),
        }  # fmt: skip
        self.c_widget = self.widget.commit(self.widget_files)
        self.c_gadget = self.gadget.commit({"python/g/__init__.py": "gadget\n"})
        self.gadget.git("tag", "v1.0", self.c_gadget)
        self.sources: dict[str, Content] = {
            "CMakeLists.txt": 'set(GADGET_REVISION "v1.0")\ninclude(FetchContent)\n',
            "cmake/external_projects/gadget.cmake": self.declared(
                "gadget", "${GADGET_REVISION}", "SOURCE_SUBDIR python/g"
            ),
            "cmake/external_projects/widget.cmake": self.declared(
                "widget", self.c_widget, 'GIT_SUBMODULES "lib/fmt"'
            ),
        }
        self.engine.commit(self.sources)
        self.deps("")

    def declared(self, name: str, tag: str, more: str = "") -> str:
        url = f"file://{self.root}/repos/{name}.git"
        return DECLARE.format(upper=name.upper(), name=name, url=url, tag=tag, more=more)

    def deps(self, keys: str, name: str = "plain") -> None:
        """Write the lane, with these keys of its set of deps."""
        self.lane(LANE.format(deps=keys), name)

    def locked(self, name: str = "plain") -> Lock:
        return read_lock(read_lane(name, project=self.project).lane)

    def prove(self, name: str = "plain") -> None:
        lane = read_lane(name, project=self.project).lane
        prove(
            lane, self.locked(name), project=self.project, store=self.store, files=self.files,
            timeline=Timeline(self.tools["progress"]),
        )  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with contextlib.closing(Place(tmp_path)) as made:
        yield made


def said(place: Place, of: str = "lock") -> list[str]:
    with pytest.raises(ImgbuildError) as caught:
        place.lock() if of == "lock" else place.prove()
    return [f"{f.code}: {f.what}" for f in caught.value.findings]


def test_derived_deps_are_locked_by_commit(place: Place) -> None:
    found = place.lock().deps
    assert place.locked().deps == found
    gadget, widget = found["gadget"], found["widget"]
    assert (gadget.commit, gadget.tag) == (place.c_gadget, "v1.0")
    assert (gadget.variable, gadget.subfolder) == ("GADGET_SRC_DIR", "python/g")
    assert (widget.commit, widget.from_) == (place.c_widget, "engine-cmake")
    assert list(widget.submodules) == ["lib/fmt"]
    assert widget.unfilled == {
        "lib/big": "not in GIT_SUBMODULES of cmake/external_projects/widget.cmake"
    }
    place.prove()


def test_a_tag_that_moves_moves_nothing_until_it_is_asked_for(place: Place) -> None:
    place.lock()
    moved = place.gadget.commit({"python/g/__init__.py": "gadget 2\n"})
    place.gadget.git("tag", "-f", "v1.0", moved)
    assert place.lock().deps["gadget"].commit == place.c_gadget
    assert place.lock("plain", "engine-cmake").deps["gadget"].commit == moved


def test_the_list_says_where_each_is_used(place: Place) -> None:
    place.lock()
    found = listed("plain", project=place.project, store=place.store).deps
    told = [(d.name, d.used, d.folder, d.files, d.size) for d in found]
    assert told == [
        ("gadget", "engine: cmake/external_projects/gadget.cmake:8", "gadget/python/g", 1, 7),
        ("widget", "engine: cmake/external_projects/widget.cmake:8", "widget", 3, 115),
    ]


def test_the_build_is_told_where_they_lie(place: Place) -> None:
    lock = place.lock()
    files = deps_env.files(lock.deps)
    text = files["deps/deps.env"].decode()
    assert f'export GADGET_SRC_DIR="$DEPS_DIR/gadget/python/g"  # gadget {place.c_gadget[:12]}' in (
        text.splitlines()
    )
    assert "FETCHCONTENT" not in files["deps/deps.cmake"].decode()
    place.engine.commit(
        {
            **place.sources,
            "cmake/external_projects/gadget.cmake": "FetchContent_Declare(gadget GIT_REPOSITORY "
            f"file://{place.root}/repos/gadget.git GIT_TAG v1.0)",
        }
    )
    files = deps_env.files(place.lock("plain", "engine").deps)
    assert 'set(FETCHCONTENT_SOURCE_DIR_GADGET "${deps_dir}/gadget"' in (
        files["deps/deps.cmake"].decode()
    )


def test_an_identical_set_is_the_same_tarball(place: Place) -> None:
    place.deps("", "other")
    first, second = place.lock(), place.lock("other")
    assert first.deps_archive == second.deps_archive
    lane = read_lane("plain", project=place.project).lane
    archives = assemble.archives(lane, first, {}, store=place.store, files=place.files)
    data = archives["deps/deps-src.tar.gz"].path.read_bytes()
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(data))) as tar:
        names = [m.name for m in tar if m.isfile()]
    assert names == [
        "gadget/python/g/__init__.py", "widget/.gitmodules", "widget/lib/fmt/fmt.h", "widget/w.h",
    ]  # fmt: skip


# --- what is caught, and where


def test_a_dep_that_is_not_in_the_lock_is_named_before_a_build(place: Place) -> None:
    place.lock()
    path = place.root / "locks/plain.lock"
    text = path.read_text()
    start = text.index("[deps.widget]")
    end = text.index("[deps-archive]", start)
    path.write_text(text[:start] + text[end:])
    (found,) = said(place, "prove")
    assert found.startswith(
        "deps-drift: engine: cmake/external_projects/widget.cmake:8 fetches widget "
    )
    assert found.endswith("which is not in the lock")


def test_without_the_table_what_would_be_fetched_is_named(place: Place) -> None:
    place.lock()
    for suffix in ("toml", "lock"):
        path = place.root / f"locks/plain.{suffix}"
        text = path.read_text()
        behind = text[text.index("[image]") :] if suffix == "lock" else ""
        path.write_text(text[: text.index("[deps")] + behind)
    found = said(place, "prove")
    assert [f.partition(" (")[0] for f in found] == [
        "deps-drift: engine: cmake/external_projects/gadget.cmake:8 fetches gadget",
        "deps-drift: engine: cmake/external_projects/widget.cmake:8 fetches widget",
    ]


def test_a_submodule_that_nobody_fills_is_named(place: Place) -> None:
    place.engine.commit(
        {
            **place.sources,
            "cmake/external_projects/widget.cmake": place.declared("widget", place.c_widget),
        }
    )
    place.big.path.rename(place.big.path.with_name("gone.git"))
    found = said(place)
    assert "widget/lib/big: commit" in found[0]
    place.deps('unfilled = { "widget/lib/big" = "the CPU build alone reads it" }')
    assert place.lock().deps["widget"].unfilled == {"lib/big": "the CPU build alone reads it"}


def test_what_cannot_be_classified_is_an_error_with_file_and_line(place: Place) -> None:
    place.engine.commit(
        {
            **place.sources,
            "cmake/external_projects/new.cmake": "\nFetchContent_Declare(new URL https://h/x.tgz)\n",
            "cmake/external_projects/odd.cmake": "execute_process(COMMAND git clone x)\n",
        }
    )
    assert said(place) == [
        "deps-unclassified: engine: cmake/external_projects/new.cmake:2 new is fetched by URL",
        "deps-unclassified: engine: cmake/external_projects/odd.cmake:1 execute_process runs "
        "git clone",
    ]
    place.deps(
        'leave-out = { "cmake/external_projects/odd.cmake" = "never reached on CUDA" }\n'
        '[deps.new]\nurl = "./repos/fmt.git"\ntrack = { branch = "main" }\ninto = "new"'
    )
    found = place.lock().deps
    assert sorted(found) == ["gadget", "new", "widget"]
    place.prove()


def test_hints_of_fetches_that_cannot_be_locked(place: Place) -> None:
    """A tag that is gone stands in the source's file; one by URL may be left out or turned off."""
    place.gadget.git("tag", "-d", "v1.0")
    place.engine.commit(
        {
            **place.sources,
            "cmake/external_projects/gadget.cmake": "\nFetchContent_Declare(gadget GIT_REPOSITORY "
            f"file://{place.root}/repos/gadget.git GIT_TAG v1.0)",
        }
    )
    with pytest.raises(ImgbuildError) as caught:
        place.lock()
    (gone,) = caught.value.findings
    assert gone.code == "source-unavailable"
    assert "(cmake/external_projects/gadget.cmake:2)" in gone.what
    assert gone.place
    assert (str(gone.place.file), gone.place.line) == (
        "engine/cmake/external_projects/gadget.cmake", 2,
    )  # fmt: skip
    assert "define = { … }" in gone.hint
    assert "[deps.gadget] with url, commit and into" in gone.hint
    assert "in the lane" not in gone.hint
    place.deps(f'[deps.gadget]\nurl = "./repos/gadget.git"\ncommit = "{place.c_gadget}"\n'
               'into = "gadget"\n')  # fmt: skip
    place.lock()  # the hint's way
    text = "FetchContent_Declare(new URL https://h/x.tgz)\n"
    place.engine.commit({**place.sources, "cmake/external_projects/new.cmake": text})
    with pytest.raises(ImgbuildError) as caught:
        place.lock("plain", "engine")
    (by_url,) = caught.value.findings
    for way in ("[deps.new] with url", 'leave-out = { new = "why" }', "define = { … }"):
        assert way in by_url.hint


def test_a_declared_dep_stands_in_for_a_fetch(place: Place) -> None:
    moved = place.gadget.commit({"python/g/__init__.py": "ours\n"})
    place.deps(f'[deps.gadget]\nurl = "./repos/gadget.git"\ncommit = "{moved}"\ninto = "g"\n')
    found = place.lock().deps["gadget"]
    assert (found.commit, found.from_) == (moved, None)
    assert (found.variable, deps_env.folder_of(found)) == ("GADGET_SRC_DIR", "g/python/g")
    place.prove()


def test_a_set_that_changed_after_it_was_locked(place: Place) -> None:
    place.lock()
    place.deps('define = { GPU = "CUDA" }')
    assert said(place, "prove") == ["lock-outdated: engine-cmake was changed after it was locked"]


@pytest.mark.parametrize(
    ("deps", "says"),
    [
        (
            'leave-out = { gone = "x" }',
            "deps-unclassified: deps.engine-cmake: nothing fetches gone",
        ),
        ('form = "engine"', "lane-invalid: deps.engine-cmake.form: unknown key"),
    ],
)
def test_tables_that_are_wrong(place: Place, deps: str, says: str) -> None:
    place.deps(deps)
    assert says in said(place)
