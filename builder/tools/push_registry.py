"""A read-only registry for one image, on a unix socket, straight from the engine's layers.

It serves what a pull by digest asks for and nothing else, and only below a secret name: the
tunnel's port on a node's loopback is open to everybody there.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import socketserver
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from builder.node_ports import Layers, Moved
from builder.tools.delivery import Limit

_ROUTE = re.compile(r"/v2/([a-z0-9]+)/image/(manifests|blobs)/(sha256:[0-9a-f]{64})")
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
_BINARY = "application/octet-stream"


class Registry:
    """What is served, and to whom: `clients` maps each secret name to its node's counter."""

    def __init__(
        self, manifest: tuple[str, bytes], config: tuple[str, bytes], layers: Layers, limit: Limit
    ) -> None:
        self.manifest, self.config = manifest, config
        self.media = str(json.loads(manifest[1])["mediaType"])
        self.layers, self.limit = layers, limit
        self.sizes = {blob.digest: blob.size for blob in layers.blobs()}
        self.clients: dict[str, Moved] = {}

    @contextlib.contextmanager
    def serving(self, path: Path) -> Iterator[None]:
        """Answer on the socket until the block is left."""
        handler = type("Handler", (_Handler,), {"served": self})
        with _Server(str(path), handler) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
            thread.start()
            try:
                yield
            finally:
                server.shutdown()
                path.unlink(missing_ok=True)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no event."""


class _Handler(BaseHTTPRequestHandler):
    served: Registry
    raw_requestline: bytes
    protocol_version = "HTTP/1.1"
    timeout = 120

    def address_string(self) -> str:
        return "node"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing: the node's own words are what is shown."""

    def parse_request(self) -> bool:
        # A TLS probe must get a status line, else containerd does not fall back to http.
        if self.raw_requestline[:1] == b"\x16":
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.wfile.write(b"HTTP/1.0 400 Bad Request\r\n\r\n")
            return False
        return super().parse_request()

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        if self.path in ("/v2", "/v2/"):
            self._small(b"{}", "application/json", {}, with_body=with_body)
            return
        match = _ROUTE.fullmatch(self.path.partition("?")[0])
        moved = self.served.clients.get(match[1]) if match else None
        if match is None or moved is None:
            self._head(404, {"Content-Length": "0"})
            return
        kind, digest = match[2], match[3]
        name, data = self.served.manifest if kind == "manifests" else self.served.config
        if digest == name:
            media = self.served.media if kind == "manifests" else _BINARY
            self._small(data, media, {"Docker-Content-Digest": digest}, with_body=with_body)
        elif kind == "blobs" and digest in self.served.sizes:
            self._layer(digest, moved, with_body=with_body)
        else:
            self._head(404, {"Content-Length": "0"})

    def _layer(self, digest: str, moved: Moved, *, with_body: bool) -> None:
        size = self.served.sizes[digest]
        asked = _RANGE.fullmatch(self.headers.get("Range") or "")
        start = int(asked[1]) if asked else 0
        if start >= size > 0:
            self._head(416, {"Content-Range": f"bytes */{size}", "Content-Length": "0"})
            return
        headers = {
            "Content-Type": _BINARY,
            "Accept-Ranges": "bytes",
            "Content-Length": str(size - start),
            "Docker-Content-Digest": digest,
        }
        if asked:
            headers["Content-Range"] = f"bytes {start}-{size - 1}/{size}"
        self._head(206 if asked else 200, headers)
        if with_body:
            self._send(digest, start, moved)

    def _send(self, digest: str, start: int, moved: Moved) -> None:
        try:
            for chunk in self.served.layers.read(digest, start):
                self.served.limit.take(len(chunk))
                self.wfile.write(chunk)
                moved(len(chunk))
        except Exception:
            # The client sees a body that is too short; the pull's own words come from the node.
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            raise

    def _small(
        self, data: bytes, media: str, headers: Mapping[str, str], *, with_body: bool
    ) -> None:
        self._head(200, {**headers, "Content-Type": media, "Content-Length": str(len(data))})
        if with_body:
            self.wfile.write(data)

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
