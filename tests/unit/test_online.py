"""Registries and indexes asked without Docker, against small ones on the loopback."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from builder.errors import SourceError, ToolFailed
from builder.ports import RefGone
from builder.steps import online
from builder.steps.lanes import lock_of, read_lane
from builder.tools.registry_api import RegistryApi, RegistryUnreachable, place
from builder.tools.wheel_index import IndexUnreachable, WheelIndex
from tests.unit.locks import DIGESTS, OBJECTS, lane_table, lock_table, quick_text

TAGS = {"refs/tags/v1": OBJECTS[3]}
Answer = Callable[[http.server.BaseHTTPRequestHandler], None]
MANIFEST = f"/v2/team/app/manifests/{DIGESTS[1]}"


@contextmanager
def serving(answer: Answer) -> Iterator[tuple[str, list[str]]]:
    """A server whose requests `answer` answers; its address, and the requests it saw."""
    seen: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(f"{self.command} {self.path}")
            answer(self)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def say(
    request: http.server.BaseHTTPRequestHandler, code: int, body: bytes = b"", **headers: str
) -> None:
    request.send_response(code)
    for name, value in headers.items():
        request.send_header(name.replace("_", "-"), value)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(body)


def with_token(request: http.server.BaseHTTPRequestHandler) -> None:
    """A registry that wants an anonymous token and has one manifest."""
    host = request.headers["Host"]
    if request.path.startswith("/token"):
        say(request, 200, json.dumps({"token": "abc"}).encode())
    elif request.headers.get("Authorization") != "Bearer abc":
        realm = f'Bearer realm="http://{host}/token",service="s",scope="repository:x:pull"'
        say(request, 401, WWW_Authenticate=realm)
    elif request.path == MANIFEST:
        say(request, 200, Docker_Content_Digest=DIGESTS[1])
    else:
        say(request, 404)


def test_a_manifest_by_digest_with_an_anonymous_token() -> None:
    with serving(with_token) as (host, seen):
        assert RegistryApi().serves(f"{host}/team/app:1", DIGESTS[1])
        assert not RegistryApi().serves(f"{host}/team/app", DIGESTS[2])
    assert seen[:3] == [
        f"HEAD {MANIFEST}", "GET /token?scope=repository%3Ateam%2Fapp%3Apull&service=s",
        f"HEAD {MANIFEST}",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda r: say(r, 500), "answers 500"),
        (lambda r: say(r, 429), "answers 429"),
        (lambda r: say(r, 401), "wants a login"),
        (lambda r: say(r, 401, WWW_Authenticate='Basic realm="x"'), "wants a login"),
        (lambda r: say(r, 401, WWW_Authenticate='Bearer realm="http://169.254.1.1/x"'), "login"),
        (lambda r: say(r, 401, WWW_Authenticate='Bearer realm="file:///etc/passwd"'), "login"),
        (lambda r: say(r, 302, Location=r.path), "does not answer"),
        (lambda r: say(r, 200, b"{" * 9, WWW_Authenticate="x") if "token" in r.path else
         say(r, 401, WWW_Authenticate=f'Bearer realm="http://{r.headers["Host"]}/token"'),
         "does not answer"),
    ],
)  # fmt: skip
def test_what_says_neither_yes_nor_no_is_unreachable(answer: Answer, why: str) -> None:
    with serving(answer) as (host, _), pytest.raises(RegistryUnreachable, match=why):
        RegistryApi().serves(f"{host}/team/app", DIGESTS[1])


def test_nobody_there_and_another_manifest() -> None:
    with pytest.raises(RegistryUnreachable, match="does not answer"):
        RegistryApi().serves("127.0.0.1:1/team/app", DIGESTS[1])
    with serving(lambda r: say(r, 200, Docker_Content_Digest=DIGESTS[2])) as (host, _):
        assert not RegistryApi().serves(f"{host}/team/app", DIGESTS[1])


@pytest.mark.parametrize(
    ("ref", "host", "repository"),
    [
        ("debian", "registry-1.docker.io", "library/debian"),
        ("debian:12", "registry-1.docker.io", "library/debian"),
        ("nvidia/cuda:13.0@sha256:00", "registry-1.docker.io", "nvidia/cuda"),
        ("docker.io/a/b", "registry-1.docker.io", "a/b"),
        ("ghcr.io/a/b/c:1", "ghcr.io", "a/b/c"),
        ("localhost:5000/a", "localhost:5000", "a"),
    ],
)
def test_where_a_reference_lies(ref: str, host: str, repository: str) -> None:
    assert place(ref) == (host, repository)


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str, str], None]:
    """Set pip's index and its extra ones, and nothing else."""
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")

    def set_to(index: str, extra: str = "") -> None:
        monkeypatch.setenv("PIP_INDEX_URL", index)
        monkeypatch.setenv("PIP_EXTRA_INDEX_URL", extra)

    return set_to


def test_wheels_by_html_json_and_from_a_folder(pip: Callable[..., None], tmp_path: Path) -> None:
    hexes = [d.removeprefix("sha256:") for d in DIGESTS]
    page = f'<a href="../f/a_b-1.whl#sha256={hexes[1]}">x</a><a href="/f/c-1.whl">c</a>'
    held = {"files": [{"filename": "j-1.whl", "hashes": {"sha256": hexes[2]}}]}

    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        if request.path == "/simple/a-b/":
            say(request, 200, page.encode(), Content_Type="text/html")
        elif request.path == "/simple/j/":
            kind = "application/vnd.pypi.simple.v1+json"
            say(request, 200, json.dumps(held).encode(), Content_Type=kind)
        else:
            say(request, 404)

    folder = tmp_path / "index" / "local"
    folder.mkdir(parents=True)
    (folder / "index.html").write_text(f'<a href="l-1.whl#sha256={hexes[3]}">l</a>')
    with serving(answer) as (host, seen):
        pip(f"http://{host}/simple", f"file://{tmp_path}/index")
        index = WheelIndex()
        assert index.sha256("A.b", "a_b-1.whl") == DIGESTS[1]
        assert index.sha256("a_b", "a_b-2.whl") is None
        assert index.sha256("j", "j-1.whl") == DIGESTS[2]
        assert index.sha256("local", "l-1.whl") == DIGESTS[3]
        with pytest.raises(IndexUnreachable, match="names no sha256"):
            index.sha256("a-b", "c-1.whl")
        assert seen.count("GET /simple/a-b/") == 1  # a page is asked for once


def test_an_index_that_may_have_it_and_does_not_answer(pip: Callable[..., None]) -> None:
    pip("http://127.0.0.1:1/simple")
    with pytest.raises(IndexUnreachable, match="does not answer"):
        WheelIndex().sha256("x", "x-1.whl")
    with serving(lambda r: say(r, 503)) as (host, _):
        pip(f"http://user:secret@{host}/simple")
        with pytest.raises(IndexUnreachable, match="answers 503") as error:
            WheelIndex().sha256("x", "x-1.whl")
    assert "secret" not in str(error.value)


class Fake:
    """A registry and an index in one; None: it does not answer."""

    def __init__(self, served: bool | None, sha256: str | None) -> None:
        self.served, self.digest = served, sha256

    def serves(self, ref: str, digest: str) -> bool:
        if self.served is None:
            raise ToolFailed("registry does not answer")
        return self.served

    def sha256(self, project: str, filename: str) -> str | None:
        if self.digest == "":
            raise ToolFailed("index does not answer")
        return self.digest


class Server:
    """A git server: the commit of each tag; None: it does not answer."""

    def __init__(self, commits: dict[str, str] | None) -> None:
        self.commits = commits
        self.asked: list[tuple[tuple[str, ...], str]] = []

    def resolve(self, urls: Sequence[str], ref: str) -> str:
        self.asked.append((tuple(urls), ref))
        if self.commits is None:
            raise SourceError("it does not answer")
        if ref not in self.commits:
            raise RefGone("no such ref")
        return self.commits[ref]


class Folder:
    """A project with the lane of tests.unit.locks."""

    root = Path("/p")

    def __init__(self, **changes: object) -> None:
        table = lane_table()
        table["platforms"] = ["linux/amd64"]
        table["sources"]["loader"].update(changes)
        self.lane = quick_text(table)

    def read(self, path: str) -> bytes | None:
        return self.lane if path == "locks/demo.toml" else None


def asked(
    served: bool | None = True, digest: str | None = DIGESTS[6], *,
    commits: dict[str, str] | None = TAGS, **changes: object,
) -> tuple[online.Asked, Server]:  # fmt: skip
    lane = read_lane("demo", project=Folder(**changes)).lane  # type: ignore[arg-type]
    lock = replace(
        lock_of(lock_table(), Path("locks/demo.lock"), "demo"), path=Path("locks/demo.lock")
    )
    fake, server = Fake(served, digest), Server(commits)
    found = online.ask(
        lane, lock, root=Path("/p"), store=server, registry=fake, wheels=fake,  # type: ignore[arg-type]
        say=lambda _: None,
    )  # fmt: skip
    return found, server


def test_findings_and_what_is_unchecked() -> None:
    good, _ = asked()
    assert good.findings == ()
    assert good.unchecked == ("liburing-dev, liburing2: whether apt's index still has them",)
    bad, _ = asked(False, DIGESTS[7])
    assert [f.code for f in bad.findings] == ["base-gone"] * 2 + ["wheel-changed"] * 2
    assert bad.findings[0].place is not None
    assert bad.findings[0].place.key == ("base", "runtime", "platforms", "linux/amd64")
    assert [f.code for f in asked(True, None)[0].findings] == ["wheel-gone"] * 2
    silent, _ = asked(None, "", commits=None)
    assert silent.findings == ()
    assert silent.unchecked[:3] == (
        "base runtime: registry does not answer", "crt: index does not answer",
        "nvcc: index does not answer",
    )  # fmt: skip
    assert "loader: where the tag v1 is now: it does not answer" in silent.unchecked


def test_tags_are_asked_for_and_branches_are_not() -> None:
    _, server = asked()
    assert server.asked == [
        (("/p/sources/loader.git",), "refs/tags/v1"),
        (("https://example.org/tinyfmt.git",), "refs/tags/v1"),
    ]  # the lane says of tinyfmt why its commit need not be the tag's


def test_a_tag_that_moved_or_is_gone() -> None:
    moved, _ = asked(commits={"refs/tags/v1": OBJECTS[9]})
    assert [f.code for f in moved.findings] == ["tag-moved"] * 2
    loader = next(f for f in moved.findings if f.what.startswith("loader"))
    assert loader.what == "loader: the tag v1 is at 999999999999 now, pinned is 333333333333"
    assert "imgbuild lock demo --update loader" in loader.hint
    assert loader.place is not None
    assert loader.place.key == ("sources", "loader", "commit")
    derived = next(f for f in moved.findings if f is not loader)
    assert "imgbuild lock demo --update kern-cmake" in derived.hint  # what the lane knows
    gone, _ = asked(commits={})
    assert "loader: the tag v1 is gone, pinned is 333333333333" in [f.what for f in gone.findings]
    excused, server = asked(commits={"refs/tags/v1": OBJECTS[9]}, unreachable="of r1")
    assert [f.what.partition(":")[0] for f in excused.findings] == ["derived"]
    assert ("/p/sources/loader.git",) not in [urls for urls, _ in server.asked]
