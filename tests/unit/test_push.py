"""A push as a whole, with nodes that answer from this machine: hooks, receipts, names, plans."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from builder.cli import pushes
from builder.errors import ImgbuildError, UsageError
from builder.model.distribution import Blob, Receipt, SourceImage
from builder.model.nodes import Hooks, Node
from builder.pipeline.push import push
from builder.pipeline.push_bring import Options
from builder.steps.distribution import archives, arrive, chain, probe
from builder.tools.here import Here
from tests.unit.test_distribution import CREATED, IDS, LABELS

CONFIG = json.dumps({"rootfs": {"diff_ids": IDS[:2]}, "architecture": "arm64"}).encode()
ID = archives.digest(CONFIG)
IMAGE = SourceImage(ID, IDS[:2], ("demo:local",), LABELS, "arm64", CREATED, 2000)
ABOUT = {"Id": ID, "RootFS": {"Layers": IDS[:2]}, "RepoTags": ["demo:local"],
         "Config": {"Labels": LABELS}, "Architecture": "arm64", "Created": CREATED}  # fmt: skip


def answer(**parts: str) -> str:
    return "".join(f"\n-- {name}\n{text}\n" for name, text in parts.items()) + "\n-- end\n"


PROBED = answer(docker="docker", tools="zstd", info="/d\n" + json.dumps(
    {"ServerVersion": "26", "Architecture": "aarch64"}), space="", images="")  # fmt: skip
ARRIVED = answer(listed=f"{ID} demo:local", create="created", inspect=json.dumps(ABOUT),
                 tags="demo:local ")  # fmt: skip


class Link:
    """A node whose docker loads with `load`; what is no question to docker is run here."""

    address = ""

    def __init__(self, node: Node, load: str) -> None:
        self.node, self._load, self._here = node, load, Here()

    def script(self, text: str, *words: str, timeout_s: float, **_: Any) -> str:
        answers = {probe.SCRIPT: PROBED, arrive.SCRIPT: ARRIVED, chain.WHO: "x",
                   chain.REACH: words[-1] if words else ""}  # fmt: skip
        if text in answers:
            return answers[text]
        return self._here.script(text, *words, timeout_s=timeout_s)

    @contextlib.contextmanager
    def stream(self, command: str, **_: Any) -> Iterator[Popen[bytes]]:
        with self._here.stream(self._load if "docker load" in command else command) as running:
            yield running

    def closed(self) -> bool:
        return False


class Layers:
    is_random = False

    def config(self) -> bytes:
        return CONFIG

    def config_digest(self) -> str:
        return ID

    def digests(self) -> tuple[str, ...]:
        return IDS[:2]

    def manifest(self) -> None:
        return None

    def sizes(self) -> tuple[int, ...]:
        return (100, 100)

    def stream(self, layers: Sequence[int]) -> Iterator[tuple[Blob, Iterator[bytes]]]:
        for i in layers:
            yield Blob(IDS[i], 100), iter([bytes(100)])


class World:
    """This host and its nodes: connections, source, receipts, progress and board at once."""

    def __init__(self, folder: Path, load: str) -> None:
        self.folder, self._load, self.kept = folder, load, list[Receipt]()
        self.asked = list[str]()

    @contextlib.contextmanager
    def open(self, nodes: Sequence[Node]) -> Iterator[World]:
        yield self

    def connect(self, node: Node) -> Link:
        return Link(node, self._load)

    def newest(self, label: str, value: str | None = None) -> SourceImage | None:
        return IMAGE if value in (None, "demo") else None

    def find(self, reference: str) -> SourceImage | None:
        self.asked.append(reference)
        return None

    def layers(self, image: SourceImage) -> Layers:
        return Layers()

    def write(self, receipt: Receipt) -> Path:
        self.kept.append(receipt)
        return self.folder

    def title(self, text: str) -> None: ...

    @contextlib.contextmanager
    def lines(self, names: Sequence[str]) -> Iterator[Any]:
        yield lambda _: self

    def say(self, text: str) -> None: ...
    def expect(self, total: int) -> None: ...
    def moved(self, count: int) -> None: ...
    def done(self, text: str, *, is_good: bool) -> None: ...

    def push(self, options: Options, name: str | None = None, *nodes: str) -> Receipt:
        world: Any = self
        chosen = [Node(n, n) for n in nodes or ("n1",)]
        return push(name, chosen, options, source=world, connections=world, receipts=world,
                    progress=world, board=world)  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of this host and of its nodes."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def shell(text: str) -> tuple[str, ...]:
    return ("sh", "-c", text)


TAKES, REFUSES = "cat >/dev/null", "cat >/dev/null; echo no such thing >&2; exit 1"


def hooks(said: Path, **also: str) -> Hooks:
    """Each writes its name and the result that it is told; `also` is what it does then."""
    told = {
        name: (shell(f'echo "{name} ${{IMGBUILD_RESULT-}}" >>{said}; {also.get(name, "")}'),)
        for name in ("before_push", "before_node", "after_node", "after_push")
    }
    return Hooks(**told)


def test_what_is_on_its_way_is_held(tmp_path: Path) -> None:
    """By a file that is locked as long as it moves."""
    look = f"ls -A {tmp_path} >{tmp_path}/seen; flock -n {tmp_path}/.imgbuild-t* true; echo $?"
    (node,) = World(tmp_path, f"cat >/dev/null; {look} >{tmp_path}/free").push(Options()).nodes
    assert node.state == "pushed"
    assert ".imgbuild-transfer:" in (tmp_path / "seen").read_text()
    assert (tmp_path / "free").read_text() == "1\n"
    assert not list(tmp_path.glob(".imgbuild-transfer:*"))


@pytest.mark.parametrize(
    ("load", "also", "after", "code"),
    [
        (TAKES, {}, ["after_node ok", "after_push ok"], None),
        (REFUSES, {}, ["after_node failed", "after_push failed"], "node-failed"),
        (TAKES, {"before_node": "exit 1"}, ["after_node failed", "after_push failed"],
         "hook-failed"),
        (TAKES, {"after_node": "exit 1"}, ["after_node ok", "after_push failed"], "hook-failed"),
    ],
)  # fmt: skip
def test_what_was_begun_is_put_right(
    tmp_path: Path, load: str, also: dict[str, str], after: list[str], code: str | None
) -> None:
    said = tmp_path / "said"
    receipt = World(tmp_path, load).push(Options(hooks=hooks(said, **also)))
    assert said.read_text().splitlines() == ["before_push ", "before_node ", *after]
    (node,) = receipt.nodes
    assert (node.finding.code if node.finding else None) == code


def test_a_failure_stays_and_what_was_not_put_right_is_noted(tmp_path: Path) -> None:
    options = Options(hooks=hooks(tmp_path / "said", after_node="echo stuck; exit 1"))
    (node,) = World(tmp_path, REFUSES).push(options).nodes
    assert node.finding is not None
    assert node.finding.code == "node-failed"
    assert node.note == "after-node did not end well there: n1: after-node: sh failed"


def test_before_push_fails(tmp_path: Path) -> None:
    said = tmp_path / "said"
    world = World(tmp_path, TAKES)
    with pytest.raises(ImgbuildError, match="before-push: sh ended with code 3") as failed:
        world.push(Options(hooks=hooks(said, before_push="exit 3", after_push="exit 4")))
    assert said.read_text().splitlines() == ["before_push ", "after_push failed"]
    assert [f.what.partition(":")[0] for f in failed.value.findings] == [
        "before-push", "after-push"]  # fmt: skip
    assert not world.kept


def test_an_interrupted_push_is_put_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("builder.pipeline.push_bring.transfer", interrupted)
    said = tmp_path / "said"
    with pytest.raises(KeyboardInterrupt):
        World(tmp_path, TAKES).push(Options(hooks=hooks(said)))
    assert said.read_text().splitlines()[2:] == ["after_node failed", "after_push failed"]


def test_a_failing_hook_hides_no_receipt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(tmp_path, TAKES)
    receipt = world.push(Options(hooks=hooks(tmp_path / "said", after_push="echo out; exit 3")))
    assert (receipt.nodes[0].state, pushes.code(receipt)) == ("pushed", 8)
    assert [len(kept.findings) for kept in world.kept] == [0, 1]
    report = pushes.report(receipt)
    assert (report["ok"], report["nodes"][0]["state"]) == (False, "pushed")
    assert (report["findings"][0]["code"], report["findings"][0]["detail"]) == (
        "hook-failed", "out")  # fmt: skip
    pushes.show(receipt)
    out, err = capsys.readouterr()
    assert "n1    pushed" in out
    assert err.startswith("error[hook-failed]: after-push: sh ended with code 3\n  | out\n")


def test_a_dry_run_says_who_sends_to_whom_and_runs_no_hook(tmp_path: Path) -> None:
    said = tmp_path / "said"
    options = Options(hooks=hooks(said), dry_run=True, fanout="chain")
    receipt = World(tmp_path, "exit 1").push(options, None, "n1", "n2", "n3")
    assert [(one.transport, one.via, one.proof.rpartition(", ")[2]) for one in receipt.nodes] == [
        ("load", "", "by loads"), ("chain", "n1", "from n1"), ("chain", "n2", "from n2"),
    ]  # fmt: skip
    assert not said.exists()
    star = World(tmp_path, "exit 1").push(replace(options, fanout="star"), None, "n1", "n2")
    assert [one.via for one in star.nodes] == ["", ""]


ODD = ["../x", "", "-", " ", "a b", "UPPER", "demo:", ":x", "/demo", "demo@sha256:short", "a\nb",
       "https://user:secret@host/x", "user:secret@host"]  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_what_is_no_name(tmp_path: Path, name: str) -> None:
    world = World(tmp_path, TAKES)
    with pytest.raises(UsageError, match="neither of a lane nor of an image") as refused:
        world.push(Options(), name)
    assert "secret" not in str(refused.value)
    assert not world.asked


@pytest.mark.parametrize("name", ["x", "sha256:short", "a_b:T", "10.0.0.1:5000/a/b-c@" + IDS[0],
                                  "Host/x", "0123abcd", IDS[0]])  # fmt: skip
def test_names_of_images_that_are_not_here(tmp_path: Path, name: str) -> None:
    world = World(tmp_path, TAKES)
    with pytest.raises(UsageError, match="has no image of a lane"):
        world.push(Options(), name)
    assert world.asked == [name]


def test_a_login_in_the_registrys_url_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    said = tmp_path / "said"
    options = Options(hooks=hooks(said), registry="https://user:secret@h:5000/t")
    with pytest.raises(UsageError, match="has a login in it") as refused:
        World(tmp_path, TAKES).push(options)
    assert "docker login h:5000" in refused.value.findings[0].hint
    assert "secret" not in str(refused.value.findings)
    assert not said.exists()
