"""A place where a cache lies, on a node or here: look at it, read it, put another one there."""

from __future__ import annotations

import contextlib
import secrets
import shlex
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from builder.errors import DistributionError
from builder.model.caches import CacheFacts, Manifest, Unit
from builder.model.nodes import Node
from builder.node_ports import NodeLine, Shell
from builder.steps.distribution import cache_answers, caches
from builder.steps.distribution import cache_scripts as scripts
from builder.tools.ssh_words import NodeFailed

_ASK_S, _READ_S = 60.0, 1800.0
_HOLD_S = 300.0  # also for what a killed run left to be removed
_LINE, _COMPLAINT = 100, 10_000  # bytes that are read of what a node may go on writing


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a cache lies, or will: `<root>/<key>/` there."""

    shell: Shell
    root: str
    key: str

    @property
    def folder(self) -> str:
        return f"{self.root}/{self.key}"


def placed(spot: Spot, unit: Unit, copy: Callable[[str], int], line: NodeLine) -> int:
    """Copy beside the place, compare, rename into it; the bytes that went."""
    names, name = caches.tops(unit.manifest), spot.shell.node.name
    line.expect(unit.size)
    with _held(spot) as token:
        incoming = f"{spot.folder}/.incoming-{token}"
        line.say("copying")
        sent = copy(incoming)
        line.say("comparing")
        found = listed(spot.shell, incoming, names, name)
        caches.check_whole(name, unit.manifest, found, "nothing was put in place; run it again")
        words = (spot.folder, token, *names, scripts.KEY_FILE)
        spot.shell.script(scripts.SWAP, *words, timeout_s=_READ_S, lives_on=True)
    return sent


@contextlib.contextmanager
def _held(spot: Spot) -> Iterator[str]:
    """The token of a new folder to copy into, which is ours alone until the block is left."""
    token, name = secrets.token_hex(4), spot.shell.node.name
    command = shlex.join(["sh", "-c", scripts.HOLD, "sh", spot.root, spot.key, token])
    with spot.shell.stream(command, lives_on=True) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stderr is not None
        with _limited(running.kill):
            answer = running.stdout.readline(_LINE).strip()
            is_answer = answer in (b"held", b"busy")
            said = b"" if is_answer else running.stderr.read(_COMPLAINT)
        if answer == b"busy":
            raise caches.CacheBusy(
                f"{name}: another run is copying to {spot.folder}", hint="wait until it has ended"
            )
        if answer != b"held":
            complaint = said.decode("utf-8", "replace").strip()
            raise NodeFailed(
                f"{name}: {spot.folder} cannot be written: {(complaint or 'no answer')[-300:]}",
                hint="it must belong to the user of the login: sudo chown -R", detail=complaint,
            )  # fmt: skip
        try:
            yield token
        finally:  # at the end of its stdin it removes what is left, and lets go
            with contextlib.suppress(Exception):
                running.stdin.close()
                running.wait(30)


@contextlib.contextmanager
def _limited(kill: Callable[[], None]) -> Iterator[None]:
    """What is read in the block comes in time, or its program is killed and it ends."""
    timer = threading.Timer(_HOLD_S, kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def looked(spot: Spot, names: Sequence[str], node: Node | None = None) -> CacheFacts:
    """What the machine says of itself; a node must also be fit. Raises: DistributionError."""
    name = spot.shell.node.name
    words = (spot.root, spot.key, *names)
    answer = spot.shell.script(scripts.LOOK, *words, timeout_s=_ASK_S)
    found = cache_answers.facts(name, answer, names)
    if node is not None and (reason := caches.unfit(node, found, spot.root)):
        raise DistributionError.of([reason])
    return found


def listed(shell: Shell, folder: str, names: Sequence[str], name: str) -> Manifest:
    """All that is there now. Raises: CacheChanging, CacheUnsafe, ProbeGarbled, NodeFailed,
    ConnectionLost."""
    try:
        answer = shell.script(scripts.LIST, folder, *names, timeout_s=_READ_S)
    except NodeFailed as error:
        if "Permission denied" in error.findings[0].detail:
            raise NodeFailed(
                str(error), detail=error.findings[0].detail,
                hint="all of the cache must be readable for the user of the login",
            ) from error  # fmt: skip
        raise caches.changing(name, str(error).removeprefix(f"{name}: ")) from error
    return cache_answers.manifest(name, answer, names)
