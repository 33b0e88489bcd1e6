"""A base named by a tag: locked by the digest of each platform, against a registry on loopback."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.integration.worktrees import git

IMGBUILD = Path(sys.executable).with_name("imgbuild")
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
LANE = """\
schema = 1
image = "plain"
repository = "plain"
platforms = [{platforms}]
[build]
cuda-arch-list = "12.1a"
[base.runtime]
ref = "{ref}"
[sources.k]
url = "./sources/k"
track = {{ branch = "main" }}
"""


@dataclass
class Registry:
    """The manifests and blobs of one repository, as a registry serves them."""

    served: dict[str, tuple[str, bytes]] = field(default_factory=dict)  # by path

    def image(self, tag: str, text: str, platform: str = "linux/arm64") -> str:
        """Serve a manifest for one platform under a tag; its digest."""
        system, _, machine = platform.partition("/")
        config = self._blob({"os": system, "architecture": machine, "text": text})
        return self.manifest(tag, MANIFEST, {"mediaType": MANIFEST, "config": {"digest": config}})

    def index(self, tag: str, **images: str) -> str:
        """Serve an index of images that `image` served, by platform with _ for /."""
        entries = []
        for key, digest in images.items():
            system, _, machine = key.partition("_")
            platform = {"os": system, "architecture": machine}
            entries.append({"digest": digest, "platform": platform})
        return self.manifest(tag, INDEX, {"mediaType": INDEX, "manifests": entries})

    def manifest(self, tag: str, kind: str, held: object) -> str:
        raw = json.dumps(held).encode()
        digest = f"sha256:{hashlib.sha256(raw).hexdigest()}"
        for name in (tag, digest):
            self.served[f"/v2/team/base/manifests/{name}"] = (kind, raw)
        return digest

    def _blob(self, held: object) -> str:
        raw = json.dumps(held).encode()
        digest = f"sha256:{hashlib.sha256(raw).hexdigest()}"
        self.served[f"/v2/team/base/blobs/{digest}"] = ("application/json", raw)
        return digest


@dataclass
class Place:
    root: Path
    host: str
    registry: Registry

    def lane(self, platforms: str = "linux/arm64", tag: str = ":1") -> None:
        listed = ", ".join(f'"{platform}"' for platform in platforms.split())
        ref = f"{self.host}/team/base{tag}"
        self.root.joinpath("locks/plain.toml").write_text(LANE.format(platforms=listed, ref=ref))

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        env = {
            **os.environ, "IMGBUILD_CACHE": str(self.root / "cache"),
            "IMGBUILD_STATE": str(self.root / "state"), "NO_PROXY": "127.0.0.1",
        }  # fmt: skip
        return subprocess.run(
            [IMGBUILD, *argv], cwd=self.root, env=env, capture_output=True, text=True, check=False
        )

    def locked(self, *update: str) -> dict[str, str]:
        done = self.run("lock", "plain", *update)
        assert done.returncode == 0, done.stderr
        lock = tomllib.loads(self.root.joinpath("locks/plain.lock").read_text())
        found: dict[str, str] = lock["base"]["runtime"]["platforms"]
        return found

    def refused(self) -> str:
        done = self.run("lock", "plain")
        assert done.returncode == 3, done.stderr
        assert not self.root.joinpath("locks/plain.lock").exists()
        return done.stderr


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    registry = Registry()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, body = registry.served.get(self.path, ("", b""))
            self.send_response(200 if kind else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    for folder in ("locks", "docker-images/plain", "sources/k"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "sources/k/a").write_text("a\n")
    for argv in (("init", "-q", "-b", "main"), ("add", "a"), ("commit", "-qm", "one")):
        git(tmp_path / "sources/k", *argv)
    (tmp_path / "docker-images/plain/Dockerfile").write_text("ARG BASE_RUNTIME\nFROM scratch\n")
    try:
        yield Place(tmp_path, f"127.0.0.1:{server.server_port}", registry)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_tag_is_locked_by_the_digest_of_each_platform(place: Place) -> None:
    arm, amd = place.registry.image("a", "1"), place.registry.image("b", "1", "linux/amd64")
    place.registry.index("1", linux_arm64=arm, linux_amd64=amd, unknown_unknown=arm)
    place.lane("linux/arm64 linux/amd64")
    assert place.locked() == {"linux/arm64": arm, "linux/amd64": amd}
    done = place.run("verify-lock", "plain")
    assert (done.returncode, "not checked" in done.stderr) == (0, False), done.stderr


def test_a_moved_tag_moves_nothing_until_it_is_asked_for(place: Place) -> None:
    first = place.registry.image("1", "first")
    place.lane()
    assert place.locked() == {"linux/arm64": first}
    second = place.registry.image("1", "second")
    assert place.locked() == {"linux/arm64": first}
    assert place.run("verify-lock", "plain").returncode == 0
    assert place.locked("--update", "runtime") == {"linux/arm64": second}


def test_a_digest_that_is_gone_is_a_finding(place: Place) -> None:
    first = place.registry.image("1", "first")
    place.lane()
    place.locked()
    del place.registry.served[f"/v2/team/base/manifests/{first}"]
    done = place.run("verify-lock", "plain")
    assert (done.returncode, "base-gone" in done.stderr) == (4, True), done.stderr


def test_a_lock_follows_the_platforms_of_its_lane(place: Place) -> None:
    arm, amd = place.registry.image("a", "1"), place.registry.image("b", "1", "linux/amd64")
    place.registry.index("1", linux_arm64=arm, linux_amd64=amd)
    place.lane()
    assert place.locked() == {"linux/arm64": arm}
    place.lane("linux/amd64")
    assert place.locked() == {"linux/amd64": amd}


def test_a_digest_in_the_lane_needs_no_registry(place: Place) -> None:
    digest = f"sha256:{'7' * 64}"
    place.lane(tag=f":1@{digest}")
    assert place.locked() == {"linux/arm64": digest}


def test_what_a_registry_does_not_have(place: Place) -> None:
    place.lane()
    said = place.refused()
    assert "has no team/base:1" in said
    assert "name another tag" in said
    assert "locks/plain.toml:7" in said
    place.registry.image("1", "first", "linux/amd64")
    assert "has nothing for linux/arm64, only for linux/amd64" in place.refused()


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b"{", b'{"manifests": 1}', b'{"manifests": [{"digest": "x"}]}',
     b'{"config": {"digest": "../../x"}}', b'{"manifests": [[]]}', b"\xff" * 9,
     b'{"pad": "' + b"x" * (5 << 20) + b'"}'],
)  # fmt: skip
def test_nonsense_of_a_registry_is_no_lock(place: Place, body: bytes) -> None:
    place.lane()
    place.registry.served["/v2/team/base/manifests/1"] = (MANIFEST, body)
    said = place.refused()
    assert "base-unresolved" in said
    assert "docker buildx imagetools inspect" in said


def test_other_bytes_under_a_digest_are_refused(place: Place) -> None:
    place.lane()
    place.registry.image("1", "first")
    blob = next(path for path in place.registry.served if "/blobs/" in path)
    place.registry.served[blob] = ("application/json", b'{"os": "linux", "architecture": "arm64"}')
    assert "gives other bytes" in place.refused()


def test_a_registry_that_does_not_answer(place: Place) -> None:
    place.lane()
    path = place.root / "locks/plain.toml"
    path.write_text(path.read_text().replace(place.host, "127.0.0.1:1"))
    said = place.refused()
    assert "127.0.0.1:1 does not answer" in said
    assert "lock again when it answers" in said
