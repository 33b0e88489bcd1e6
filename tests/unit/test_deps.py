"""What a source's CMake files may not bring into a lock."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.model.lane import Build, DepSet, Lane, Source
from builder.model.values import TreeEntry
from builder.steps.deps import DepsUnclassified, derive


class OneFile:
    """A store whose trees hold a CMakeLists.txt."""

    def __init__(self, text: str) -> None:
        self.text = text

    def entries(self, tree: str) -> tuple[TreeEntry, ...]:
        return (TreeEntry("100644", "0" * 40, "CMakeLists.txt", 1),)

    def blob(self, tree: str, path: str) -> bytes:
        return self.text.encode()


@pytest.mark.parametrize(
    ("url", "tag", "says"),
    [
        ("file:///etc/x", "v1", "a path on this machine, given by a repository that is not on it"),
        ("/srv/x.git", "v1", "a path on this machine"),
        ("ext::sh -c x", "v1", "is neither https, ssh nor a path"),
        ("https://user:word@h.invalid/x", "v1", "is neither https, ssh nor a path"),
        ("https://h.invalid/x?token=word", "v1", "is neither https, ssh nor a path"),
        ("http://h.invalid/x", "v1", "is neither https, ssh nor a path"),
        ("https://h.invalid/x", "0123abc", "is an abbreviated commit"),
    ],
)
def test_places_that_a_repository_may_not_name(url: str, tag: str, says: str) -> None:
    lane = Lane(
        1, "x", "x", ("linux/arm64",), Build("12.1a"),
        {"engine": Source("https://h.invalid/engine.git")}, {},
        deps={"cmake": DepSet("engine")}, path=Path("locks/x.toml"),
    )  # fmt: skip
    text = f'\nFetchContent_Declare(x GIT_REPOSITORY "{url}" GIT_TAG {tag})\n'
    with pytest.raises(DepsUnclassified) as caught:
        derive(lane, "cmake", "0" * 40, store=OneFile(text))  # type: ignore[arg-type]
    (found,) = caught.value.findings
    assert (says in found.what, "word" in found.what) == (True, False)
    assert found.place is not None
    assert (str(found.place.file), found.place.line) == ("engine/CMakeLists.txt", 2)
