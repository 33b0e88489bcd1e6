"""Small images made without a build: layers with random files, labels as a lane's image has."""

from __future__ import annotations

import hashlib
import io
import json
import random
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.fleet.engine import Engine

GOOD = {
    "io.imgbuild.lane": "fleet",
    "io.imgbuild.build-id": "5eed" * 16,
    "io.imgbuild.gates": "3 of 3",
    "io.imgbuild.lock-digest": f"sha256:{'0' * 64}",
}


@dataclass(frozen=True)
class Layer:
    """A layer of so many bytes. The seed makes its content, of `pool` if there is one; else half
    of it can be compressed."""

    size: int
    seed: int
    pool: bytes = field(default=b"", repr=False)

    def content(self, made: random.Random, size: int) -> bytes:
        if self.pool:
            at = made.randrange(len(self.pool) - size + 1)
            return self.pool[at : at + size]
        half = made.randbytes(size // 2)
        return half + bytes(size - len(half))


def archive(
    layers: Sequence[Layer], tags: Sequence[str], labels: Mapping[str, str] = GOOD,
    architecture: str = "amd64", created: str = "2025-09-12T18:40:00Z",
) -> bytes:  # fmt: skip
    """A docker-archive."""
    tars = [_layer(layer) for layer in layers]
    config = json.dumps(
        {
            "architecture": architecture,
            "os": "linux",
            "created": created,
            "config": {"Labels": dict(labels), "Env": ["PATH=/usr/bin"], "Cmd": ["/bin/true"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_hex(t)}" for t in tars]},
            "history": [{"created": created, "created_by": f"layer {i}"} for i in range(len(tars))],
        }
    ).encode()
    names = [f"{_hex(t)}/layer.tar" for t in tars]
    manifest = [{"Config": f"{_hex(config)}.json", "RepoTags": list(tags), "Layers": names}]
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in {
            f"{_hex(config)}.json": config,
            **dict(zip(names, tars, strict=True)),
            "manifest.json": json.dumps(manifest).encode(),
        }.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def load(engine: Engine, data: bytes) -> None:
    done = subprocess.run(
        [str(engine.prefix / "usr/bin/docker"), "load", "-q"], input=data, env=engine.env,
        check=False, capture_output=True, timeout=300,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr.decode())


def _layer(layer: Layer) -> bytes:
    """Files of up to 4 MB, a long name, a link, a hard link, and a name that is no UTF-8."""
    made = random.Random(layer.seed)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        folder = f"opt/{layer.seed}"
        for name, kind in ((f"{folder}/{'long' * 40}", tarfile.REGTYPE), (f"{folder}/a", b"2")):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, "b" if kind == b"2" else ""
            tar.addfile(entry)
        for i, size in enumerate(_sizes(layer.size)):
            entry = tarfile.TarInfo(f"{folder}/{i}")
            entry.size, entry.mtime = size, 1757692800
            tar.addfile(entry, io.BytesIO(layer.content(made, size)))
        if layer.size:
            link = tarfile.TarInfo(f"{folder}/hard")
            link.type, link.linkname = tarfile.LNKTYPE, f"{folder}/0"
            tar.addfile(link)
    return out.getvalue()


def _sizes(total: int) -> Iterator[int]:
    while total > 0:
        yield min(total, 4 << 20)
        total -= 4 << 20


def _hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
