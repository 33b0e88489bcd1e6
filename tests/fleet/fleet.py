"""Real nodes on this machine: a network namespace, an sshd and a dockerd each.

Root only. Everything carries the fleet's key and goes when the block is left; what a killed
run left behind goes when the next fleet starts.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.fleet.engine import Engine
from tests.fleet.machine import PREFIX, RUN, alive, call, clear, spawn, until
from tests.fleet.network import Network

DISK = "/srv"
NEEDED = ("sshd", "ssh", "ssh-keygen", "ip", "tc", "nsenter", "setpriv")


@dataclass
class Node:
    """One machine that can be reached by ssh."""

    name: str
    number: int
    address: str
    folder: Path
    space: str
    engine: Engine
    sshd: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def bin(self) -> Path:
        """First on the PATH of its sessions: programs that stand in for the node's own."""
        return self.folder / "bin"

    @property
    def disk(self) -> Path:
        """What its sessions see as `DISK`, where they have one of their own."""
        return self.folder / "disk"

    def start_sshd(self, *, own_disk: bool = False) -> None:
        """Later mounts of the machine are not seen by sessions with a disk of their own."""
        self.bin.mkdir(exist_ok=True)
        path = f"{self.bin}:{self.engine.prefix}/usr/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        config = self.folder / "sshd_config"
        config.write_text(
            f"Port 22\nListenAddress {self.address}\nHostKey {self.folder}/host_key\n"
            f"AuthorizedKeysFile {self.folder.parent}/authorized_keys\nPidFile none\n"
            "StrictModes no\nUsePAM no\nPermitRootLogin prohibit-password\n"
            "PasswordAuthentication no\nMaxSessions 64\nMaxStartups 64\nPrintMotd no\n"
            f"SetEnv DOCKER_HOST={self.engine.socket} DOCKER_CONFIG={self.engine.home}/config"
            f" PATH={path}\n"
        )
        sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin") or "sshd"
        self.disk.mkdir(exist_ok=True)
        mount = f'mount --bind "$0" {DISK} && exec "$@"'
        disk = ("unshare", "--mount", "sh", "-c", mount, self.disk) if own_disk else ()
        space = ("nsenter", f"--net=/run/netns/{self.space}")
        argv = (*space, *disk, sshd, "-D", "-e", "-f", config)
        self.sshd = spawn(argv, self.folder / "sshd.log", self.engine.env)

    def new_host_key(self) -> None:
        for path in self.folder.glob("host_key*"):
            path.unlink()
        call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / "host_key")

    def stop_sshd(self) -> None:
        if self.sshd is not None:
            self.sshd.terminate()
            self.sshd.wait(10)

    def cut(self) -> None:
        """End every ssh session of the node, as a broken link would."""
        words = ("ss", "-N", self.space, "-tnpH", "state", "established")
        # The engine is in this network too, and pulls through the tunnel.
        for pid in re.findall(r'"sshd[^"]*",pid=(\d+)', call(*words, check=False)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), 9)

    def docker(self, *words: str) -> str:
        return self.engine.docker(*words)


@dataclass
class Fleet:
    """Nodes and a source engine."""

    key: str
    folder: Path
    data: Path
    network: Network
    source: Engine
    nodes: list[Node]

    @property
    def ssh_config(self) -> Path:
        return self.folder / "ssh_config"

    def sent(self) -> int:
        return sum(self.network.sent(n.number) for n in self.nodes)

    def introduce(self, *nodes: Node) -> None:
        """Let ssh in sessions on these nodes reach every node, as this machine does."""
        for node in nodes:
            path = node.bin / "ssh"
            path.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {self.ssh_config} "$@"\n')
            path.chmod(0o755)

    def trust(self) -> None:
        """Write the client's config and the host keys that it knows."""
        known, lines = [], []
        for node in self.nodes:
            public = (node.folder / "host_key.pub").read_text().split()
            known.append(f"{node.address} {public[0]} {public[1]}\n")
            lines.append(
                f"Host {node.name}\n  HostName {node.address}\n  User root\n  IdentitiesOnly yes\n"
                f"  IdentityFile {self.folder}/id\n  UserKnownHostsFile {self.folder}/known_hosts\n"
                "  GlobalKnownHostsFile /dev/null\n"
            )
        (self.folder / "known_hosts").write_text("".join(known))
        self.ssh_config.write_text("".join(lines))


def missing() -> str:
    """What this machine lacks for a fleet, or nothing."""
    if os.geteuid() != 0:
        return "a fleet needs root"
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    lacking = [n for n in NEEDED if shutil.which(n, path=path) is None]
    if not programs().is_dir():
        return "no engine of our own (scripts/engine start)"
    return f"missing: {', '.join(lacking)}" if lacking else ""


def programs() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(os.environ.get("IMGBUILD_ENGINE_HOME", f"{cache}/imgbuild-engine")) / "prefix"


@contextlib.contextmanager
def fleet(stores: Sequence[str], *, source: str = "classic", data: Path) -> Iterator[Fleet]:
    """A fleet with one node for each store named; its data lies below `data`."""
    sweep()
    key = _free_key()
    made = _plan(key, stores, source, data)
    try:
        _start(made)
        yield made
    finally:
        _stop(made)


def sweep() -> None:
    """Remove what killed runs left."""
    for folder in RUN.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid, place = (folder / "owner").read_text().split("\n")[:2]
            if alive(int(pid)):
                continue
            clear([folder, Path(place)])
            Network(folder.name.removeprefix(PREFIX)).remove()


def _free_key() -> str:
    for _ in range(100):
        key = os.urandom(2).hex()
        if not (RUN / f"{PREFIX}{key}").exists():
            return key
    raise RuntimeError("no free key for a fleet")


def _plan(key: str, stores: Sequence[str], source: str, data: Path) -> Fleet:
    folder, place = RUN / f"{PREFIX}{key}", data / f"fleet-{key}"
    network, prefix = Network(key), programs()

    def engine(name: str, store: str, space: str = "") -> Engine:
        return Engine(name, folder / name / "run", place / name, prefix, store, space,
                      network.host)  # fmt: skip

    nodes = [
        Node(f"node{i}", i, network.address(i), folder / f"node{i}", network.space(i),
             engine(f"node{i}", store, network.space(i)))
        for i, store in enumerate(stores, 1)
    ]  # fmt: skip
    return Fleet(key, folder, place, network, engine("source", source), nodes)


def _start(made: Fleet) -> None:
    made.folder.mkdir()
    (made.folder / "owner").write_text(f"{os.getpid()}\n{made.data}\n")
    made.data.mkdir(parents=True, exist_ok=True)
    Path("/run/sshd").mkdir(exist_ok=True)  # Debian's sshd wants it
    made.network.make()
    call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", made.folder / "id")
    shutil.copy(made.folder / "id.pub", made.folder / "authorized_keys")
    engines = [made.source, *(n.engine for n in made.nodes)]
    for node in made.nodes:
        node.folder.mkdir(exist_ok=True)
        made.network.add(node.number)
    for engine in engines:
        engine.launch()
    for node in made.nodes:
        node.new_host_key()
        node.start_sshd()
    made.trust()
    with ThreadPoolExecutor(len(engines)) as pool:
        list(pool.map(Engine.wait, engines))
    for node in made.nodes:
        until(lambda n=node: _answers(made, n), f"{node.name}: sshd: {node.folder}/sshd.log", 20)


def _answers(made: Fleet, node: Node) -> bool:
    argv = ["ssh", "-F", str(made.ssh_config), "-o", "BatchMode=yes", node.name, "true"]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


def _stop(made: Fleet) -> None:
    for node in made.nodes:
        node.cut()
        node.stop_sshd()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(Engine.stop, [made.source, *(n.engine for n in made.nodes)]))
    clear([made.folder, made.data])
    made.network.remove()
