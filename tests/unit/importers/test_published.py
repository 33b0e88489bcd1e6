"""Every published file imports, and comes back as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder.importers.source_lock import SourceLock
from tests.unit.importers.files import FILES, INPUTS, PINS, R31, R35, read


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_import_and_export(path: Path) -> None:
    data = path.read_bytes()
    done = read(data, path.name)
    assert done.document.render().encode() == data
    assert done.warnings == ()
    tables = {claim.name: claim.table for claim in done.document.claims().sources}
    assert done.document.moved(tables) == (done.document, ())


def test_there_are_23() -> None:
    assert len(FILES) == 23


@pytest.mark.parametrize(("text", "kind"), [(PINS, "sparkring-pins"), (INPUTS, "sparkring-inputs")])
def test_samples_of_sparkring(text: str, kind: str) -> None:
    done = read(text)
    assert done.format == kind
    assert json.loads(done.document.render()) == json.loads(text)
    assert list(json.loads(done.document.render())) == list(json.loads(text))
    assert [w.level for w in done.warnings] == ["warning"]  # the key that is not theirs


def test_what_a_source_lock_says() -> None:
    claims = {c.name: c for c in read(R35.read_bytes()).document.claims().sources}
    assert sorted(claims) == ["b12x", "flashinfer", "flashkda", "lmcache", "vllm"]
    vllm = claims["vllm"].table
    assert vllm.url == "https://github.com/voipmonitor/vllm.git"
    assert vllm.commit == "de982a50c6a3e4718e5cf9f00423a92192718da1"
    assert vllm.tree == "6d5cc3490735a53e849a4f0909183cb5e3a22e8b"
    assert vllm.native == ("CMakeLists.txt", "cmake", "csrc")
    assert vllm.parts["csrc"] == "b0ef9c9361a4b22d6f90840192210a9d0c1e5049"
    assert vllm.parts["vllm"] == "92f94391ade24a31903e3c4911e1a9ef23a7d3ad"
    assert claims["flashkda"].table.url == "https://github.com/MoonshotAI/FlashKDA.git"
    assert claims["flashkda"].patches[0].sha256.startswith("sha256:a9537532")


def test_nothing_is_dropped() -> None:
    """Each key is in a table of the lane or among the information."""
    for path in (R31, R35):
        document = read(path.read_bytes()).document
        assert isinstance(document, SourceLock)
        claims = document.claims()
        said = {key for claim in claims.sources for key in claim.said.values()}
        said |= {key for _, key in claims.bases.values()} | {"format"}
        assert said | set(claims.information) == set(document.values)


def test_the_older_variant() -> None:
    text = (
        "format=local-inference-source-lock/v1\n# r21\n\nstatus=research-only\n"
        f"release.parent.digest=sha256:{'f' * 64}\nvllm.ref=refs/pull/547/head\n"
        "vllm.integration.commit=e96b18dbb8c19230591e79e0ed056b12947b2ea1\n"
        "vllm.integration.tree=31e73a43eb8a03e932f03c51341df2c73c60f3d4\n"
        "cache.generic.fingerprint=cu133-torch213-glm53-r21-vllme96b18db\n"
        "launcher.generic.path=/opt/serve.sh\n"
        f"launcher.generic.sha256={'e' * 64}\nsurprise=kept"
    )
    done = read(text)
    assert done.document.render() == text
    [claim] = (
        read(text.replace("vllm.ref", "vllm.repository=https://example.org/vllm.git\nvllm.ref"))
        .document.claims()
        .sources
    )
    assert claim.table.commit == "e96b18dbb8c19230591e79e0ed056b12947b2ea1"
    assert claim.table.tree == "31e73a43eb8a03e932f03c51341df2c73c60f3d4"
    assert [w.what.partition(":")[0] for w in done.warnings] == ["surprise"]
