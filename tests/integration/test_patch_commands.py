"""`imgbuild patch check`, `refresh` and `extract` on real repositories."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from builder.cli import app
from builder.errors import ImgbuildError
from builder.model.values import ImageFile
from builder.pipeline import patch_check, patch_extract, patch_refresh, patch_settle
from tests.integration.projects import PlainProject
from tests.integration.repositories import Content

LINES = "".join(f"line {n}\n" for n in range(1, 41))
LANE = """
[sources.kern]
url = "./repos/kern.git"
track = { branch = "main" }
patches = ["kern/gb10"]
"""
MAIL = "From: A. Author <a@example.invalid>\nSubject: [PATCH] {}\n\nWhy.\n---\n a.cu | 9 +++++-\n\n"


class Place(PlainProject):
    """A locked project with one source and a set of two patches."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.kern = self.repo("kern")
        self.held: dict[str, Content] = {"a.cu": LINES, "b.cu": LINES, "pkg/m.py": "M = 1\n"}
        self.kern.commit(self.held)
        self.lane(LANE)
        five = LINES.replace("line 5\n", "LINE 5\n")
        self.patch("0001-five.patch", {"a.cu": LINES}, {"a.cu": five})
        after = five.replace("line 30\n", "LINE 30\n")
        self.patch("0002-thirty.patch", {"a.cu": five}, {"a.cu": after})
        self.write("patches/kern/gb10/series", "0001-five.patch\n0002-thirty.patch -p1\n")
        self.lock()

    def read(self, name: str) -> str:
        return (self.root / "patches/kern/gb10" / name).read_text()

    def patch(self, name: str, before: dict[str, Content], after: dict[str, Content]) -> None:
        words = ("diff", "--full-index", self.kern.tree(before), self.kern.tree(after))
        self.write(f"patches/kern/gb10/{name}", MAIL.format(name) + self.kern.git(*words) + "\n")

    def upstream(self, **files: str) -> str:
        self.held |= {f"{name}.cu": text for name, text in files.items()}
        return self.kern.commit(self.held)

    def check(self, *, update: bool = True) -> list[tuple[str | None, str | None]]:
        """State and culprit of each patch, at the tip of the branch."""
        found = patch_check.check("plain", None, update=update, **self.tools)
        return [(one.state, one.broken_by and one.broken_by.commit) for one in found]

    def refresh(self) -> list[str]:
        found = patch_refresh.refresh("plain", "kern", update=True, **self.tools)
        return [one.outcome for one in found]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with closing(Place(tmp_path)) as made:
        yield made


def test_check_names_the_commit_that_broke_a_patch(place: Place) -> None:
    assert place.check(update=False) == [("applied", None), ("applied", None)]
    place.upstream(b=LINES + "x\n")
    three = LINES.replace("line 3\n", "line three\n")
    culprit = place.upstream(a=three)
    place.upstream(a=three + "more\n")
    place.upstream(b=LINES)
    assert place.check() == [(None, culprit), (None, None)]
    assert "  FAILED patches    2 patches, 1 failed, 1 not tried" in place.said.getvalue()
    assert place.check(update=False) == [("applied", None), ("applied", None)]


def test_refresh_writes_what_changed_and_nothing_else(place: Place) -> None:
    second = place.read("0002-thirty.patch")
    place.upstream(a="first\n" + LINES.replace("line 3\n", "line three\n"))
    assert place.refresh() == ["rewritten", "applied"]
    text = place.read("0001-five.patch")
    assert text.startswith(MAIL.format("0001-five.patch").partition(" a.cu")[0])
    assert " line three\n line 4\n-line 5\n+LINE 5\n" in text
    assert place.read("0002-thirty.patch") == second  # it applies, some lines further down
    assert place.check() == [("applied", None), ("applied", None)]
    assert place.refresh() == ["applied", "applied"]


def test_a_conflict_is_told_and_nothing_is_lost(place: Place) -> None:
    before = place.read("0001-five.patch"), place.read("0002-thirty.patch")
    place.upstream(
        a=LINES.replace("line 5\n", "line five\n").replace("line 28\n", "line 28b\n")
    )  # fmt: skip
    found = patch_refresh.refresh("plain", "kern", update=True, **place.tools)
    assert [one.outcome for one in found] == ["conflict", "rewritten"]
    finding = found[0].finding
    assert finding is not None
    assert "conflicts with upstream in a.cu" in finding.what
    assert "<<<<<<< upstream now\nline five\n=======\nLINE 5\n" in finding.detail
    assert place.read("0001-five.patch") == before[0]
    assert "+LINE 30" in place.read("0002-thirty.patch") != before[1]
    assert "  FAILED refresh    1 of 2 patches rewritten" in place.said.getvalue()


def test_what_cannot_be_merged_is_not_sent_to_refresh_again(place: Place) -> None:
    """It never applied where it was locked: there is nothing to merge from."""
    place.write("patches/kern/gb10/0001-five.patch",
                place.read("0001-five.patch").replace("-line 5", "-line V"))  # fmt: skip
    place.upstream(a=LINES + "more\n")
    found = patch_refresh.refresh("plain", "kern", update=True, **place.tools)
    assert found[0].outcome == "conflict"
    assert found[0].finding is not None
    assert found[0].finding.hint.startswith(
        "it does not apply where it was locked either: settle it in a folder: "
        "imgbuild patch refresh LANE kern --update --into settle-kern; or in the patch itself, "
        "then: imgbuild patch check LANE kern --update"
    )


def settle(place: Place, folder: Path, *, update: bool = True) -> str:
    """Lay out the first patch that conflicts; the hint of its finding."""
    found = patch_refresh.refresh("plain", "kern", update=update, into=folder, **place.tools)
    (one,) = (one for one in found if "--from" in (one.finding.hint if one.finding else ""))
    assert one.finding
    return one.finding.hint


def take_back(place: Place, folder: Path) -> tuple[str, ...]:
    tools = {name: tool for name, tool in place.tools.items() if name != "files"}
    return patch_settle.take_back(folder, "plain", "kern", **tools)[1]


def test_a_conflict_is_settled_in_a_folder(place: Place, tmp_path: Path) -> None:
    """All of the source is there, and only what was settled becomes the patch."""
    place.upstream(a=LINES.replace("line 5\n", "line five\n"), b=LINES + "more\n")
    folder = tmp_path / "settle"
    hint = settle(place, folder)
    assert hint.endswith(f"imgbuild patch refresh LANE kern --from {folder}")
    held = (folder / "a.cu").read_text()
    assert "line five\n=======\nLINE 5\n" in held
    assert (folder / "b.cu").read_text() == LINES + "more\n"
    with pytest.raises(ImgbuildError, match=r"a\.cu:5 holds a conflict marker"):
        take_back(place, folder)
    (folder / "a.cu").write_text(LINES.replace("line 5\n", "LINE FIVE\n"))
    (folder / "pkg/new.py").write_text("N = 1\n")
    (folder / "pkg/m.py").unlink()
    assert take_back(place, folder) == ("a.cu", "pkg/m.py", "pkg/new.py")
    text = place.read("0001-five.patch")
    assert text.startswith("From: A. Author")
    assert "-line five\n+LINE FIVE\n" in text
    assert "deleted file mode" in text
    assert place.check()[0] == ("applied", None)
    assert place.refresh() == ["applied", "applied"]
    with pytest.raises(ImgbuildError, match="is not as it was when"):
        take_back(place, folder)


def test_a_patch_that_no_merge_carries_is_settled_by_its_hunks(
    place: Place, tmp_path: Path
) -> None:
    """On a lane that was never locked nothing says what a patch was made on."""
    (place.root / "locks/plain.lock").unlink()
    place.upstream(a=LINES.replace("line 30\n", "line thirty\n"))
    folder = tmp_path / "project-inside" / "settle"
    (tmp_path / "project-inside/.git").mkdir(parents=True)  # git must not look above the folder
    found = patch_refresh.refresh("plain", "kern", update=False, **place.tools)
    assert [one.outcome for one in found] == ["applied", "conflict"]
    assert found[1].finding
    assert found[1].finding.hint.startswith("kern was never locked, so what the patch was made on")
    assert "a.cu.rej" in settle(place, folder, update=False)
    assert "LINE 5\n" in (folder / "a.cu").read_text()  # the patch before it
    with pytest.raises(ImgbuildError, match=r"a\.cu\.rej holds what was not applied"):
        take_back(place, folder)
    (folder / "a.cu.rej").unlink()
    with pytest.raises(ImgbuildError, match="is as the source was before the patch"):
        take_back(place, folder)
    text = (folder / "a.cu").read_text()
    (folder / "a.cu").write_text(text.replace("line thirty", "LINE THIRTY"))
    assert take_back(place, folder) == ("a.cu",)
    assert place.check(update=False) == [("applied", None), ("applied", None)]


def test_nothing_to_settle(place: Place, tmp_path: Path) -> None:
    with pytest.raises(ImgbuildError, match="no patch conflicts"):
        settle(place, tmp_path / "settle")
    with pytest.raises(ImgbuildError, match="is there and not empty"):
        settle(place, place.root)
    with pytest.raises(ImgbuildError, match="was not made by imgbuild patch refresh --into"):
        take_back(place, tmp_path)


def test_text_edits_have_a_line_and_a_culprit_too(place: Place) -> None:
    """Of a text that moved away: where it stands in the edits, what is like it, and who did it."""
    place.write("patches/kern/gb10/series", "0001-x.edits\n")
    text = '[[edit]]\nfile = "a.cu"\nfind = "line 17, whole"\nreplace = "x"\n'
    place.write("patches/kern/gb10/0001-x.edits", text)
    for old in place.root.glob("patches/kern/gb10/*.patch"):
        old.unlink()
    place.upstream(b=LINES)
    whole = LINES.replace("line 17\n", "line 17, whole\n")
    place.upstream(a=whole)
    place.lock("plain", "kern")
    place.upstream(b=LINES + "1\n")
    culprit = place.upstream(a=whole.replace("17, whole", "17, whose"))
    place.upstream(a=whole.replace("17, whole", "17, whose") + "more\n")
    (one,) = patch_check.check("plain", "kern", update=True, **place.tools)
    assert one.broken_by
    assert one.broken_by.commit == culprit
    assert one.finding
    assert "does not apply to kern at a.cu:17" in one.finding.what
    assert one.finding.place
    assert one.finding.place.line == 3
    assert "    17  line 17, whose" in one.finding.detail
    assert one.finding.hint.endswith("imgbuild patch check LANE kern --update")


@pytest.mark.parametrize("words", [("check", "plain"), ("refresh", "plain", "kern")])
def test_each_command_of_a_hint_can_be_typed(
    place: Place, words: tuple[str, ...], capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("IMGBUILD_CACHE", str(place.root / "cache"))
    place.upstream(a=LINES.replace("line 5\n", "line five\n"))
    argv = ["-C", str(place.root), "patch", *words, "--update"]
    assert app.cli.main(argv, standalone_mode=False) == 5
    said = capsys.readouterr().err
    typed = re.findall(r"imgbuild (patch [^,;:)]+)", said)
    assert typed
    for command in typed:
        assert " plain kern --update" in command
        into = command.partition(" --into ")[2]
        assert "LANE" not in command
        assert not into or into.startswith("settle-kern")


def test_what_upstream_took(place: Place) -> None:
    taken = LINES.replace("line 5\n", "LINE 5\n")
    place.upstream(a=taken)
    assert place.refresh() == ["already-there", "applied"]
    place.upstream(a=taken.replace("line 7\n", "line seven\n"))
    assert place.refresh() == ["empty", "applied"]


def test_a_patch_of_another_depth_becomes_a_plain_one(place: Place) -> None:
    text = place.read("0001-five.patch").replace(" a/a.cu", " a.cu").replace(" b/a.cu", " a.cu")
    place.write("patches/kern/gb10/0001-five.patch", text)
    place.write("patches/kern/gb10/series", "0001-five.patch -p0 # why\n0002-thirty.patch\n")
    place.upstream(a=LINES.replace("line 3\n", "line three\n"))
    assert place.refresh() == ["rewritten", "applied"]
    assert place.read("series") == "0001-five.patch # why\n0002-thirty.patch\n"
    assert place.check() == [("applied", None), ("applied", None)]


# --- extract


class Image:
    """An engine with one image that holds some files."""

    def __init__(self, **files: bytes) -> None:
        self.held: Mapping[str, bytes] = {
            f"site/{k.replace('__', '/')}": v for k, v in files.items()
        }
        lines = (f"{hashlib.sha256(v).hexdigest()}  /{k}\n" for k, v in self.held.items())
        self.manifest = "".join(lines).encode()
        self.modes: dict[str, int] = {}
        self.links: dict[str, str] = {}

    def image(self, reference: str) -> object:
        return reference

    @contextmanager
    def read_tree(
        self, image: str, roots: Sequence[str], *, deep: bool = True
    ) -> Iterator[Iterator[tuple[ImageFile, IO[bytes] | None]]]:
        held = {**self.held, "opt/manifest": self.manifest}
        yield iter(
            [
                (ImageFile(r, "link", 0o777, 0, self.links[r]), None)
                if r in self.links and not deep
                else (
                    ImageFile(r, "file", self.modes.get(r, 0o644), len(held[r])),
                    io.BytesIO(held[r]),
                )
                for r in roots
                if r in held
            ]
        )


def extract(place: Place, image: Any, name: str = "baked") -> patch_extract.Extracted:
    return patch_extract.extract(
        "x:1", "/opt/manifest", "plain", "kern", name, engine=image, **place.tools
    )


def test_extract(place: Place) -> None:
    image = Image(**{"pkg__m.py": b"M = 2\n", "pkg__new.py": b"N\n", "b.cu": LINES.encode()})
    found = extract(place, image)
    assert found.patches == ("0001-pkg-m.py.patch", "0002-pkg-new.py.patch")
    assert (found.same, found.left, found.listed) == (("b.cu",), (), False)
    place.lane(LANE.replace('"kern/gb10"', '"kern/gb10", "kern/baked"'))
    assert [state for state, _ in place.check(update=False)] == ["applied"] * 4
    again = extract(place, image, "again")
    assert (again.folder, again.patches) == ("", ())
    with pytest.raises(ImgbuildError, match="patches/kern/baked is there"):
        extract(place, image)


def test_extract_says_what_became_executable_or_not(place: Place) -> None:
    place.held |= {"run.sh": ("100755", "x\n"), "stop.sh": ("100755", "y\n")}
    place.upstream()
    place.write("locks/plain.lock", "")
    (place.root / "locks/plain.lock").unlink()
    image = Image(**{"run.sh": b"x\n", "stop.sh": b"Y\n", "pkg__m.py": b"M = 1\n"})
    image.modes = {"site/pkg/m.py": 0o755}
    assert extract(place, image).patches == (
        "0001-pkg-m.py.patch", "0002-run.sh.patch", "0003-stop.sh.patch",
    )  # fmt: skip
    texts = [(place.root / "patches/kern/baked" / name).read_text() for name in (
        "0001-pkg-m.py.patch", "0002-run.sh.patch", "0003-stop.sh.patch")]  # fmt: skip
    assert [text.count("new mode 100755") for text in texts] == [1, 0, 0]
    assert [text.count("new mode 100644") for text in texts] == [0, 1, 1]


def test_a_symlink_is_not_taken_for_its_target(place: Place) -> None:
    image = Image(**{"pkg__m.py": b"M = 2\n"})
    image.links = {"site/pkg/m.py": "/opt/other.py"}
    with pytest.raises(ImgbuildError) as caught:
        extract(place, image)
    assert [f.what for f in caught.value.findings] == [
        "/site/pkg/m.py is a symlink to /opt/other.py, and the manifest lists it as a file"
    ]
    assert not (place.root / "patches/kern/baked").exists()


def test_an_image_that_is_not_what_its_manifest_says(place: Place) -> None:
    image = Image(**{"pkg__m.py": b"M = 2\n"})
    image.held = {"site/pkg/m.py": b"M = 3\n"}
    image.manifest += b"/site/gone.py\n"
    with pytest.raises(ImgbuildError) as caught:
        extract(place, image)
    assert [f.what for f in caught.value.findings] == [
        "the manifest lists /site/gone.py, which is not there",
        "/site/pkg/m.py is not what the manifest says",
    ]
    assert not (place.root / "patches/kern/baked").exists()
