"""Send one stream to many nodes at once: each byte is read (and compressed) once for all.

A parcel is what one `docker load` reads: its body at once, its tail only when the load before
it was committed, so that two are under way and none lacks its parent.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from builder.errors import DistributionError, ImgbuildError
from builder.tools import process
from builder.tools.receiver import Parcel, Receiver, Tail


@dataclass
class Limit:
    """At most so many bytes a second, over all nodes; None: no limit."""

    rate: float | None
    _next: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, count: int) -> None:
        if not self.rate:
            return
        with self._lock:
            now = time.monotonic()
            self._next = max(self._next, now - 0.1) + count / self.rate
            wait = self._next - now
        if wait > 0:
            time.sleep(wait)


def deliver(
    parcels: Iterable[Parcel], receivers: Sequence[Receiver], *, compress: bool, limit: Limit
) -> None:
    """Send the parcels to all that want them; a receiver that fails does not stop the others."""
    try:
        for parcel in parcels:
            if all(r.error for r in receivers):
                break
            _send(parcel, receivers, compress=compress, limit=limit)
        for receiver in receivers:
            receiver.finish()
    except BaseException as error:
        cause = (
            error if isinstance(error, ImgbuildError) else DistributionError(f"stopped: {error}")
        )
        for receiver in receivers:
            receiver.stop(cause)
        if not isinstance(error, ImgbuildError):
            raise


def _send(parcel: Parcel, receivers: Sequence[Receiver], *, compress: bool, limit: Limit) -> None:
    groups: dict[frozenset[str], list[Receiver]] = {}
    for receiver in receivers:
        wanted = parcel.wanted.get(receiver.name)  # empty: its tail alone
        if receiver.error is None and wanted is not None:
            groups.setdefault(wanted, []).append(receiver)
            receiver.put(parcel)
    with contextlib.ExitStack() as stack:
        pipes = {
            wanted: stack.enter_context(_pipe(group, limit, compress=compress))
            for wanted, group in groups.items()
        }
        for layer, data in parcel.pieces():
            for wanted, write in pipes.items():
                if layer is None or layer in wanted:
                    write(data)
    end = parcel.tail()
    tail = Tail(_packed(end) if compress else end)
    for group in groups.values():
        for receiver in group:
            receiver.put(tail)


@contextlib.contextmanager
def _pipe(
    group: Sequence[Receiver], limit: Limit, *, compress: bool
) -> Iterator[Callable[[bytes], None]]:
    def give(data: bytes) -> None:
        limit.take(len(data) * sum(r.error is None for r in group))
        for receiver in group:
            receiver.put(data)

    if not compress:
        yield give
        return
    with process.started(["zstd", "-1", "-T2", "-q", "-c"], env=process.environment()) as packer:
        stdin, stdout = packer.stdin, packer.stdout
        assert stdin is not None
        assert stdout is not None

        def drain() -> None:
            with contextlib.suppress(OSError, ValueError):  # closed: the push was ended
                while data := stdout.read1(1 << 18):  # type: ignore[attr-defined]
                    give(data)

        reader = threading.Thread(target=drain, daemon=True)
        reader.start()
        yield lambda data: _write_all(stdin, data)
        stdin.close()
        packer.stdin = None
        reader.join()


def _write_all(stdin: object, data: bytes) -> None:
    stdin.write(data)  # type: ignore[attr-defined]


def _packed(data: bytes) -> bytes:
    """A frame of its own: what is withheld must not lie in a compressor."""
    return process.run(["zstd", "-1", "-q", "-c"], env=process.environment(), timeout_s=30,
                       stdin=data).stdout  # fmt: skip
