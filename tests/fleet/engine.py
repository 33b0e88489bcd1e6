"""One dockerd with a data root of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.fleet.machine import call, clear, end, naming, spawn, until


@dataclass
class Engine:
    """A dockerd; `run` holds what must have short names, `home` its data.

    A node's runs in the node's network (`space`): a tunnel ends on the loopback that it sees.
    """

    name: str
    run: Path
    home: Path
    prefix: Path  # of the programs
    store: str = "classic"
    space: str = ""
    plain: str = ""  # an address where registries need no TLS
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def socket(self) -> str:
        return f"unix://{self.run}/docker.sock"

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def env(self) -> dict[str, str]:
        return {
            "PATH": f"{self.prefix}/usr/bin:{self.prefix}/usr/sbin:{os.environ['PATH']}",
            "HOME": os.environ.get("HOME", "/root"),
            "DOCKER_HOST": self.socket,
            "DOCKER_CONFIG": str(self.home / "config"),
        }

    def launch(self) -> None:
        """Start it; `wait` waits until it answers."""
        for folder in (self.run, self.home / "config"):
            folder.mkdir(parents=True, exist_ok=True)
        is_containerd = self.store == "containerd"
        config = {
            "hosts": [self.socket],
            "data-root": str(self.data),
            "exec-root": f"{self.run}/exec",
            "pidfile": f"{self.run}/dockerd.pid",
            "storage-driver": "overlayfs" if is_containerd else "overlay2",
            "features": {"containerd-snapshotter": is_containerd},
            "init-path": f"{self.prefix}/usr/bin/docker-init",
            "iptables": False,
            "ip6tables": False,
            "userland-proxy": False,
            # Beside other daemons of one network, "none" would delete their docker0.
            **({"bridge": "none"} if self.space else {}),
            "shutdown-timeout": 1,
            "insecure-registries": [f"{self.plain}/32"],
        }
        (self.home / "daemon.json").write_text(json.dumps(config))
        inside = ("nsenter", f"--net=/run/netns/{self.space}") if self.space else ()
        argv = (*inside, self.prefix / "usr/sbin/dockerd", "--config-file",
                self.home / "daemon.json")  # fmt: skip
        self.process = spawn(argv, self.home / "dockerd.log", self.env)

    def wait(self) -> None:
        until(self.answers, f"{self.name}: dockerd does not answer: {self.home}/dockerd.log")

    def answers(self) -> bool:
        return call(self.prefix / "usr/bin/docker", "version", "-f", "{{.Server.Version}}",
                    check=False, env=self.env).strip() != ""  # fmt: skip

    def kill(self) -> None:
        """As a crash would: dockerd and its containerd at once."""
        for pid in naming(f"{self.home}/") + naming(f"{self.run}/"):
            end(pid, signal.SIGKILL, 5)
        if self.process is not None:
            self.process.wait(5)
        (self.run / "dockerd.pid").unlink(missing_ok=True)

    def docker(self, *words: str, check: bool = True) -> str:
        return call(self.prefix / "usr/bin/docker", *words, check=check, env=self.env).strip()

    def ids(self) -> dict[str, str]:
        """Each tag and the id that it names."""
        lines = self.docker("image", "ls", "--no-trunc", "--format",
                            "{{.Repository}}:{{.Tag}} {{.ID}}").splitlines()  # fmt: skip
        return dict(line.split() for line in lines)

    def empty(self) -> None:
        """Remove every image and container."""
        for what in ("container", "image"):
            found = self.docker(what, "ls", "-aq").split()
            if found:
                self.docker(what, "rm", "-f", *found, check=False)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            limit = time.monotonic() + 10
            while self.process.poll() is None and time.monotonic() < limit:
                time.sleep(0.05)
        clear([self.run, self.home])
