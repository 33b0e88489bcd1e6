"""Debian's docker-registry on an address of the fleet, and a proxy of it that lies."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.fleet.machine import call, spawn, until

PROGRAM = "docker-registry"
LOGIN = "user:$2b$04$P5CIkbtvZl8mpYO1ieYT9OgwRoF4lknxv1fRbfAm78e8jCf3a7Gsq\n"  # user, secret


@dataclass(frozen=True)
class Served:
    """A running registry."""

    host: str  # with the port
    folder: Path

    @property
    def certificate(self) -> Path:
        return self.folder / "ca.crt"

    def puts(self) -> list[str]:
        """What was put into it: `blobs` or `manifests`, in order."""
        lines = [line for line in (self.folder / "log").read_text().splitlines() if "PUT" in line]
        paths = [json.loads(line)["http.request.uri"] for line in lines
                 if "response completed" in line]  # fmt: skip
        return ["manifests" if "/manifests/" in path else "blobs" for path in paths]


@contextlib.contextmanager
def registry(
    folder: Path, address: str, *, tls: bool = False, login: bool = False
) -> Iterator[Served]:
    folder.mkdir()
    host = f"{address}:{free_port(address)}"
    made = Served(host, folder)
    config: dict[str, object] = {
        "version": 0.1,
        "log": {"level": "info", "formatter": "json"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
    }
    http: dict[str, object] = {"addr": host, "secret": "fleet"}
    if tls:
        call("openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "2",
             "-keyout", folder / "key", "-out", made.certificate, "-subj", "/CN=fleet",
             "-addext", f"subjectAltName=IP:{address}")  # fmt: skip
        http["tls"] = {"certificate": str(made.certificate), "key": str(folder / "key")}
    if login:
        (folder / "users").write_text(LOGIN)
        config["auth"] = {"htpasswd": {"realm": "fleet", "path": str(folder / "users")}}
    (folder / "config.yml").write_text(json.dumps({**config, "http": http}))  # JSON is YAML
    program = shutil.which(PROGRAM) or PROGRAM
    running = spawn((program, "serve", folder / "config.yml"), folder / "log", {"PATH": "/usr/bin"})
    try:
        until(lambda: _answers(host), f"{PROGRAM}: {folder}/log", 20)
        yield made
    finally:
        running.terminate()
        running.wait(10)


@contextlib.contextmanager
def lying(real: Served, address: str, lie: str) -> Iterator[str]:
    """A proxy of the registry: `header` answers a pushed manifest with another digest, `bytes`
    gives engines another manifest than the one that they ask for."""

    class Handler(BaseHTTPRequestHandler):
        default_request_version = "HTTP/1.1"  # a status line also for who tries TLS

        def handle_one(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
            headers = {name: ", ".join(self.headers.get_all(name) or ()) for name in self.headers
                       if name not in ("Host", "Content-Length")}  # fmt: skip
            url = f"http://{real.host}{self.path}"
            asked = urllib.request.Request(url, body, headers, method=self.command)
            try:
                answer = urllib.request.urlopen(asked)
            except urllib.error.HTTPError as error:
                answer = error
            found, data = dict(answer.headers.items()), answer.read()
            if "/manifests/" in self.path and lie == "header" and self.command == "PUT":
                found["Docker-Content-Digest"] = f"sha256:{'0' * 64}"
            if lie == "bytes" and "docker" in self.headers.get("User-Agent", ""):
                data = data.replace(b"schemaVersion", b"schemaversion")
            found["Location"] = found.get("Location", "").replace(real.host, host)
            self.send_response(answer.status)
            for name, value in found.items():
                if value:
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = handle_one  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer((address, 0), Handler) as server:
        host = f"{address}:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield host
        finally:
            server.shutdown()


def free_port(address: str) -> int:
    with socket.socket() as one:
        one.bind((address, 0))
        return int(one.getsockname()[1])


def _answers(host: str) -> bool:
    address, _, port = host.partition(":")
    with contextlib.suppress(OSError), socket.create_connection((address, int(port)), 1):
        return True
    return False


def log_in(docker: Path, env: dict[str, str], host: str) -> None:
    words = [str(docker), "login", "-u", "user", "--password-stdin", host]
    subprocess.run(words, env=env, input=b"secret", check=True, capture_output=True)
