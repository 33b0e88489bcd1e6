"""A bridge and one network namespace a node, in 198.18.0.0/15 (for benchmarks, never routed)."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass

from tests.fleet.machine import call


@dataclass(frozen=True)
class Network:
    """Interfaces and namespaces of one fleet, all named by `key`."""

    key: str  # 4 hex digits

    @property
    def bridge(self) -> str:
        return f"ibf{self.key}"

    @property
    def subnet(self) -> str:
        number = int(self.key, 16)
        return f"198.{18 + (number >> 8) % 2}.{number & 255}"

    def space(self, number: int) -> str:
        return f"ibf{self.key}-{number}"

    def address(self, number: int) -> str:
        return f"{self.subnet}.{10 + number}"

    @property
    def host(self) -> str:
        """This machine, where registries need no TLS; `.2` is this machine too, with TLS."""
        return f"{self.subnet}.1"

    def link(self, number: int) -> str:
        return f"ibf{self.key}v{number}"

    def make(self) -> None:
        call("ip", "link", "add", self.bridge, "type", "bridge")
        for last in (1, 2):
            call("ip", "addr", "add", f"{self.subnet}.{last}/24", "dev", self.bridge)
        call("ip", "link", "set", self.bridge, "up")
        if shutil.which("iptables"):  # br_netfilter with FORWARD DROP blocks node to node
            call(*self._forward("-I"), check=False)

    def add(self, number: int) -> None:
        space, link = self.space(number), self.link(number)
        call("ip", "netns", "add", space)
        call("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
        call("ip", "link", "set", link, "master", self.bridge, "up")
        inside = ("ip", "-n", space)
        call(*inside, "addr", "add", f"{self.address(number)}/24", "dev", "eth0")
        call(*inside, "link", "set", "eth0", "up")
        call(*inside, "link", "set", "lo", "up")

    def shape(self, mbit: int | None, nodes: range) -> None:
        """Limit what the host sends to all nodes together, and what each node sends."""
        for number in nodes:
            for words in (["dev", self.link(number)], None):
                place = words or ["dev", "eth0"]
                tc = ["tc"] if words else ["tc", "-n", self.space(number)]
                call(*tc, "qdisc", "del", *place, "root", check=False)
                if mbit is not None:
                    call(*tc, "qdisc", "add", *place, "root", "tbf", "rate", f"{mbit}mbit",
                         "burst", "256kb", "latency", "50ms")  # fmt: skip

    def uplink(self, mbit: int | None) -> None:
        """Limit what the host sends to all nodes together."""
        call("tc", "qdisc", "del", "dev", self.bridge, "root", check=False)
        if mbit is not None:
            call("tc", "qdisc", "add", "dev", self.bridge, "root", "tbf", "rate", f"{mbit}mbit",
                 "burst", "256kb", "latency", "50ms")  # fmt: skip

    def up(self, number: int, *, is_up: bool) -> None:
        call("ip", "link", "set", self.link(number), "up" if is_up else "down")

    def sent(self, number: int) -> int:
        """Bytes that went to the node, counted by its link."""
        return int(_statistic(self.link(number), "tx_bytes"))

    def host_sent(self) -> int:
        return int(_statistic(self.bridge, "tx_bytes"))

    def remove(self) -> None:
        for line in call("ip", "netns", "list", check=False).splitlines():
            if line.split()[0].startswith(f"ibf{self.key}-"):
                call("ip", "netns", "del", line.split()[0], check=False)
        call("ip", "link", "del", self.bridge, check=False)
        if shutil.which("iptables"):
            call(*self._forward("-D"), check=False)

    def _forward(self, how: str) -> tuple[str, ...]:
        return ("iptables", "-w", how, "FORWARD", "-i", self.bridge, "-o", self.bridge,
                "-j", "ACCEPT")  # fmt: skip


def _statistic(link: str, name: str) -> str:
    path = f"/sys/class/net/{link}/statistics/{name}"
    return subprocess.run(["cat", path], capture_output=True, text=True, check=True).stdout
