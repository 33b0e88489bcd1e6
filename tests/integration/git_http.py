"""A small smart-HTTP git server on 127.0.0.1: `git http-backend` behind http.server."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass
class GitServer:
    root: Path
    port: int = 0
    refuse_ids: bool = False  # speak protocol v0, which gives no unadvertised commit
    fail_with: list[int] = field(default_factory=list)  # status of the next answers
    asked: list[str] = field(default_factory=list)


@contextlib.contextmanager
def serving(root: Path) -> Iterator[GitServer]:
    state = GitServer(root)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            self.answer(b"")

        def do_POST(self) -> None:
            self.answer(self.body())

        def body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers["Content-Length"]))
            data = b""
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            return data

        def answer(self, body: bytes) -> None:
            state.asked.append(f"{self.command} {self.path}")
            if state.fail_with:
                self.send_error(state.fail_with.pop(0))
                return
            path, _, query = self.path.partition("?")
            protocol = "" if state.refuse_ids else self.headers.get("Git-Protocol", "")
            env = {
                "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(root), "PATH_INFO": path,
                "GIT_HTTP_EXPORT_ALL": "1", "REQUEST_METHOD": self.command, "QUERY_STRING": query,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""), "GIT_PROTOCOL": protocol,
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull,
            }  # fmt: skip
            raw = subprocess.run(
                ("git", "http-backend"), env=env, input=body, capture_output=True, check=False
            ).stdout
            head, _, content = raw.partition(b"\r\n\r\n")
            fields = [line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line]
            status = next((v for k, v in fields if k == "Status"), "200")
            self.send_response(int(status.split()[0]))
            for key, value in fields:
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
