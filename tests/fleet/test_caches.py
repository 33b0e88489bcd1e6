"""`imgbuild nodes cache`: from a warm node to others, whole or not at all."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomlkit

from builder.model.lane import Lane
from builder.model.lock import Lock
from builder.model.schema import Reader
from builder.steps import identity
from tests.fleet.conftest import KB, Host
from tests.fleet.fleet import DISK, Fleet, Node
from tests.fleet.machine import call, until
from tests.fleet.test_failures import wait_for
from tests.unit.locks import lane_table, lock_table

pytestmark = pytest.mark.fleet
ROOT = "jit caches; $(touch pwned)"
NAMES = ("b12x", "inductor", "triton", "tilelang")


@dataclasses.dataclass
class Caches:
    """A project with a lane that declares caches, and what its nodes hold of them."""

    host: Host
    key: str = ""

    def lane(self, **changes: object) -> None:
        """Write the lane (with another environment, say) and its lock."""
        folder = self.host.folder / "locks"
        folder.mkdir(exist_ok=True)
        lane, lock = lane_table() | changes, lock_table()
        lane |= {"caches": {"root": f"{DISK}/{ROOT}", "folders": list(NAMES)}}
        lane |= {"gates": [], "imported": [], "base": {"runtime": lane["base"]["runtime"]}}
        lock["base"].pop("tools")
        (folder / "demo.toml").write_text(tomlkit.dumps(lane))
        (folder / "demo.lock").write_text(tomlkit.dumps(lock))
        read = Reader(Path("x"), "x")
        both = read.read(Lane, lane), read.read(Lock, lock)
        assert both[0] is not None and both[1] is not None, read.findings  # noqa: PT018
        self.key = identity.cache_fingerprint(both[0], both[1])[:12]

    def folder(self, node: Node) -> Path:
        return node.disk / ROOT / self.key

    def warm(self, node: Node, size: int = 300 * KB) -> dict[str, bytes]:
        """Kernels, in three of the four declared folders and in one that is not declared."""
        folder = self.folder(node)
        for name, text in {
            "triton/a b/kernel.cubin": b"\x7fELF" * (size // 4), "triton/a b/meta.json": b"{}",
            "b12x/ärger.so": b"x" * 5000, "inductor/fx/graph.py": b"y = 1\n", "cuda/other": b"z",
        }.items():  # fmt: skip
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(text)
        (folder / "b12x/ärger.so").chmod(0o755)
        (folder / "inductor/empty").mkdir(exist_ok=True)
        (folder / "inductor/fx/link").unlink(missing_ok=True)
        (folder / "inductor/fx/link").symlink_to("../empty")
        return self.seen(node)

    def seen(self, node: Node) -> dict[str, bytes]:
        """The declared folders: each path with its mode, time and content."""
        folder, found = self.folder(node), {}
        for path in sorted(p for name in NAMES for p in (folder / name).rglob("*")):
            data = b"" if path.is_dir() else path.read_bytes()
            what = path.lstat()
            time_ns = 0 if path.is_dir() else what.st_mtime_ns
            found[str(path.relative_to(folder))] = f"{what.st_mode:o} {time_ns}".encode() + data
        return found

    def leftovers(self, node: Node) -> list[str]:
        folder = self.folder(node)
        return sorted(p.name for pattern in (".incoming-*", ".former-*")
                      for p in folder.glob(pattern))  # fmt: skip

    def stand_in(self, node: Node, name: str, text: str) -> None:
        path = node.bin / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)


@pytest.fixture(scope="module")
def _disks(_fleet: Fleet) -> Iterator[None]:
    """Each node has its own disk; all else the nodes of a fleet share."""
    for own_disk in (True, False):
        for node in _fleet.nodes:
            node.stop_sshd()
            node.start_sshd(own_disk=own_disk)
        for node in _fleet.nodes:
            wait_for(node)
        if own_disk:
            yield


@pytest.fixture
def caches(_disks: None, host: Host) -> Caches:
    made = Caches(host)
    made.lane()
    for node in host.nodes:
        for path in node.disk.iterdir():
            shutil.rmtree(path)
    return made


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("IMGBUILD_CACHE", str(tmp_path / "cache"))


PUSH = ("nodes", "cache", "push", "demo", "--json", "--nodes")


def test_from_a_warm_node_to_the_others(caches: Caches, host: Host) -> None:
    first, *others = host.nodes
    wanted = caches.warm(first)
    caches.warm(others[0])
    (caches.folder(others[0]) / "triton/old").write_text("of a former copy")
    shutil.rmtree(caches.folder(others[0]) / "b12x")
    done = host.run(*PUSH, "all", "--from", "node1")
    assert done.code == 0, done.err
    assert done.states == dict.fromkeys(("node2", "node3", "node4"), "copied")
    for node in others:
        assert caches.seen(node) == wanted
        assert not caches.leftovers(node)
        assert (caches.folder(node) / "imgbuild-cache.json").exists()
    assert (caches.folder(others[0]) / "cuda/other").exists()  # is not declared
    sent = {one["node"]: one["sent"] for one in done.report["nodes"]}
    assert sent["node2"] < 20 * KB < 300 * KB < sent["node3"]  # what it had did not go again
    again = host.run(*PUSH, "all", "--from", "node1")
    assert set(again.states.values()) == {"present"}
    assert not list(host.fleet.folder.rglob("pwned")) + list(host.folder.rglob("pwned"))
    assert not (Path.home() / "pwned").exists()
    one = caches.folder(others[1]) / "triton/a b/kernel.cubin"  # same size and time, other bytes
    was = one.stat()
    one.write_bytes(b"\0" + one.read_bytes()[1:])
    os.utime(one, ns=(was.st_atime_ns, was.st_mtime_ns))
    mended = host.run(*PUSH, "all")  # from what this host has
    assert mended.states == {"node1": "present", "node2": "present", "node3": "copied",
                             "node4": "present"}  # fmt: skip
    assert caches.seen(others[1]) == wanted


def test_only_to_the_same_lock_architecture_and_gpu(caches: Caches, host: Host) -> None:
    caches.warm(host.nodes[0])
    gpu = 'echo "$GPU"'
    for node, cap in zip(host.nodes, ("12.1", "12.0", "12.1", "12.1"), strict=True):
        caches.stand_in(node, "nvidia-smi", gpu.replace("$GPU", cap))
    caches.stand_in(host.nodes[2], "uname", "echo aarch64")
    done = host.run(*PUSH, "all", "--from", "node1")
    assert done.code == 8
    assert done.codes == {"node2": "wrong-architecture", "node3": "wrong-architecture"}
    assert done.states["node4"] == "copied"
    assert "node2 is amd64, GPU 12.0, the cache amd64, GPU 12.1" in done.out
    assert not caches.folder(host.nodes[1]).exists()
    kept = host.folder / "kept here"
    assert (
        host.run("nodes", "cache", "pull", "demo", "--from", "node4", "--to", str(kept)).code == 0
    )
    caches.lane(env={"MODE": "slow"})
    other = host.run(*PUSH, "node4", "--from", str(kept))
    assert (other.code, other.report["findings"][0]["code"]) == (8, "cache-fingerprint")
    cold = host.run("nodes", "cache", "pull", "demo", "--from", "node4", "--json")
    assert (cold.code, cold.report["findings"][0]["code"]) == (8, "cache-cold")
    assert "it has caches of other locks: " in cold.out
    assert host.run(*PUSH, "node4").code == 2  # this host has none of this lock


def test_a_damaged_copy_is_not_put_in_place(caches: Caches, host: Host) -> None:
    node, warm = host.nodes[1], host.nodes[0]
    former = caches.warm(node)
    caches.warm(warm, 400 * KB)
    damage = f'for f in {DISK}/*/*/.incoming-*/triton/*/meta.json; do printf x >>"$f"; done'
    caches.stand_in(node, "rsync", f'/usr/bin/rsync "$@" || exit; {damage}')
    done = host.run(*PUSH, "node2,node3", "--from", "node1")
    assert done.code == 8
    assert done.codes == {"node2": "cache-damaged"}
    assert "triton/a b/meta.json" in done.out
    assert done.states["node3"] == "copied"
    assert caches.seen(node) == former
    assert not caches.leftovers(node)
    (kept,) = (host.folder / "cache/jit" / caches.key).glob("*/triton/a b/meta.json")
    kept.write_text("[]")  # and what this host keeps
    stale = host.run(*PUSH, "node4")
    assert (stale.code, stale.report["findings"][0]["code"]) == (8, "cache-damaged")
    assert not caches.folder(host.nodes[3]).exists()


def test_a_cache_that_is_written_meanwhile(caches: Caches, host: Host) -> None:
    node = host.nodes[0]
    caches.warm(node)
    grow = f'for f in {DISK}/*/*/inductor/fx/graph.py; do echo z >>"$f"; done'
    caches.stand_in(node, "rsync", f'/usr/bin/rsync "$@" || exit; {grow}')
    done = host.run(*PUSH, "all", "--from", "node1")
    assert (done.code, done.report["findings"][0]["code"]) == (8, "cache-changing")
    assert "inductor/fx/graph.py" in done.out
    assert not caches.folder(host.nodes[1]).exists()
    assert not list((host.folder / "cache").rglob("imgbuild-cache.json"))
    assert not list((host.folder / "cache").rglob(".incoming-*"))


@pytest.mark.parametrize("how", ["ssh", "rsync", "source"])
def test_cut_in_the_middle(caches: Caches, host: Host, how: str) -> None:
    """The node has its former cache, nothing half; the next push completes."""
    warm, node = host.nodes[0], host.nodes[1]
    wanted = caches.warm(warm, 4000 * KB)
    assert host.run("nodes", "cache", "pull", "demo", "--from", "node1").code == 0
    former = caches.warm(node, 100 * KB)
    slow(host)
    with host.start(*PUSH, "node2") as running:
        until(lambda: half(caches, node), "no transfer began")
        match how:
            case "ssh":
                node.cut()
            case "rsync":
                for pid in rsyncs(node):
                    os.kill(pid, signal.SIGKILL)
            case _:
                running.send_signal(signal.SIGKILL)
        running.communicate(timeout=60)
    until(lambda: not caches.leftovers(node), "the node keeps half a copy")
    assert caches.seen(node) == former
    fast(host)
    done = host.run(*PUSH, "node2")
    assert done.code == 0, done.err
    assert caches.seen(node) == wanted


def test_two_at_once_and_what_a_crash_leaves(caches: Caches, host: Host) -> None:
    warm, node = host.nodes[0], host.nodes[1]
    wanted = caches.warm(warm, 4000 * KB)
    assert host.run("nodes", "cache", "pull", "demo", "--from", "node1").code == 0
    folder = caches.folder(node)
    caches.warm(node)
    (folder / "triton").rename(folder / ".former-triton")  # as a crash between two renames
    (folder / ".incoming-0000/triton").mkdir(parents=True)
    slow(host)
    with host.start(*PUSH, "node2") as one:
        until(lambda: half(caches, node), "no transfer began")
        assert (folder / "triton/a b/kernel.cubin").exists()  # it is back before all else
        two = host.run(*PUSH, "node2")
        out, err = one.communicate(timeout=60)
    assert one.returncode == 0, out + err
    assert two.codes == {"node2": "cache-busy"}
    assert caches.seen(node) == wanted
    assert not caches.leftovers(node)


def test_a_full_disk(caches: Caches, host: Host) -> None:
    warm, node = host.nodes[0], host.nodes[1]
    caches.warm(warm, 12_000 * KB)
    root = node.disk / ROOT
    root.mkdir()
    inside = ("nsenter", f"--mount=/proc/{node.sshd.pid}/ns/mnt")  # type: ignore[union-attr]
    call(*inside, "mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", f"{DISK}/{ROOT}")
    try:
        done = host.run(*PUSH, "node2,node3", "--from", "node1")
        assert done.codes == {"node2": "no-space"}
        assert "GB free, about" in done.out
        caches.stand_in(node, "df", "echo x; echo /dev/x 9 9 99999999 1% /")
        done = host.run(*PUSH, "node2,node3")
        assert done.codes == {"node2": "no-space"}
        assert "in the middle" in done.out
        assert done.states["node3"] == "present"
        found = call(*inside, "find", f"{DISK}/{ROOT}", "-name", ".incoming-*")
        assert not found
    finally:
        call(*inside, "umount", f"{DISK}/{ROOT}")


def test_what_is_refused(caches: Caches, host: Host) -> None:
    warm, second, third, _ = host.nodes
    caches.warm(warm)
    outside = host.folder / "outside"
    outside.mkdir()
    caches.folder(second).parent.mkdir(parents=True)
    caches.folder(second).symlink_to(outside)
    only = host.folder / "only"  # all but rsync
    only.mkdir()
    for name in ("sh", "flock", "sha256sum", "stat", "uname", "sort", "ls", "df", "sed"):
        (only / name).symlink_to(shutil.which(name) or name)
    caches.stand_in(third, "sh", f'PATH={only} exec /bin/sh "$@"')
    done = host.run(*PUSH, "all", "--from", "node1")
    assert done.codes == {"node2": "cache-unsafe", "node3": "node-tools"}
    assert "node3 lacks rsync" in done.out
    assert "apt-get install rsync" in done.out
    assert done.states["node4"] == "copied"
    assert not list(outside.iterdir())
    link = caches.folder(warm) / "triton/out"
    link.symlink_to("/etc/passwd")
    refused = host.run(*PUSH, "node4", "--from", "node1")
    assert (refused.code, refused.report["findings"][0]["code"]) == (8, "cache-unsafe")
    assert "triton/out leads out" in refused.out


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (r"s/^-- folders$/&\n--rsync-path=x\n..\ncuda/", None),  # more than was asked for
        (r"s,^x86_64$,../../../taken,", "probe-garbled"),
        (r"s/^-- gpu$/-- x/", "probe-garbled"),
        (r"s/^81a4 \([0-9]*\) /81a4 \19999999999999999999 /", "probe-garbled"),
        (r"s,^-- links$,81a4 1 ../../taken\n&,", "cache-unsafe"),
        (r"s,^-- links$,81a4 1 cuda/other\n&,", "cache-unsafe"),
        (r"s,^-- links$,81a4 1 --rsh=touch taken\n&,", "cache-unsafe"),
        (r"s/^81ed /89ed /", "cache-unsafe"),
    ],
)
def test_a_node_that_lies(caches: Caches, host: Host, change: str, code: str | None) -> None:
    """What it says is judged before anything is copied; it ends on that node alone."""
    liar, honest = host.nodes[:2]
    caches.warm(liar)
    caches.warm(honest, 100 * KB)
    once = '[ -z "$LIED" ] || exec /bin/sh "$@"; export LIED=1'  # not what its own sh starts
    caches.stand_in(liar, "sh", f"{once}\n/bin/sh \"$@\" | sed -u '{change}'")
    store = host.folder / "cache/jit"
    pulled = host.run("nodes", "cache", "pull", "demo", "--from", "node1", "--json")
    kept = {path.relative_to(store).parts[2] for path in store.glob("*/*/[!.]*")}
    if code is None:
        assert (pulled.code, kept) == (0, {"b12x", "inductor", "triton", "imgbuild-cache.json"})
    else:
        assert (pulled.code, pulled.report["findings"][0]["code"]) == (8, code), pulled.err
        assert "node1" in pulled.report["findings"][0]["what"]
        assert kept == set()
    assert not list(host.folder.rglob("*taken*"))
    done = host.run(*PUSH, "node1,node3", "--from", "node2")
    assert done.states["node3"] == "copied"
    assert done.codes == ({"node1": code} if code else {}), done.err


def test_a_node_whose_rsync_lies(caches: Caches, host: Host) -> None:
    """It sends a link that leads out in place of a folder, after an honest list."""
    liar = host.nodes[0]
    caches.warm(liar)
    at = f"{DISK}/*/*"
    caches.stand_in(liar, "rsync", f'for f in {at}; do mv "$f/triton" "$f/.kept"; '
                    'ln -s /etc "$f/triton"; done; /usr/bin/rsync "$@"; code=$?; '
                    f'for f in {at}; do rm "$f/triton"; mv "$f/.kept" "$f/triton"; done; '
                    "exit $code")  # fmt: skip
    done = host.run("nodes", "cache", "pull", "demo", "--from", "node1", "--json")
    assert (done.code, done.report["findings"][0]["code"]) == (8, "cache-unsafe"), done.err
    assert "leads out: /etc" in done.out
    assert not list((host.folder / "cache").rglob("*triton*"))


def half(caches: Caches, node: Node) -> bool:
    """Whether a part of the large file has arrived."""
    found = list(caches.folder(node).glob(".incoming-*/triton/*/.kernel*"))
    return any(path.stat().st_size > 50 * KB for path in found if path.exists())


def rsyncs(node: Node) -> list[int]:
    """The node's own: they see its disk."""
    assert node.sshd is not None
    space = Path(f"/proc/{node.sshd.pid}/ns/mnt").readlink()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "comm").read_text() == "rsync\n" and (entry / "ns/mnt").readlink() == space:
                found.append(int(entry.name))
    assert found
    return found


def slow(host: Host) -> None:
    nodes = host.folder / "nodes.toml"
    nodes.write_text(nodes.read_text() + '[defaults]\nlimit-rate = "8 Mbit"\n')


def fast(host: Host) -> None:
    nodes = host.folder / "nodes.toml"
    nodes.write_text(nodes.read_text().partition("[defaults]")[0])
