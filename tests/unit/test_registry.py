"""Where an image goes in a registry, with whose login, and what an engine's complaint means."""

from __future__ import annotations

import base64
import http.server
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from builder.errors import UsageError
from builder.model.distribution import RegistryPlace
from builder.model.nodes import Node
from builder.steps.distribution.place import place
from builder.tools.registry_client import RegistryClient
from builder.tools.registry_login import Login, login
from builder.tools.registry_words import RegistryDenied, RegistryRefused, pull_failed
from tests.unit.test_distribution import IDS, IMAGE
from tests.unit.test_online import say, serving

Config = Callable[[object], None]


@pytest.fixture(autouse=True)
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Config:
    """Docker's own config, empty at first."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    return lambda value: (tmp_path / "config.json").write_text(json.dumps(value)) and None


@pytest.mark.parametrize(
    ("url", "tag", "shown"),
    [
        ("10.0.0.9:5000", "demo:local", "https://10.0.0.9:5000 demo"),
        ("http://198.18.0.9:5000/", "demo:local", "http://198.18.0.9:5000 demo"),
        ("127.0.0.1:5000", "demo:local", "http://127.0.0.1:5000 demo loopback"),
        ("https://localhost/a/b", "a.b:5000/t/demo:x", "https://localhost a/b/t/demo loopback"),
        ("http://[::1]:5000", "demo:x", "http://[::1]:5000 demo loopback"),
        ("198.18.0.9", "", "https://198.18.0.9 imgbuild"),
        ("198.18.0.9", "imgbuild-demo:local", "https://198.18.0.9 imgbuild-demo"),
        ("198.18.0.9", "imgbuild-transfer:x", "https://198.18.0.9 imgbuild"),
        ("198.18.0.9", "imgbuild-candidate:x", "https://198.18.0.9 imgbuild"),
    ],
)  # fmt: skip
def test_where_it_goes(url: str, tag: str, shown: str) -> None:
    found = place(url, replace(IMAGE, tags=(tag,) if tag else ()))
    end = " loopback" if found.is_loopback else ""
    assert f"{found.url} {found.repository}{end}" == shown


@pytest.mark.parametrize("url", ["", "ftp://a", "a b", "-o", "http://", "a/B", "user:x@a"])
def test_what_is_no_registry(url: str) -> None:
    with pytest.raises(UsageError):
        place(url, IMAGE)


@pytest.mark.parametrize(
    "url", ["https://user:s3cret@h:5000/t", "user:s3cret@h:5000/t", "http://s3cret@h:5000/t",
            "http://user:s3/cret@h:5000/t"],
)  # fmt: skip
def test_a_login_in_the_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        place(url, IMAGE)
    said = str(refused.value.findings)
    assert "docker login h:5000" in said
    assert "s3" not in said


def basic(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_logins_are_dockers_own(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert login("198.18.0.9:5000") is None
    config({"auths": {"https://198.18.0.9:5000/v1/": {"auth": basic("me:a:b")}, "t": {
        "identitytoken": "T", "auth": basic("me:"),
    }, "broken": {"auth": "?"}, "helped": {}}})  # fmt: skip
    assert login("198.18.0.9:5000") == Login("me", "a:b")
    assert login("t") == Login("", "T")
    assert login("broken") is login("helped") is login("198.18.0.9") is None
    helper = tmp_path / "docker-credential-safe"
    helper.write_text('#!/bin/sh\nread host; [ "$host" = helped ] || exit 1\n'
                      """echo '{"Username": "u", "Secret": "s"}'\n""")  # fmt: skip
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    config({"credsStore": "safe", "credHelpers": {"gone": "none", "up": "../x"}})
    assert login("helped") == Login("u", "s")
    assert login("other") is login("gone") is login("up") is None
    assert "s'" not in repr(login("helped"))


def with_login(request: http.server.BaseHTTPRequestHandler) -> None:
    """A registry that gives its token to who logs in, for pushes too."""
    host = request.headers["Host"]
    if request.path.startswith("/token"):
        is_known = request.headers.get("Authorization") == f"Basic {basic('me:ok')}"
        is_pushing = "scope=repository%3Aapp%3Apull%2Cpush" in request.path
        say(request, 200 if is_known and is_pushing else 401, b'{"token": "abc"}')
    elif request.headers.get("Authorization") != "Bearer abc":
        say(request, 401, WWW_Authenticate=f'Bearer realm="http://{host}/token",service="s"')
    elif request.path.endswith(IDS[1]):
        say(request, 200, Docker_Content_Digest=IDS[1])
    else:
        say(request, 404 if request.command == "HEAD" else 500, b"broken")


def test_a_token_for_pushes(config: Config) -> None:
    with serving(with_login) as (host, seen):
        at = RegistryPlace("http", host, "app", True)
        with pytest.raises(RegistryDenied, match="wants a login"):
            RegistryClient(at).has(IDS[1])
        config({"auths": {host: {"auth": basic("me:wrong")}}})
        with pytest.raises(RegistryDenied, match="refuses docker's login") as raised:
            RegistryClient(at).has(IDS[1])
        assert "wrong" not in str(raised.value.findings)
        config({"auths": {host: {"auth": basic("me:ok")}}})
        client, before = RegistryClient(at), len(seen)
        assert (client.has(IDS[1]), client.has(IDS[2])) == (True, False)
        assert len(seen) - before == 4  # one token is enough
        with pytest.raises(RegistryRefused, match="answers 500 to GET /v2/app/blobs/x"):
            client._check(client._ask("GET", "blobs/x"), None, 202)


class Link:
    """A connection that lives."""

    node = Node("n", "n")

    def closed(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("said", "code", "cure"),
    [
        ("no basic auth credentials", "registry-denied", "docker login 198.18.0.9:5000"),
        ("http: server gave HTTP response to HTTPS client", "registry-unreached", "insecure-"),
        ("x509: certificate signed by unknown authority", "registry-unreached", "ca.crt"),
        ("dial tcp 10.0.0.9:5000: connect: connection refused", "registry-unreached", "curl -I"),
        ("manifest verification failed for digest sha256:00", "registry-differs", "storage"),
        ("manifest unknown: manifest unknown", "registry-refused", "the same registry"),
        ("write /x: no space left on device", "no-space", "prune"),
        ("Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?",
         "engine-ended", "look at the engine"),
    ],
)  # fmt: skip
def test_reasons_of_a_pull(said: str, code: str, cure: str) -> None:
    error = pull_failed(Link(), "198.18.0.9:5000", "docker", said)  # type: ignore[arg-type]
    assert error.findings[0].code == code
    assert cure in error.findings[0].hint
