"""What is pinned stays: heads that move, mirrors and registries that fail, a damaged cache.

Nothing here starts a container; servers are on the loopback.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.integration.repositories import ENV
from tests.scenarios.conftest import Workplace
from tests.scenarios.replays.conftest import Replay
from tests.scenarios.replays.test_before_the_build import LANE, LOCK, staged

DEMO = "sketch"
PULL = "refs/pull/7/head"


def git(place: Workplace, name: str, *words: str, data: bytes = b"") -> str:
    folder = place.root / f".demo/sources/{name}.git"
    date = {"GIT_AUTHOR_DATE": "1700000000 +0000", "GIT_COMMITTER_DATE": "1700000000 +0000"}
    done = subprocess.run(
        ("git", *words),
        cwd=folder,
        env={**ENV, **date},
        input=data,
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().strip()


def commit(place: Workplace, name: str, ref: str, parent: str, **files: str) -> str:
    """A commit on `parent` in one of the demo's repositories, with these files changed."""
    git(place, name, "read-tree", parent)
    for path, text in files.items():
        blob = git(place, name, "hash-object", "-w", "--stdin", data=text.encode())
        git(place, name, "update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
    tree = git(place, name, "write-tree")
    made = git(place, name, "commit-tree", tree, "-p", parent, "-m", "More")
    git(place, name, "update-ref", ref, made)
    return made


def own_cache(replay: Replay, tmp_path: Path) -> Workplace:
    """The same place with a cache of its own: packages are there, git's objects are not."""
    shared = Path(replay.place.env["IMGBUILD_CACHE"])
    cache = tmp_path / "cache"
    cache.mkdir()
    shutil.copytree(shared / "files", cache / "files", copy_function=os.link)
    return Workplace(replay.place.root, {**replay.place.env, "IMGBUILD_CACHE": str(cache)})


def test_p7_a_head_that_moves_and_conflicts(replay: Replay) -> None:
    """What is locked builds on; only who takes the new head hears of the conflict."""
    place = replay.place
    base = git(place, "kern", "rev-parse", "main~1")
    commit(place, "kern", PULL, base, **{"tests/test_axpy.py": "assert True\n"})
    place.edit(LANE, ('gb10"]', 'gb10"]\ncompose = [{ pull = 7 }]'))
    place.good("lock", "demo")
    text = git(place, "kern", "show", f"{base}:kern/__init__.py").replace("0.1.0", "0.1.1")
    commit(place, "kern", PULL, base, **{"kern/__init__.py": f"{text}\n"})
    assert place.run("check", "demo").code == 0
    replay.expect("P7-a-head-that-conflicts", "lock", "demo", "--update", "kern")


def test_p27_an_upstream_of_a_submodule_that_advances(replay: Replay, tmp_path: Path) -> None:
    """Each submodule is fetched by its own commit: its branch may be elsewhere."""
    place = own_cache(replay, tmp_path)
    pinned = git(place, "kern", "ls-tree", "main", "third_party/common").split()[2]
    for _ in range(3):
        tip = git(place, "common", "rev-parse", "main")
        commit(place, "common", "refs/heads/main", tip, **{"README.md": f"after {tip}\n"})
    assert git(place, "common", "rev-parse", "main") != pinned
    assert place.run("check", "demo").code == 0


@pytest.fixture
def missing_wheel(replay: Replay, tmp_path: Path) -> tuple[Workplace, Path]:
    """A cache that lacks one wheel, and that wheel."""
    place = own_cache(replay, tmp_path)
    text = (place.root / LOCK).read_text().partition("[python.runtime.")[2]
    values = dict(line.split(" = ") for line in text.splitlines()[1:4])
    digest = json.loads(values["sha256"]).removeprefix("sha256:")
    (kept,) = (p for p in (tmp_path / "cache/files").rglob("*") if digest in p.name)
    wheel = tmp_path / json.loads(values["filename"])
    kept.rename(wheel)
    return place, wheel


def only(url: str, tmp_path: Path) -> dict[str, str]:
    """What makes pip ask this index and no other."""
    (tmp_path / "pip.conf").touch()
    return {"PIP_CONFIG_FILE": str(tmp_path / "pip.conf"), "PIP_INDEX_URL": f"{url}/simple",
            "PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": ""}  # fmt: skip


def test_p19_an_index_that_does_not_answer(
    replay: Replay, missing_wheel: tuple[Workplace, Path], tmp_path: Path
) -> None:
    """With everything fetched before, no index is asked; else it is named, at once."""
    nowhere = only("http://127.0.0.1:9", tmp_path) | {"PIP_RETRIES": "1"}
    whole = Workplace(replay.place.root, {**replay.place.env, **nowhere})
    assert whole.run("stage", "demo").code == 0
    place, _ = missing_wheel
    there = Replay(Workplace(place.root, {**place.env, **nowhere}))
    there.expect("P19-an-index-that-does-not-answer", "stage", "demo")


def test_p19_an_index_that_answers_503_once(
    missing_wheel: tuple[Workplace, Path], tmp_path: Path
) -> None:
    place, wheel = missing_wheel
    page = f'<a href="/{wheel.name}">{wheel.name}</a>'.encode()
    answers = {"/simple/nvidia-cuda-runtime/": page, f"/{wheel.name}": wheel.read_bytes()}
    with serving(answers, busy_first=True) as (url, asked):
        Workplace(place.root, {**place.env, **only(url, tmp_path)}).good("stage", "demo")
    assert [code for _, code in asked] == [503, 200, 503, 200]


def test_p23_a_base_that_the_registry_has_no_more(replay: Replay) -> None:
    digest = "sha256:" + "0" * 64
    with serving({}) as (url, asked):
        ref = f"{url.removeprefix('http://')}/cuda:13.0.1-devel"
        replay.place.edit(
            LANE,
            ('rootfs = ".demo/base/rootfs.tar"\nmade-by = "scripts/demo-base"',
             f'ref = "{ref}@{digest}"'),
        )  # fmt: skip
        replay.place.good("lock", "demo")
        replay.expect("P23-a-base-that-is-gone", "verify-lock", "demo")
    assert (f"/v2/cuda/manifests/{digest}", 404) in asked


def test_p26_what_an_interrupted_start_left_in_the_cache(replay: Replay, tmp_path: Path) -> None:
    """A file that is not what its name says counts as absent; a damaged object is an error."""
    place = own_cache(replay, tmp_path)
    before = staged(place)
    for archive in (tmp_path / "cache/files").rglob("*"):
        if archive.is_file() and before["sources/kern-native.tar"].removeprefix("sha256:") in (
            archive.name
        ):
            archive.chmod(0o644)
            archive.write_bytes(archive.read_bytes()[:1000])
    shutil.rmtree(before["context"])
    after = staged(place)
    assert after == before
    for pack in (tmp_path / "cache/git/objects/pack").glob("*.pack"):
        pack.chmod(0o644)
        data = bytearray(pack.read_bytes())
        data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
        pack.write_bytes(data)
    Replay(place).expect("P26-a-damaged-object", "verify-lock", "demo", "--offline", "--deep")


@contextmanager
def serving(
    answers: dict[str, bytes], *, busy_first: bool = False
) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """A server with these answers; `busy_first`: to each path 503 once. All that it was asked."""
    asked: list[tuple[str, int]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            first = busy_first and self.path not in dict(asked)
            code = 503 if first else 200 if self.path in answers else 404
            asked.append((self.path, code))
            data = answers.get(self.path, b"") if code == 200 else b""
            self.send_response(code)
            kind = "text/html" if self.path.endswith("/") else "application/octet-stream"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
