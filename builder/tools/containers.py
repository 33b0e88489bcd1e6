"""Short-lived containers of an image: run a script in one, read files out of one.

Each has a name of its own before it is made, so that it can be removed whatever happens.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from subprocess import Popen
from typing import IO, Literal

from builder.model.values import ImageFile, ScriptResult
from builder.tools import docker_cli, process

_LABEL = "io.imgbuild.temporary"  # host:pid of who made it
_PIDS = "4096"
_XATTR = "SCHILY.xattr."
_NOT_THERE = (
    "Could not find the file", "no such file or directory", "not a directory",
    "too many links", "too many levels of symbolic links",
)  # fmt: skip
"""Also of a path through a link to itself: it leads nowhere."""

Kind = Literal["file", "folder", "link", "hardlink", "other"]


def run_script(image: str, script: str, *, timeout_s: float, most: int) -> ScriptResult:
    """See engine_ports.Engine.run_script. Raises: ToolFailed, when the image cannot be started or
    has no sh."""
    with _named() as name:
        words = (
            "run", "--rm", "--interactive", "--pull", "never", *_identity(name), "--read-only",
            "--network", "none", "--log-driver", "none", "--tmpfs", "/tmp:exec",  # noqa: S108
            "--security-opt", "no-new-privileges", "--pids-limit", _PIDS,
            "--entrypoint", "sh", image, "-s",
        )  # fmt: skip
        with docker_cli.started(words) as running:
            try:
                out, err, ended = process.listened(
                    running, script.encode(), timeout_s=timeout_s, most=most
                )
                if not ended:
                    running.wait()
            finally:
                # docker itself waits for a shell that is process 1 and ignores its SIGTERM, and
                # the engine, before it removes a container, for those who listen to it.
                process.kill(running)
        if ended:
            return ScriptResult(-1, out, err, ended)
        complaint = err.decode("utf-8", "replace")
        if running.returncode == 125 or complaint.startswith("docker: Error response"):
            raise docker_cli.failed(f"no script can be run in {image}", complaint)
    return ScriptResult(running.returncode, out, err)


@contextlib.contextmanager
def read_tree(
    image: str, roots: Sequence[str], *, deep: bool = True
) -> Iterator[Iterator[tuple[ImageFile, IO[bytes] | None]]]:
    """See engine_ports.Engine.read_tree."""
    with _named() as name:
        # A command is needed for an image without one; nothing is ever started.
        docker_cli.run(
            "create", "--pull", "never", *_identity(name), "--network", "none", image, "-"
        )
        with contextlib.ExitStack() as streams:
            yield _entries(name, roots, streams, deep=deep)


def sweep() -> None:
    """Remove the containers that killed runs of this machine left behind."""
    shown = docker_cli.run(
        "ps", "--all", "--no-trunc", "--filter", f"label={_LABEL}",
        "--format", '{{.ID}} {{.Label "' + _LABEL + '"}}',
    ).text  # fmt: skip
    for line in shown.splitlines():
        container, _, owner = line.partition(" ")
        host, _, pid = owner.rpartition(":")
        if host == socket.gethostname() and not _is_alive(pid):
            _remove(container)


def _entries(
    container: str, roots: Sequence[str], streams: contextlib.ExitStack, *, deep: bool
) -> Iterator[tuple[ImageFile, IO[bytes] | None]]:
    for root in roots:
        follow = ("--follow-link",) if deep else ()
        words = ("cp", *follow, f"{container}:/{root}", "-")
        running = streams.enter_context(docker_cli.started(words))
        assert running.stdout is not None
        try:
            with tarfile.open(fileobj=running.stdout, mode="r|") as tar:
                for member in tar:
                    content = tar.extractfile(member) if member.isreg() else None
                    yield described(member, root), content
                    if not deep:
                        break
        except tarfile.ReadError:
            _check_copy(running, root, is_whole=False)
        else:
            if deep:
                _check_copy(running, root, is_whole=True)
        streams.close()


def _check_copy(running: Popen[bytes], root: str, *, is_whole: bool) -> None:
    _, err = running.communicate()
    complaint = err.decode("utf-8", "replace")
    if (running.returncode or not is_whole) and not _is_absent(complaint):
        raise docker_cli.failed(f"/{root} cannot be read out of the image", complaint)


def described(member: tarfile.TarInfo, root: str) -> ImageFile:
    """An entry of a tar whose names begin at a root, "" for the image's own."""
    kind: Kind = "other"
    if member.isreg():
        kind = "file"
    elif member.isdir():
        kind = "folder"
    elif member.issym():
        kind = "link"
    elif member.islnk():
        kind = "hardlink"
    target = _below(member.linkname, root) if kind == "hardlink" else member.linkname
    return ImageFile(
        _below(member.name, root), kind, member.mode & 0o7777, member.size, target,
        (member.uid, member.gid), _xattrs(member.pax_headers),
    )  # fmt: skip


def _xattrs(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    pairs = ((key.removeprefix(_XATTR), value) for key, value in headers.items() if _XATTR in key)
    return tuple(sorted(pairs))


def _below(name: str, root: str) -> str:
    """The path in the image: docker names entries below the root's own last name."""
    rest = name.strip("/").partition("/")[2] if root else name.removeprefix("./").strip("/")
    return "/".join(part for part in (root, rest) if part)


def _is_absent(complaint: str) -> bool:
    return any(sign in complaint for sign in _NOT_THERE)


@contextlib.contextmanager
def _named() -> Iterator[str]:
    name = f"imgbuild-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        yield name
    finally:
        _remove(name)


def _identity(name: str) -> tuple[str, ...]:
    return ("--name", name, "--label", f"{_LABEL}={socket.gethostname()}:{os.getpid()}")


def _remove(container: str) -> None:
    # --volumes: an image that declares volumes gets anonymous ones.
    docker_cli.run("rm", "--force", "--volumes", container, check=False)


def _is_alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True
