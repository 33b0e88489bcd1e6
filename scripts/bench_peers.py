"""Other ways to bring an image to nodes, as people use them, for bench_push.py.

Each takes the fleet as it is and leaves the image there under its tag. Registries are Debian's
docker-registry; one is started outside of what is measured, and keeps what it was given until
`forget`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from tests.fleet.fleet import Fleet, Node
from tests.fleet.machine import call, spawn, until

TAG = "fleet:local"
SKOPEO = os.environ.get("SKOPEO", "skopeo")
_PORT = 5555
_CONFIG = """\
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""
_running: dict[str, subprocess.Popen[bytes]] = {}


def save_load(made: Fleet) -> None:
    """docker save | ssh docker load, to all nodes at once."""
    _each(made, lambda n: _shell(f"docker save {TAG} | {_ssh(made, n)} docker load -q", made))


def skopeo(made: Fleet) -> None:
    """skopeo from engine to engine, each node's socket forwarded by ssh.

    Debian 12's is too old for today's engines; SKOPEO names the command of another one, such as
    `chroot FOLDER skopeo` with a Debian 13 that sees /root, /run and /tmp.
    """

    def one(node: Node) -> None:
        socket = made.folder / f"skopeo-{node.name}.sock"
        there = node.engine.socket.removeprefix("unix://")
        with _tunnel(made, node, f"-L{socket}:{there}", socket.exists):
            _shell(
                f"{SKOPEO} copy -q --src-daemon-host {made.source.socket} --dest-daemon-host "
                f"unix://{socket} docker-daemon:{TAG} docker-daemon:{TAG}", made,
            )  # fmt: skip
        socket.unlink(missing_ok=True)

    _each(made, one)


def registry(made: Fleet) -> None:
    """One registry on the host: docker push, and docker pull on all nodes through ssh -R."""
    ref = f"127.0.0.1:{_PORT}/{TAG}"
    _shell(f"docker tag {TAG} {ref} && docker push -q {ref}", made)

    def one(node: Node) -> None:
        with _tunnel(made, node, f"-R{_PORT}:127.0.0.1:{_PORT}", lambda: _heard(node)):
            _pulled(made, node, ref)

    _each(made, one)


def pussh(made: Fleet) -> None:
    """A registry on each node: docker push to it through ssh -L, and docker pull there."""

    def one(node: Node) -> None:
        port = _PORT + node.number
        ref = f"127.0.0.1:{port}/{TAG}"
        with _tunnel(made, node, f"-L{port}:127.0.0.1:{_PORT}", lambda: _heard(None, port)):
            _shell(f"docker tag {TAG} {ref} && docker push -q {ref}", made)
        _pulled(made, node, f"127.0.0.1:{_PORT}/{TAG}")

    _each(made, one)


def ready(made: Fleet, way: str) -> None:
    """Start the registries that a way needs, empty."""
    forget(made)
    if way == "registry":
        _serve(made, "host", None)
    if way == "pussh":
        for node in made.nodes:
            _serve(made, node.name, node)


def forget(made: Fleet) -> None:
    """End the registries, and remove what they hold."""
    for name, process in list(_running.items()):
        process.terminate()
        process.wait(10)
        del _running[name]
    shutil.rmtree(made.data / "registries", ignore_errors=True)


def _serve(made: Fleet, name: str, node: Node | None) -> None:
    folder = made.data / "registries" / name
    folder.mkdir(parents=True)
    config = folder.with_suffix(".yml")
    config.write_text(_CONFIG.format(folder=folder, port=_PORT))
    inside = ("nsenter", f"--net=/run/netns/{node.space}") if node else ()
    argv = (*inside, "docker-registry", "serve", config)
    _running[name] = spawn(argv, folder.with_suffix(".log"), made.source.env)
    until(lambda: _heard(node), f"{name}: docker-registry: {folder.with_suffix('.log')}", 20)


def _heard(node: Node | None, port: int = _PORT) -> bool:
    """Whether something listens on the loopback of a node (of this host: None)."""
    inside = ("-N", node.space) if node else ()
    return f":{port} " in call("ss", *inside, "-tlnH", check=False)


def _pulled(made: Fleet, node: Node, ref: str) -> None:
    words = f"docker pull -q {ref} && docker tag {ref} {TAG} && docker rmi {ref}"
    _shell(f"{_ssh(made, node)} '{words}'", made)


@contextmanager
def _tunnel(made: Fleet, node: Node, forward: str, is_up: Callable[[], bool]) -> Iterator[None]:
    argv = ["ssh", "-F", str(made.ssh_config), "-N", "-oExitOnForwardFailure=yes", forward,
            node.name]  # fmt: skip
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL) as ssh:
        try:
            limit = time.monotonic() + 20
            while not is_up():
                assert ssh.poll() is None, f"no tunnel to {node.name}"
                assert time.monotonic() < limit, f"no tunnel to {node.name} in 20 s"
                time.sleep(0.02)
            yield
        finally:
            ssh.terminate()


def _each(made: Fleet, one: Callable[[Node], None]) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, made.nodes))


def _ssh(made: Fleet, node: Node) -> str:
    return f"ssh -F {made.ssh_config} {node.name}"


def _shell(words: str, made: Fleet) -> None:
    done = subprocess.run(["bash", "-o", "pipefail", "-c", words], env=made.source.env,
                          capture_output=True, text=True, check=False)  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{words}: {done.stderr[-800:]}")


def lacking(way: str) -> str:
    """The Debian package that a way needs and that is not here, or nothing."""
    needed = {
        "skopeo": SKOPEO.split()[0],
        "registry": "docker-registry",
        "pussh": "docker-registry",
    }
    program = needed.get(way)
    return program if program and shutil.which(program) is None else ""
