"""Manifests of files that were baked into an image, and where those belong in a source."""

from __future__ import annotations

import pytest

from builder.steps.baked import BakedFile, ManifestUnreadable, place, read_manifest

HEX = "ab" * 32
SITE = "usr/lib/python3.12/dist-packages"


def read(text: str, folder: str = "opt/overlay") -> list[tuple[str, str]]:
    return [(f.path, f.sha256) for f in read_manifest(text.encode(), folder=folder)]


@pytest.mark.parametrize(
    "text",
    [
        f"# made by hand\n{HEX}  /usr/x.py\n{HEX} *./y.py\n",
        f'[{{"path": "/usr/x.py", "sha256": "{HEX}"}},'
        f'{{"file": "y.py", "digest": "sha256:{HEX}"}}]',
        f'{{"/usr/x.py": "{HEX}", "y.py": "sha256:{HEX}"}}',
        f'{{"version": 3, "by": "someone", "files": {{"/usr/x.py": "{HEX}", "y.py": "{HEX}"}}}}',
    ],
)
def test_forms(text: str) -> None:
    assert read(text) == [("opt/overlay/y.py", HEX), ("usr/x.py", HEX)]


def test_paths_alone() -> None:
    assert read("/a/b.py\nc d.py\n") == [("a/b.py", ""), ("opt/overlay/c d.py", "")]
    assert read('["/a", {"files": ["/b"]}]') == [("a", ""), ("b", "")]


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[1]", "{", "../../etc/passwd", "/x/../y", "[" * 300_000, "[" * 900 + "]" * 900],
)
def test_manifests_that_are_refused(text: str) -> None:
    with pytest.raises(ManifestUnreadable):
        read(text)


def test_places() -> None:
    files = [
        BakedFile(path)
        for path in (
            f"{SITE}/vllm/a.py", f"{SITE}/vllm/b/c.py", f"{SITE}/vllm/new.py", "opt/start.sh",
            "usr/local/include/c.py", f"{SITE}/b12x/x.py", f"{SITE}/loose.py",
        )
    ]  # fmt: skip
    found = place(files, ["vllm/a.py", "vllm/b/c.py", "c.py", "a.py"])
    assert found.files == {
        "c.py": "usr/local/include/c.py",
        "vllm/a.py": f"{SITE}/vllm/a.py",
        "vllm/b/c.py": f"{SITE}/vllm/b/c.py",
        "vllm/new.py": f"{SITE}/vllm/new.py",
    }
    assert found.left == ("opt/start.sh", f"{SITE}/b12x/x.py", f"{SITE}/loose.py")
