"""Nodes that lie about their caches: nothing of their choice gets to this host."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.errors import DistributionError
from builder.model.caches import CacheOutcome
from builder.model.lane import Lane
from builder.model.nodes import Node
from builder.model.schema import Reader
from builder.node_ports import Connection, Moved, NodeLine
from builder.pipeline import cache_spots
from builder.pipeline import caches as pipeline
from builder.steps.distribution import cache_answers
from builder.steps.distribution.cache_scripts import KEY_FILE, LIST, LOOK
from builder.steps.distribution.caches import CacheChanging, CacheUnsafe
from builder.steps.distribution.probe import ProbeGarbled
from builder.tools.here import Here
from builder.tools.rsync import Rsync
from tests.unit.locks import lane_table
from tests.unit.test_caches import HERE, Line, tree

NAMES = ("b12x", "triton")
SUM = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"
LOOKED = ("\n-- machine\nx86_64\n\n-- gpu\n12.1\n\n-- tools\nrsync\nflock\nsha256sum\nstat\n"
          "\n-- home\n/home/ops\n\n-- root\n/srv/x\n\n-- keys\n\n-- free\n/dev/x 9 9 99999 1% /\n"
          "\n-- links\n\n-- folders\ntriton\n\n-- end\n")  # fmt: skip
LISTED = ("\n-- odd\n\n-- entries\n41ed 4096 triton\n41ed 4096 triton/b\n81a4 1 triton/a\n"
          "a1ff 1 triton/l\n\n-- links\n<triton/l\n>b\n"
          f"\n-- sums\n{SUM}  triton/a\n\n-- end\n")  # fmt: skip


def entry(line: str, of: str = "", link: str = "", digest: str = SUM) -> str:
    """An honest answer with one more entry, with its sum or its link."""
    said = LISTED.replace(
        "\n-- links\n", f"{line}\n\n-- links\n" + (f"<{of}\n>{link}\n" * bool(link))
    )
    return said.replace("\n-- end", f"{digest}  {of}\n\n-- end" if of and not link else "\n-- end")


def test_honest_answers() -> None:
    facts = cache_answers.facts("dgx1", LOOKED, NAMES)
    assert (facts.architecture, facts.gpu, facts.folders) == ("amd64", "12.1", ("triton",))
    found = cache_answers.manifest("dgx1", LISTED, NAMES)
    assert {path: one.digest for path, one in found.items()} == {
        "triton": "", "triton/a": SUM, "triton/b": "", "triton/l": ">b",
    }  # fmt: skip
    assert len(cache_answers.manifest("dgx1", entry("81a4 1 triton/c", "triton/c"), NAMES)) == 5


@pytest.mark.parametrize(
    "said",
    ["", "Welcome to dgx1!\n", "\n-- end\n", "\n-- machine\n\n-- end\n",
     LOOKED.replace("-- end", ""), LOOKED.replace("-- free", "-- x"),
     LOOKED.replace("99999", "9" * 5000), LOOKED.replace("99999", "²"),
     LOOKED.replace("x86_64", "../../x"), LOOKED.replace("x86_64", "")],
)  # fmt: skip
def test_facts_that_are_none(said: str) -> None:
    with pytest.raises(ProbeGarbled, match="dgx1 gave an answer that cannot be read"):
        cache_answers.facts("dgx1", said, NAMES)


def test_folders_that_are_not_declared_are_not_there() -> None:
    said = LOOKED.replace(
        "\ntriton\n", "\n--rsync-path=x\n..\n/etc\ncuda\ntriton/..\nb12x\ntriton\n"
    )
    assert cache_answers.facts("dgx1", said, NAMES).folders == NAMES


@pytest.mark.parametrize(
    ("gpu", "seen"),
    [("", ""), ("12.0\n12.1", "12.0+12.1"), ("../../etc", ""), ("12.1/../..", ""),
     ("NVIDIA-SMI has failed because it could not communicate with the driver", "")],
)  # fmt: skip
def test_a_gpu_is_a_number(gpu: str, seen: str) -> None:
    assert cache_answers.facts("dgx1", LOOKED.replace("12.1", gpu), NAMES).gpu == seen


@pytest.mark.parametrize(
    ("said", "error", "says"),
    [
        (entry("81a4 1 cuda/x", "cuda/x"), CacheUnsafe, "dgx1: cuda/x lies in no folder"),
        (entry("81a4 1 ../x", "../x"), CacheUnsafe, "in no folder"),
        (entry("81a4 1 triton/../x", "triton/../x"), CacheUnsafe, "in no folder"),
        (entry("81a4 1 triton/b/../../x", "triton/b/../../x"), CacheUnsafe, "in no folder"),
        (entry("81a4 1 triton//x", "triton//x"), CacheUnsafe, "in no folder"),
        (entry("81a4 1 triton/./x", "triton/./x"), CacheUnsafe, "in no folder"),
        (entry("81a4 1 /etc/x", "/etc/x"), CacheUnsafe, "in no folder"),
        (entry("81a4 1 --rsh=x", "--rsh=x"), CacheUnsafe, "in no folder"),
        (entry("81a4 1 triton/l/x", "triton/l/x"), CacheUnsafe, "in what is no folder"),
        (entry("81a4 1 triton/a/x", "triton/a/x"), CacheUnsafe, "in what is no folder"),
        (entry("81a4 1 b12x/x", "b12x/x"), CacheUnsafe, "in what is no folder"),
        (entry("a1ff 1 b12x", "b12x", "triton"), CacheUnsafe, "leads out: triton"),
        (entry("a1ff 1 triton/m", "triton/m", "/etc"), CacheUnsafe, "leads out: /etc"),
        (entry("a1ff 1 triton/m", "triton/m", "../b12x"), CacheUnsafe, "leads out"),
        (entry("a1ff 1 triton/m"), CacheUnsafe, "leads out"),
        (entry("89ed 1 triton/su", "triton/su"), CacheUnsafe, "setuid"),
        (entry("85ed 1 triton/sg", "triton/sg"), CacheUnsafe, "setuid or setgid"),
        (entry("21ed 1 triton/dev"), CacheUnsafe, "is no file, folder or link"),
        (entry("0 1 triton/zero"), CacheUnsafe, "is no file, folder or link"),
        (entry("81a4 1 triton/x\x1b[31m", "triton/x\x1b[31m"), CacheUnsafe, "plain name"),
        (entry("81a4 1 triton/x\\n", "triton/x\\n"), CacheUnsafe, "plain name"),
        (entry("41ed 1 triton"), ProbeGarbled, "listed twice"),
        (entry("81a4 1"), ProbeGarbled, "cannot be read"),
        (entry("81a4 -1 triton/x", "triton/x"), ProbeGarbled, "cannot be read"),
        (entry(f"81a4 {'9' * 400} triton/x", "triton/x"), ProbeGarbled, "cannot be read"),
        (entry(f"81a4 {'9' * 5000} triton/x", "triton/x"), ProbeGarbled, "cannot be read"),
        (entry(f"{'8' * 50} 1 triton/x", "triton/x"), ProbeGarbled, "cannot be read"),
        (entry("zzzz 1 triton/x", "triton/x"), ProbeGarbled, "cannot be read"),
        (entry("81a4 1 triton/x", "triton/x", digest="x"), ProbeGarbled, "cannot be read"),
        (LISTED.replace("-- end", ""), ProbeGarbled, "has no end"),
        (LISTED.replace("-- sums", "-- s"), ProbeGarbled, "cannot be read"),
        ("\n-- end\n", ProbeGarbled, "cannot be read"),
        ("", ProbeGarbled, "cannot be read"),
        (entry("81a4 1 triton/x"), CacheChanging, "came or went"),
        (LISTED.replace(f"{SUM}  triton/a", f"{SUM}  triton/z"), CacheChanging, "came or went"),
    ],
)  # fmt: skip
def test_lists_that_are_not_believed(said: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says) as caught:
        cache_answers.manifest("dgx1", said, NAMES)
    assert isinstance(caught.value, DistributionError)
    assert caught.value.findings[0].hint
    assert "dgx1" in str(caught.value)


LINES = sorted({*LISTED.split("\n"), *LOOKED.split("\n"), "81a4 1 triton/../x", "-- ", "<", "> "})


@settings(max_examples=400, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.sampled_from([*LINES, None]) | st.text()), max_size=5
    ),
    st.sampled_from([LISTED, LOOKED]),
)
def test_no_answer_breaks_or_leads_out(changes: list[tuple[int, str | None]], said: str) -> None:
    lines = said.split("\n")
    for at, line in changes:
        at %= len(lines)
        lines[at : at + (line is None)] = [] if line is None else [line]
    answer = "\n".join(lines)
    with contextlib.suppress(DistributionError):
        facts = cache_answers.facts("dgx1", answer, NAMES)
        assert set(facts.folders) <= set(NAMES)
        assert "/" not in facts.architecture + facts.gpu
    with contextlib.suppress(DistributionError):
        for path, one in cache_answers.manifest("dgx1", answer, NAMES).items():
            assert path.split("/")[0] in NAMES
            assert os.path.normpath(path) == path
            assert stat.S_IFMT(one.mode) in (stat.S_IFDIR, stat.S_IFREG, stat.S_IFLNK)


class Liar(Here):
    """A node whose answers are changed on their way."""

    node = Node("dgx1", "dgx1")
    address = words = ()

    def __init__(self, change: Callable[[str, str], str]) -> None:
        self._change = change

    def script(self, text: str, *words: str, **how: Any) -> str:
        return self._change(text, super().script(text, *words, **how))

    def stream(self, command: str, **how: Any) -> AbstractContextManager[subprocess.Popen[bytes]]:
        return super().stream(f"exec {command}", **how)  # one process, as ssh is

    @contextlib.contextmanager
    def open(self, nodes: Sequence[Node]) -> Iterator[Liar]:
        yield self

    def connect(self, node: Node) -> Liar:
        return self


class Copies:
    """Implements node_ports.Copier where both ends are here; `harm` is done to what came."""

    def __init__(self, harm: Callable[[Path], object] = lambda _: None) -> None:
        self.harm, self.asked = harm, list[str]()

    def fetch(
        self, link: Connection, paths: Sequence[str], into: str, *, basis: str, moved: Moved
    ) -> int:
        self.asked += paths
        for path in paths:
            HERE.script('cp -a -- "$1" "$2"', path, into, timeout_s=9)
        self.harm(Path(into))
        return 1

    send = fetch


class Board:
    @contextlib.contextmanager
    def lines(self, names: Sequence[str]) -> Iterator[Callable[[str], NodeLine]]:
        yield lambda _: Line()


class Bench:
    """A warm node that lies, and this host's store."""

    def __init__(self, folder: Path) -> None:
        lane = Reader(Path("x"), "x").read(Lane, lane_table())
        assert lane is not None
        root = folder / "node"
        self.what = pipeline.Wanted(lane, str(root), NAMES, "ab" * 32)
        tree(root / self.what.key, triton__a="1", cuda__x="of others")
        self.store = folder / "cache/jit"

    def pull(self, liar: Liar, copier: Copies) -> CacheOutcome:
        return pipeline.pull(
            self.what, liar.node, None, store=self.store, here=HERE, connections=liar,  # type: ignore[arg-type]
            copier=copier, board=Board(),
        )[1]  # fmt: skip

    def push(self, liar: Liar) -> CacheOutcome:
        (outcome,) = pipeline.push(
            self.what, pipeline.kept(self.what, self.store), [liar.node], here=HERE,
            connections=liar, copier=Copies(), board=Board(),  # type: ignore[arg-type]
        )  # fmt: skip
        return outcome

    def held(self) -> list[str]:
        return sorted(str(p.relative_to(self.store)) for p in self.store.rglob("*") if p.is_file()
                      and not p.name.startswith("."))  # fmt: skip


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def on(script: str, old: str, new: str) -> Liar:
    return Liar(lambda text, said: said.replace(old, new) if text == script else said)


def test_a_node_offers_more_than_was_asked_for(bench: Bench, tmp_path: Path) -> None:
    copier = Copies()
    liar = on(LOOK, "-- folders\n", "-- folders\n--rsync-path=x\n../..\ncuda\n")
    assert bench.pull(liar, copier).state == "copied"
    assert copier.asked == [f"{bench.what.root}/{bench.what.key}/triton"]
    (key, kernel) = bench.held()
    assert (key.rpartition("/")[2], kernel.endswith("/triton/a")) == (KEY_FILE, True)


LIES = pytest.mark.parametrize(
    ("script", "old", "new", "code"),
    [
        (LOOK, "-- machine\n", "-- machine\n../", "probe-garbled"),
        (LOOK, "-- gpu", "-- nothing", "probe-garbled"),
        (LIST, "-- entries", "-- nothing", "probe-garbled"),
        (LIST, "81a4", "81a4 x", "probe-garbled"),
        (LIST, "-- links\n", "81a4 1 cuda/x\n\n-- links\n", "cache-unsafe"),
        (LIST, " triton/a\n", " ../a\n", "cache-unsafe"),
        (LIST, f"{SUM}  triton/a\n", "", "cache-changing"),
    ],
)


@LIES
def test_a_node_that_lies_is_not_pulled_from(
    bench: Bench, script: str, old: str, new: str, code: str
) -> None:
    with pytest.raises(DistributionError) as failed:
        bench.pull(on(script, old, new), Copies())
    assert failed.value.findings[0].code == code
    assert bench.held() == []


@LIES
def test_a_node_that_lies_fails_and_stops_no_other(
    bench: Bench, tmp_path: Path, script: str, old: str, new: str, code: str
) -> None:
    bench.pull(Liar(lambda _, said: said), Copies())
    tree(Path(bench.what.root) / bench.what.key, triton__a="former")
    outcome = bench.push(on(script, old, new))
    assert (outcome.state, outcome.finding and outcome.finding.code) == ("failed", code)
    assert (Path(bench.what.root) / bench.what.key / "triton/a").read_text() == "former"


def outward(into: Path) -> None:
    (into / "triton/a").unlink()
    (into / "triton/a").symlink_to("/etc/passwd")


@pytest.mark.parametrize(
    ("harm", "code"),
    [
        (outward, "cache-unsafe"),
        (lambda into: (into / "triton/a").chmod(0o4755), "cache-unsafe"),
        (lambda into: (into / "triton/b").write_text(""), "cache-damaged"),
        (lambda into: (into / KEY_FILE).symlink_to(into.parents[3] / "taken"), "cache-unsafe"),
        (lambda into: (into / "triton").rename(into / "cuda"), "cache-changing"),
    ],
)  # fmt: skip
def test_what_came_is_not_what_was_said(
    bench: Bench, harm: Callable[[Path], object], code: str
) -> None:
    with pytest.raises(DistributionError) as failed:
        bench.pull(Liar(lambda _, said: said), Copies(harm))
    assert failed.value.findings[0].code == code
    assert bench.held() == []
    assert not list(bench.store.parents[1].rglob("taken"))


@pytest.mark.parametrize("hang", ["exec sleep 60", "echo what; exec sleep 60"])
def test_a_node_that_never_says_whether_it_holds_the_place(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, hang: str
) -> None:
    honest = Liar(lambda _, said: said)
    bench.pull(honest, Copies())
    tree(Path(bench.what.root) / bench.what.key, triton__a="former")
    monkeypatch.setattr(cache_spots, "_HOLD_S", 0.5)
    monkeypatch.setattr(cache_spots.scripts, "HOLD", hang)
    outcome = bench.push(honest)
    assert outcome.finding is not None
    assert outcome.finding.code == "node-failed"
    assert "no answer" in outcome.finding.what


def test_progress_of_a_node_that_counts_too_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a node writes to its stderr stands between rsync's own lines."""
    program = tmp_path / "rsync"
    program.write_text(f"#!/bin/sh\nprintf '\\r  {'9' * 5000}  5%%\\r  7 100%%\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    link = Liar(lambda _, said: said)
    assert Rsync().fetch(link, ["/x"], "/y", basis="..", moved=lambda _: None) == 7  # type: ignore[arg-type]
