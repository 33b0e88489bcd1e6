"""Answers of registries and indexes that are no answers, and whom credentials are not told."""

from __future__ import annotations

import http.server
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from builder.tools import answers
from builder.tools.registry_api import RegistryApi, RegistryUnreachable
from builder.tools.wheel_index import IndexUnreachable, WheelIndex
from tests.unit.locks import DIGESTS
from tests.unit.test_online import Answer, pip, say, serving

__all__ = ["pip"]
DEEP = b"[" * 60_000
Request = http.server.BaseHTTPRequestHandler


def raw(request: Request, body: bytes, **headers: str) -> None:
    """Send bytes whatever the headers say of them, and close the connection."""
    request.send_response(200)
    for name, value in headers.items():
        request.send_header(name.replace("_", "-"), value)
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(body)
    request.close_connection = True


def drip(request: Request) -> None:
    """A byte every 50 ms, for 5 s at most."""
    request.send_response(200)
    request.end_headers()
    for _ in range(100):
        request.wfile.write(b" ")
        time.sleep(0.05)


def drip_headers(request: Request) -> None:
    for sign in b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100:
        request.wfile.write(bytes([sign]))
        time.sleep(0.05)


def stalled(request: Request) -> None:
    raw(request, b"{", Content_Length="9")
    request.wfile.flush()
    time.sleep(1)


BROKEN: dict[str, tuple[Answer, str]] = {
    "short": (lambda r: raw(r, b"{", Content_Length="9"), "breaks off"),
    "chunks": (lambda r: raw(r, b"zz\r\n", Transfer_Encoding="chunked"), "badly framed"),
    "gzip": (
        lambda r: raw(r, b"no gzip", Content_Encoding="gzip", Content_Length="7"),
        "badly compressed",
    ),
    "deep": (lambda r: say(r, 200, DEEP, Content_Type="application/json"), "no JSON"),
    "stall": (stalled, "not whole after 0.5 s"),
    "drip": (drip, "not whole after 0.5 s"),
    "headers": (drip_headers, "not whole after 0.5 s"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "WHOLE_S", 0.5)


@pytest.mark.parametrize("kind", sorted(BROKEN))
def test_a_broken_manifest(kind: str) -> None:
    answer, why = BROKEN[kind]
    with serving(answer) as (host, _), pytest.raises(RegistryUnreachable, match=why):
        RegistryApi().digests(f"{host}/team/app")


@pytest.mark.parametrize("kind", sorted(BROKEN))
def test_a_broken_token(kind: str) -> None:
    answer, why = BROKEN[kind]

    def token(request: Request) -> None:
        if "token" in request.path:
            answer(request)
        else:
            realm = f'Bearer realm="http://{request.headers["Host"]}/token"'
            say(request, 401, WWW_Authenticate=realm)

    with serving(token) as (host, _), pytest.raises(RegistryUnreachable, match=why):
        RegistryApi().serves(f"{host}/team/app", DIGESTS[1])


@pytest.mark.parametrize("kind", sorted(BROKEN))
def test_a_broken_index(kind: str, pip: Callable[..., None]) -> None:
    answer, why = BROKEN[kind]
    with serving(answer) as (host, _):
        pip(f"http://{host}/simple")
        with pytest.raises(IndexUnreachable, match=why):
            WheelIndex().sha256("x", "x-1.whl")


@pytest.mark.parametrize("page", [b"[]", b'{"files": [[]]}', b'{"files": [{"hashes": 1}]}', b"1"])
def test_an_index_of_another_form(page: bytes, pip: Callable[..., None]) -> None:
    with serving(lambda r: say(r, 200, page, Content_Type="application/json")) as (host, _):
        pip(f"http://{host}/simple")
        with pytest.raises(IndexUnreachable, match="no page of an index"):
            WheelIndex().sha256("x", "x-1.whl")


def test_an_answer_of_more_bytes_than_are_taken() -> None:
    big = b" " * (5 << 20)
    with serving(lambda r: say(r, 200, big)) as (host, _), pytest.raises(
        RegistryUnreachable, match="more than 4194304 bytes"
    ):  # fmt: skip
        RegistryApi().digests(f"{host}/team/app")


def test_no_credentials_are_read_and_a_token_stays_with_its_host(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """At the first request, with a token, at redirects to other hosts and back."""
    netrc = tmp_path / "netrc"
    netrc.write_text("default login user password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    manifest = json.dumps({"manifests": []}).encode()
    heard: list[tuple[str, str | None]] = []

    def other(request: Request) -> None:
        heard.append(("other", request.headers.get("Authorization")))
        say(request, 200, manifest)

    def first(request: Request) -> None:
        heard.append(("first", authorization := request.headers.get("Authorization")))
        if request.path.startswith("/token"):
            heard[-1] = ("token", authorization)
            say(request, 200, b'{"token": "abc"}')
        elif authorization is None:
            realm = f'Bearer realm="http://{request.headers["Host"]}/token"'
            say(request, 401, WWW_Authenticate=realm)
        elif "again" not in request.path:
            say(request, 302, Location=f"{request.path}/again")
        else:
            say(request, 302, Location=f"http://u:p@{away}/blob")

    with serving(other) as (away, _), serving(first) as (host, _):
        assert RegistryApi().digests(f"{host}/team/app:1") == {}
    assert [(who, said) for who, said in heard if said != "Bearer abc"] == [
        ("first", None), ("token", None), ("other", None),
    ]  # fmt: skip


def test_a_digest_that_a_registry_says_yes_to_and_does_not_have() -> None:
    """HEAD that names no digest proves nothing: the bytes are hashed."""
    with serving(lambda r: say(r, 200, b"welcome")) as (host, seen):
        assert not RegistryApi().serves(f"{host}/team/app", DIGESTS[1])
    assert [line.split()[0] for line in seen] == ["HEAD", "GET"]
