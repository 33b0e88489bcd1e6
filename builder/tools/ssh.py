"""Nodes through the system's ssh: its config, agent, known hosts and jump hosts hold.

One master connection a node for the length of a push, its socket in a private folder. Host
keys are never relaxed, no agent is forwarded, nothing is ever asked.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from builder.errors import ToolFailed
from builder.model.nodes import Node
from builder.tools import process
from builder.tools.ssh_guard import guarded
from builder.tools.ssh_words import ConnectionLost, NodeFailed, NoTunnel, lost, understood

CONNECT_S = 15
_FOLDER = "imgbuild-ssh-"
_OPTIONS = (
    "BatchMode=yes", "ForwardAgent=no", "ForwardX11=no", "PermitLocalCommand=no",
    "RequestTTY=no", "ServerAliveInterval=5", "ServerAliveCountMax=3", "Compression=no",
    "EscapeChar=none", f"ConnectTimeout={CONNECT_S}", "ControlPersist=no",
)  # fmt: skip
_ALLOCATED = re.compile(r"Allocated port (\d+)")
_FAST_CIPHER = "Ciphers=^aes128-gcm@openssh.com"  # more than twice the speed of the default


def environment() -> dict[str, str]:
    return process.environment("SSH_AUTH_SOCK", "SSH_*", "DISPLAY", "KRB5*")


@dataclass(frozen=True)
class Link:
    """Implements node_ports.Connection over one master connection."""

    node: Node
    base: tuple[str, ...]  # ssh and its options
    socket: Path
    master: subprocess.Popen[bytes]
    log: Path
    address: str

    def script(
        self,
        text: str,
        *words: str,
        timeout_s: float,
        lives_on: bool = False,
        is_alive: Callable[[], bool] | None = None,
    ) -> str:
        run = shlex.join if lives_on else guarded
        try:
            done = process.run(
                self._argv(run(["sh", "-s", "--", *words])), env=environment(),
                timeout_s=timeout_s, stdin=text.encode(), check=False, is_alive=is_alive,
            )  # fmt: skip
        except ToolFailed as late:
            raise ConnectionLost(
                f"{self.node.name} did not answer within {timeout_s:g} s",
                hint="run the same command again", detail=late.findings[0].detail,
            ) from late  # fmt: skip
        if done.returncode == 255 and self.closed():
            raise lost(self.node, done.complaint)
        if done.returncode:
            raise self.failed(done.complaint)
        return done.text

    def failed(self, complaint: str) -> NodeFailed | ConnectionLost:
        """The error for a command that ended badly there."""
        if self.closed():
            return lost(self.node, complaint)
        last = (complaint.strip().splitlines() or ["no output"])[-1]
        return NodeFailed(f"{self.node.name}: {last}", detail=complaint.strip()[-3000:])

    @contextlib.contextmanager
    def stream(
        self, command: str, *, lives_on: bool = False, timeout_s: float | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        argv = self._argv(command if lives_on else guarded(["sh", "-c", command]))
        with process.started(argv, env=environment(), timeout_s=timeout_s) as running:
            yield running

    @contextlib.contextmanager
    def tunnel(self, target: str) -> Iterator[int]:
        # By a connection of its own: over the master a pull can starve (DISTRIBUTION, trap 2).
        own = ("-S", "none", "-N", "-o", "ExitOnForwardFailure=yes", "-R", f"127.0.0.1:0:{target}")
        log = self.socket.with_suffix(".tunnel")
        with log.open("wb") as out:
            argv = [*_bound(), *self.base, *own, "--", self.node.destination]
            with process.started(argv, env=environment(), stderr=out) as running:
                yield self._port(running, log)

    def closed(self) -> bool:
        return self.master.poll() is not None

    def _port(self, running: subprocess.Popen[bytes], log: Path) -> int:
        end = time.monotonic() + CONNECT_S
        while time.monotonic() < end:
            said = log.read_text(errors="replace")
            if match := _ALLOCATED.search(said):
                return int(match[1])
            if running.poll() is not None:
                break
            time.sleep(0.02)
        raise NoTunnel(
            f"{self.node.name}: ssh makes no tunnel to it", detail=log.read_text(errors="replace"),
            hint="AllowTcpForwarding in the node's sshd_config; or --transport load",
        )  # fmt: skip

    @property
    def words(self) -> tuple[str, ...]:
        # Over the master or not at all: without it ssh would connect anew, and go on after a cut.
        only = ("-S", str(self.socket), "-o", "ProxyCommand=false")
        return (*self.base, *only, "--", self.node.destination)

    def _argv(self, command: str) -> list[str]:
        return [*self.words, command]


@dataclass(frozen=True)
class Opened:
    """Implements node_ports.OpenNodes: masters that were started together."""

    folder: Path
    links: dict[str, Link]

    def connect(self, node: Node) -> Link:
        link = self.links[node.name]
        end = time.monotonic() + CONNECT_S + 15
        while not link.socket.exists():
            if link.master.poll() is not None or time.monotonic() > end:
                raise understood(node, link.log.read_text(errors="replace"))
            time.sleep(0.01)
        return link

    def cut(self) -> None:
        for link in self.links.values():
            link.master.terminate()


class Ssh:
    """Implements node_ports.Connections. `config` takes the place of the user's own config."""

    def __init__(self, config: Path | None = None) -> None:
        self._base = ("ssh", *(("-F", str(config)) if config else ()), *_words())

    @contextlib.contextmanager
    def open(self, nodes: Sequence[Node]) -> Iterator[Opened]:
        """Start connecting to all nodes; `connect` waits for one of them."""
        _sweep()
        folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-", dir=_top()))
        with contextlib.ExitStack() as running:
            running.callback(shutil.rmtree, folder, ignore_errors=True)
            with ThreadPoolExecutor() as pool:
                default = pool.submit(_shown, ("ssh", "-F", os.devnull), "node")
                shown = list(pool.map(partial(_shown, self._base), (n.destination for n in nodes)))
            ciphers = default.result().get("ciphers")
            links = {
                node.name: running.enter_context(
                    self._master(node, folder / f"{i}", shown[i], ciphers)
                )
                for i, node in enumerate(nodes)
            }
            yield Opened(folder, links)

    @contextlib.contextmanager
    def _master(
        self, node: Node, socket: Path, shown: Mapping[str, str], ciphers: str | None
    ) -> Iterator[Link]:
        # The fast cipher first, unless the user's config chooses ciphers for this node.
        cipher = ("-o", _FAST_CIPHER) if shown.get("ciphers") == ciphers else ()
        base = (*self._base, *cipher)
        argv = [*_bound(), *base, "-M", "-N", "-S", str(socket), "--", node.destination]
        log = socket.with_suffix(".log")
        with log.open("wb") as out, process.started(argv, env=environment(), stderr=out) as master:
            yield Link(node, base, socket, master, log, _address(shown))


def _shown(base: Sequence[str], destination: str) -> dict[str, str]:
    """What ssh's config comes to for a destination."""
    argv = [*base, "-G", "--", destination]
    lines = process.run(argv, env=environment(), timeout_s=10, check=False).text.splitlines()
    return {key: value for key, _, value in (line.partition(" ") for line in lines)}


def _address(shown: Mapping[str, str]) -> str:
    host = shown.get("hostname", "")
    host = f"[{host}]" if ":" in host else host
    return f"ssh://{shown.get('user', '')}@{host}:{shown.get('port', '22')}"


def _top() -> Path:
    """Where sockets may lie: an address has less than 108 bytes, and ssh appends 17."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    return Path(runtime if 0 < len(runtime) < 40 and Path(runtime).is_dir() else "/tmp")  # noqa: S108


def _sweep() -> None:
    """Remove the folders of pushes that were killed."""
    for folder in _top().glob(f"{_FOLDER}*"):
        with contextlib.suppress(OSError, ValueError):
            if folder.stat().st_uid != os.getuid():
                continue
            try:
                os.kill(int(folder.name.removeprefix(_FOLDER).partition("-")[0]), 0)
            except ProcessLookupError:
                shutil.rmtree(folder, ignore_errors=True)


def _words() -> tuple[str, ...]:
    return tuple(word for option in _OPTIONS for word in ("-o", option))


def _bound() -> tuple[str, ...]:
    """Ends with us, also when we are killed: a master would live on."""
    return ("setpriv", "--pdeathsig", "TERM") if shutil.which("setpriv") else ()
