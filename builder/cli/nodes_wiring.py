"""Makes the tools of a push, and reads `nodes.toml`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, cast

from builder.cli import wiring
from builder.errors import UsageError
from builder.model.nodes import RATES, Compress, Node, rate
from builder.steps import nodes

if TYPE_CHECKING:
    from builder.node_ports import Connections, Copier, Receipts, Shell, Source
    from builder.pipeline.push_bring import Options


def known(folder: Path) -> nodes.Known:
    """The user's nodes.toml and the project's, or the one that IMGBUILD_NODES names."""
    texts = []
    for path in _files(folder):
        try:
            texts.append((path, path.read_bytes()))
        except (FileNotFoundError, NotADirectoryError):
            if os.environ.get("IMGBUILD_NODES"):
                raise UsageError(
                    f"IMGBUILD_NODES names {path}, which is not there",
                    hint="write it, or unset IMGBUILD_NODES",
                ) from None
    return nodes.read(texts)


def choose(found: nodes.Known, asked: str | None) -> tuple[Node, ...]:
    return nodes.choose(found, asked)


def limit(found: nodes.Known, asked: str | None) -> float | None:
    """Bytes a second. Raises: UsageError."""
    text = asked if asked is not None else found.defaults.limit_rate
    if text is None:
        return None
    if (read := rate(text)) is None:
        raise UsageError(f"{text!r} cannot be kept as a limit", hint=RATES)
    return read


def options(
    found: nodes.Known, compress: str | None = None, limit_rate: str | None = None
) -> Options:
    """How to push as nodes.toml says, unless it is asked otherwise. Raises: UsageError."""
    from builder.pipeline.push_bring import BATCH, Options
    from builder.tools.receiver import STALL_S

    return Options(
        compress=cast("Compress", compress or found.defaults.compress),
        limit=limit(found, limit_rate),
        hooks=found.hooks,
        # Tests make them small.
        batch=int(os.environ.get("IMGBUILD_PUSH_BATCH") or BATCH),
        stall_s=float(os.environ.get("IMGBUILD_PUSH_STALL") or STALL_S),
    )


class PushTools(TypedDict):
    """What images are pushed with."""

    source: Source
    connections: Connections
    receipts: Receipts


def tools() -> PushTools:
    return PushTools(source=source(), connections=connections(), receipts=receipts())


def source() -> Source:
    from builder.tools.push_source import DockerSource

    return DockerSource()


def connections() -> Connections:
    from builder.tools.ssh import Ssh

    named = os.environ.get("IMGBUILD_SSH_CONFIG")
    return Ssh(Path(named) if named else None)


def copier(found: nodes.Known, *, shares: int) -> Copier:
    """Copies folders; `[defaults] limit-rate` is shared by so many copies at once."""
    from builder.tools.rsync import Rsync

    rate = limit(found, None)
    return Rsync(rate and rate / max(1, shares))


def here() -> Shell:
    from builder.tools.here import Here

    return Here()


def jit_store() -> Path:
    """Where the caches of JIT compilers lie on this host."""
    return wiring.cache() / "jit"


def receipts() -> Receipts:
    from builder.tools.receipts import ReceiptFolder

    return ReceiptFolder(wiring.state())


def _files(folder: Path) -> tuple[Path, ...]:
    if named := os.environ.get("IMGBUILD_NODES"):
        return (Path(named),)
    import platformdirs

    here = folder.resolve()
    tops = [top for top in (here, *here.parents) if (top / "locks").is_dir()]
    return (
        platformdirs.user_config_path("imgbuild") / nodes.FILE,
        (tops[0] if tops else here) / nodes.FILE,
    )
