"""nodes.toml: strict, groups in groups, names that are not known."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from builder.cli import nodes_wiring
from builder.cli.findings import where
from builder.errors import UsageError
from builder.model.nodes import is_destination, rate
from builder.steps import nodes

ROOT = Path(__file__).parents[2]
TEXT = b"""
schema = 1
[nodes.dgx1]
ssh = "ops@10.0.0.1"
arch = "arm64"
peer = "ops@10.1.0.1"
[nodes.dgx2]
[nodes.dgx3]
[groups]
two = ["dgx1", "dgx2"]
all = ["two", "dgx3", "dgx1"]
[defaults]
nodes = "two"
"""


def read(*texts: bytes) -> nodes.Known:
    return nodes.read([(Path(f"{i}/nodes.toml"), text) for i, text in enumerate(texts)])


def findings(text: bytes) -> list[str]:
    with pytest.raises(nodes.NodesError) as caught:
        read(text)
    return [f"{f.what} / {f.hint}" for f in caught.value.findings]


def test_groups_hold_groups_and_each_node_comes_once() -> None:
    found = nodes.choose(read(TEXT), "all,dgx2,me@other")
    assert [(n.name, n.destination) for n in found] == [
        ("dgx1", "ops@10.0.0.1"), ("dgx2", "dgx2"), ("dgx3", "dgx3"), ("other", "me@other"),
    ]  # fmt: skip
    assert [n.peer for n in found] == ["ops@10.1.0.1", None, None, None]
    assert "peer" in findings(TEXT.replace(b"ops@10.1.0.1", b"-oProxyCommand=x"))[0]


def test_the_default_group() -> None:
    assert [n.name for n in nodes.choose(read(TEXT), None)] == ["dgx1", "dgx2"]
    with pytest.raises(UsageError, match="no nodes are named"):
        nodes.choose(read(), None)


def test_the_projects_file_replaces_the_users() -> None:
    known = read(TEXT, b'schema = 1\n[nodes.dgx2]\nssh = "new"\n[groups]\ntwo = ["dgx2"]\n')
    assert [n.destination for n in nodes.choose(known, "two,dgx1")] == ["new", "ops@10.0.0.1"]


def test_unknown_names_get_a_near_one() -> None:
    with pytest.raises(nodes.NodeUnknown) as caught:
        nodes.choose(read(TEXT), "dgx4,al,zzz")
    assert [f.hint.split()[0] for f in caught.value.findings] == ["did", "did", "known:"]


def test_all_findings_at_once() -> None:
    option = b'schema = 1\n[nodes.a]\nsh = "x"\n[nodes.b]\nssh = "-oProxyCommand=x"'
    assert len(findings(option)) == 2
    assert "did you mean 'ssh'" in findings(b'schema = 1\n[nodes.a]\nsh = "x"')[0]
    assert "holds itself: a > b > a" in findings(b'schema = 1\n[groups]\na = ["b"]\nb = ["a"]')[0]
    near = findings(b'schema = 1\n[nodes.node1]\n[groups]\na = ["node2"]')[0]
    assert "did you mean node1?" in near
    assert "a node and a group" in findings(b'schema = 1\n[nodes.a]\n[groups]\na = ["a"]')[0]


@pytest.mark.parametrize("text", ["-oProxyCommand=x", "a b", "a;b", "ssh://", "u@-x", "", "a\nb"])
def test_no_destination(text: str) -> None:
    assert not is_destination(text)


@pytest.mark.parametrize("text", ["dgx1", "ops@10.0.0.1", "ssh://ops@h:2222", "u@[fe80::1]"])
def test_destinations(text: str) -> None:
    assert is_destination(text)


def test_rates() -> None:
    assert [rate(t) for t in ("50 MB", "400 Mbit/s", "1.5GB")] == [50e6, 50e6, 1.5e9]
    assert [rate(t) for t in ("1 kB", "8 kbit", "1000 GB")] == [1e3, 1e3, 1e12]


NO_RATES = ("", "fast", "0 MB", "0.0 MB", "-5 MB", "50", "50 mb", "1e9 MB", "inf MB", "nan MB",
            "0.0000001 kB", "0.5 kB", "1001 GB", f"{'9' * 400} GB")  # fmt: skip


@pytest.mark.parametrize("text", NO_RATES)
def test_what_cannot_be_kept_as_a_limit(text: str) -> None:
    with pytest.raises(UsageError, match="cannot be kept as a limit") as refused:
        nodes_wiring.limit(read(TEXT), text)
    assert "400 Mbit" in refused.value.findings[0].hint
    said = findings(TEXT + f'limit-rate = "{text}"\n'.encode())
    assert "defaults.limit-rate: must be a rate such as" in said[0]


@pytest.mark.parametrize(
    "words", ['[[""]]', "[[]]", '[["true"], [" ", "x"]]', r'[["a", "\u0000"]]']
)
def test_a_hook_that_cannot_be_started_is_no_hook(tmp_path: Path, words: str) -> None:
    for when in ("before-build", "after-build", "before-push", "after-push", "before-node",
                 "after-node"):  # fmt: skip
        path = tmp_path / "nodes.toml"
        path.write_text(f"schema = 1\n\n[hooks]\n{when} = {words}\n")
        with pytest.raises(nodes.NodesError, match=f"hooks.{when}.*a program") as refused:
            nodes.read([(path, path.read_bytes())])
        (place,) = [f.place for f in refused.value.findings]
        assert place is not None
        assert where(place).endswith("nodes.toml:4")


def test_hooks_with_empty_words_behind_the_program() -> None:
    known = read(b'schema = 1\n[hooks]\nbefore-push = [["notify-send", ""]]\nafter-push = []\n')
    assert (known.hooks.before_push, known.hooks.after_push) == ((("notify-send", ""),), ())


@pytest.mark.parametrize("word", ["me:s3cret@host", "ssh://me:s3cret@host:22", "me:s3,cret@host"])
def test_a_password_is_never_repeated(word: str) -> None:
    with pytest.raises(UsageError) as refused:
        nodes.choose(read(TEXT), word)
    said = str(refused.value.findings)
    assert not re.search("s3|cret(?!@host)", said.replace("cret@host", ""))
    if "," not in word:
        assert "ssh-copy-id me@host" in said
    for key in ("ssh", "peer"):
        text = f'schema = 1\n[nodes.a]\n{key} = "{word}"\n[groups]\ng = ["{word}"]\n'
        assert "s3" not in findings(text.encode())[0]
    group = findings(f'schema = 1\n[nodes.a]\n[groups]\ng = ["{word}"]\n'.encode())
    assert "s3" not in group[0]


def test_the_example_of_the_project() -> None:
    known = nodes.read([(ROOT / "nodes.toml", (ROOT / "nodes.toml").read_bytes())])
    every = ["dgx1", "dgx2", "dgx3", "dgx4"]
    assert [n.name for n in nodes.choose(known, "4nodes-switch")] == every
    assert [n.name for n in nodes.choose(known, "ds4")] == every
    assert [n.name for n in nodes.choose(known, "2nodes-dac")] == every[:2]


def test_a_group_without_nodes() -> None:
    known = read(b"schema = 1\n[nodes.a]\n[groups]\nnone = []\n")
    with pytest.raises(UsageError, match="none holds no node"):
        nodes.choose(known, "none")


def test_a_file_that_the_environment_names_and_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IMGBUILD_NODES", str(tmp_path / "gone.toml"))
    with pytest.raises(UsageError, match="which is not there"):
        nodes_wiring.known(tmp_path)
