"""A node that takes no more bytes is given up, one that is slow is not; no other waits for it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from subprocess import Popen
from typing import Any

import pytest

from builder.model.nodes import Node
from builder.tools import process
from builder.tools.delivery import Limit, deliver
from builder.tools.receiver import Parcel, Receiver, Stalled, patience

MB = 1 << 20


class Link:
    """A node whose engine is a command here."""

    def __init__(self, name: str, command: str) -> None:
        self.node, self._command = Node(name, name), command

    @contextlib.contextmanager
    def stream(self, command: str) -> Iterator[Popen[bytes]]:
        with process.started(["sh", "-c", self._command], env=process.environment()) as running:
            yield running

    def closed(self) -> bool:
        return False


class Line:
    def say(self, text: str) -> None: ...
    def expect(self, total: int) -> None: ...
    def moved(self, count: int) -> None: ...
    def done(self, text: str, *, is_good: bool) -> None: ...


def delivered(stall_s: float, size: int, **commands: str) -> dict[str, Receiver]:
    """One parcel of so many bytes to all nodes."""
    found = {}
    for name, command in commands.items():
        link: Any = Link(name, command)
        found[name] = Receiver(link, [name], lambda _: "", [Line()], stall_s=stall_s)
    pieces = [(None, bytes(MB))] * (size // MB)
    wanted = {name: frozenset[str]() for name in found}
    parcel = Parcel("layers", lambda: iter(pieces), lambda: b"tail", wanted)
    deliver([parcel], list(found.values()), compress=False, limit=Limit(None))
    return found


@pytest.mark.parametrize("size", [4 * MB, 40 * MB])  # less and more than what is queued
def test_a_node_that_takes_nothing_is_given_up_alone(size: int) -> None:
    began = time.monotonic()
    found = delivered(1.0, size, hangs="exec sleep 60", takes="cat >/dev/null")
    assert time.monotonic() - began < 10
    error = found["hangs"].error
    assert isinstance(error, Stalled)
    assert str(error) == "hangs: takes no more bytes for 1 s: given up"
    assert "its disk" in error.findings[0].hint
    assert (found["takes"].error, found["takes"].sent) == (None, size + 4)


def test_a_load_that_does_not_end() -> None:
    found = delivered(1.0, MB, hangs="cat >/dev/null; exec sleep 60", takes="cat >/dev/null")
    assert isinstance(found["hangs"].error, Stalled)
    assert "docker load does not end" in str(found["hangs"].error)
    assert found["takes"].error is None


def test_a_slow_node_lives() -> None:
    """It takes a little now and then, for longer in all than a node may take nothing."""
    slow = "for i in 1 2 3 4 5 6 7 8; do sleep 0.4; head -c 131072 >/dev/null; done; cat >/dev/null"
    began = time.monotonic()
    found = delivered(1.5, MB, slow=slow)
    assert time.monotonic() - began > 3
    assert (found["slow"].error, found["slow"].sent) == (None, MB + 4)


def test_how_long_a_load_may_unpack() -> None:
    assert patience(180, 0) == 180
    assert patience(180, 20_000_000_000) > 3600  # a whole image on a slow disk


def test_what_is_said_at_the_end_is_not_the_watchers() -> None:
    found = delivered(9.0, MB, fails="cat >/dev/null; echo >&2; echo disk quota exceeded; exit 1")
    error = found["fails"].error
    assert error is not None
    assert error.findings[0].code == "no-space"
