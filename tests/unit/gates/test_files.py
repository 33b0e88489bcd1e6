"""What is read of an image, and how often."""

from __future__ import annotations

from typing import Any

import pytest

from builder.steps.gates.files import read_files
from builder.steps.gates.gate import CouldNotLook, Search, Seen
from builder.steps.gates.glob import Glob
from builder.steps.gates.reading import Texts, Whole
from tests.unit.gates.fake_image import FakeImage, Same, To

USR_MERGE = {
    "lib": To("usr/lib"),
    "opt": None,
    "opt/demo": None,
    "opt/demo/k.so": b"kernel",
    "usr": None,
    "usr/lib": None,
    "usr/lib/libz.so": To("libz.so.1"),
    "usr/lib/libz.so.1": b"zz",
    "usr/lib/x.so": b"x",
}


def read(image: FakeImage, *patterns: str) -> list[dict[str, Any]]:
    searches = [Search(Glob(text), Whole(100)) for text in patterns]
    found = read_files(searches, "image", engine=image)  # type: ignore[arg-type]
    return [{seen.file.path: seen.value for seen in some} for some in found]


def test_only_what_the_patterns_begin_with_is_read() -> None:
    image = FakeImage(USR_MERGE)
    assert read(image, "opt/demo/*.so", "opt/demo/k.so", "usr/lib/x.so") == [
        {"opt/demo/k.so": b"kernel"},
        {"opt/demo/k.so": b"kernel"},
        {"usr/lib/x.so": b"x"},
    ]
    assert image.reads == [("opt/demo", "usr/lib/x.so")]


def test_no_patterns_read_nothing() -> None:
    image = FakeImage(USR_MERGE)
    assert read(image) == []
    assert image.reads == []


def test_lib_may_be_a_link() -> None:
    image = FakeImage(USR_MERGE)
    assert read(image, "lib/**/*.so") == [{"lib/x.so": b"x"}]
    assert image.reads == [("lib",)]


def test_lib_may_be_a_link_in_a_wider_read() -> None:
    image = FakeImage(USR_MERGE)
    every, lib = read(image, "**/*.so", "lib/**/*.so")
    assert every == {"opt/demo/k.so": b"kernel", "usr/lib/x.so": b"x"}
    assert lib == {"lib/x.so": b"x"}
    assert image.reads == [("",), ("lib",)]


def test_a_link_to_a_file_is_followed_when_it_is_named() -> None:
    image = FakeImage(USR_MERGE)
    assert read(image, "usr/lib/libz.so", "usr/lib/*") == [
        {"usr/lib/libz.so": b"zz"},
        {"usr/lib/libz.so.1": b"zz", "usr/lib/x.so": b"x"},
    ]


def test_a_link_to_nowhere_is_nothing() -> None:
    assert read(FakeImage({"a": To("b")}), "a", "*") == [{}, {}]
    image = FakeImage({"a": To("b"), "b": To("a"), "c": b"1"})
    assert read(image, "a", "b/x/*", "c") == [{}, {}, {"c": b"1"}]


def test_links_behind_links() -> None:
    image = FakeImage({
        "a": To("b"), "b": None, "b/c": To("../d"), "d": None, "d/x": b"1", "d/e": To("x"),
    })  # fmt: skip
    assert read(image, "**", "a/c/*", "a/c/e") == [{"b": None, "d": None, "d/x": b"1"},
                                                   {"a/c/x": b"1"}, {"a/c/e": b"1"}]  # fmt: skip


def test_hardlinks() -> None:
    image = FakeImage({
        "cache": None, "cache/x.so": b"x", "site": None, "site/x.so": Same("cache/x.so"),
    })  # fmt: skip
    assert read(image, "**/*.so") == [{"cache/x.so": b"x", "site/x.so": b"x"}]
    assert image.reads == [("",)]
    assert read(image, "site/*.so", "**/cache/y") == [{"site/x.so": b"x"}, {}]
    assert image.reads[1:] == [("",), ("site/x.so",)]


def test_what_cannot_be_settled_is_said() -> None:
    """No engine gives this: a hardlink whose content never comes."""

    class Odd(FakeImage):
        def _entry(self, path: str, content: Any, *, alone: bool) -> Any:
            return super()._entry(path, content, alone=False)

    with pytest.raises(CouldNotLook, match="round in circles"):
        read(Odd({"x": Same("nowhere")}), "x")


def texts(data: bytes, *wanted: str, chunk: int) -> Seen:
    reading = Texts(wanted)(None)  # type: ignore[arg-type]
    for at in range(0, len(data), chunk):
        reading.feed(data[at : at + chunk])
    return reading.result()  # type: ignore[return-value]


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 100])
def test_texts_are_found_across_chunks(chunk: int) -> None:
    seen: Any = texts(b"one two three", "two", "three", "one t", "four", chunk=chunk)
    assert seen.found == {"two", "three", "one t"}
    assert seen.sha256 == "6899ee404683a14e8c2a03149860df25d67d34d9cd4dae7350cbe91e4b3976be"


def test_a_file_that_is_too_large() -> None:
    assert read(FakeImage({"x": b"1" * 101, "y": b"1" * 100}), "*") == [
        {"x": None, "y": b"1" * 100}
    ]
