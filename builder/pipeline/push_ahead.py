"""`imgbuild build --push`: layers move while the gates run, tags only after they passed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Self

from builder.errors import ImgbuildError
from builder.model.distribution import Outcome, Receipt, SourceImage
from builder.model.nodes import Hooks, Node
from builder.model.values import Record
from builder.node_ports import Board, Connections, Layers, OpenNodes, Receipts, Source
from builder.pipeline.push import push
from builder.pipeline.push_bring import Options, bring
from builder.pipeline.push_nodes import Ends
from builder.ports import Progress
from builder.steps.distribution.bare import BareLayers, bare
from builder.steps.distribution.said import megabytes


def build_and_push(
    lane: str,
    nodes: Sequence[Node],
    options: Options,
    *,
    build: Callable[[Callable[[str], None]], Record],
    source: Source,
    connections: Connections,
    receipts: Receipts,
    progress: Progress,
    board: Board,
) -> tuple[Record, Receipt]:
    """Build; from when the layers are final they go to the nodes, and the image when it has its
    names. `build` is given what to call with the candidate's id.

    When the build fails then, nothing has a name on a node; layers that arrived stay for the
    next push, and a note says so. Raises: what `build` and `push` raise.
    """
    with Ahead(lane, nodes, options, source, connections) as ahead:
        try:
            record = build(ahead.start)
        except BaseException:
            ahead.stop()
            if sent := ahead.sent():
                progress.note(
                    f"no tag was moved; layers went to {_said(sent)}: the next push finds them, "
                    "imgbuild nodes prune removes them"
                )
            raise
        if ahead.is_started:
            with progress.stage("move") as line:
                line.done(f"from the gates on: {_said(ahead.sent()) or 'nothing'}")
        sent = ahead.sent()
    receipt = push(
        record.image, nodes, options, source=source, connections=connections, receipts=receipts,
        progress=progress, board=board, ahead=sent,
    )  # fmt: skip
    return record, receipt


class Ahead:
    """Brings a candidate's layers to nodes, in the background and under no name of its own.

    A node that fails here is no failure yet: the push asks it again.
    """

    def __init__(
        self,
        lane: str,
        nodes: Sequence[Node],
        options: Options,
        source: Source,
        connections: Connections,
    ) -> None:
        self._lane = lane
        self._nodes, self._source, self._connections = nodes, source, connections
        self._options = replace(options, hooks=Hooks(), registry=None)
        # What comes before a push, or before a node's, is not overtaken.
        self._waits = bool(options.hooks.before_push or options.hooks.before_node)
        self._pool = ThreadPoolExecutor(1)
        self._moving: Future[tuple[Outcome, ...]] | None = None
        self._opened: OpenNodes | None = None
        self._stopped = threading.Event()

    @property
    def is_started(self) -> bool:
        return self._moving is not None

    def start(self, image: str) -> None:
        if not self._waits:
            self._moving = self._pool.submit(self._move, image)

    def stop(self) -> None:
        """End it at once; what is on its way does not arrive."""
        self._stopped.set()
        if self._opened is not None:
            self._opened.cut()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._pool.shutdown()

    def sent(self) -> Mapping[str, int]:
        """Wait for its end: the bytes that went to each node."""
        outcomes = self._moving.result() if self._moving else ()
        return {one.node: one.sent for one in outcomes if one.sent}

    def _move(self, name: str) -> tuple[Outcome, ...]:
        found = self._source.find(name)
        if found is None:
            return ()
        ends = Ends(bare(found, self._lane), (), lambda _: _Quiet(), Hooks(), {}, is_ahead=True)
        with (
            ThreadPoolExecutor(max(4, 2 * len(self._nodes))) as pool,
            self._connections.open(self._nodes) as opened,
        ):
            self._opened = opened
            if self._stopped.is_set():
                return ()
            reading = pool.submit(self._layers, found)
            with suppress(ImgbuildError, OSError):
                bring(self._nodes, reading, self._options, ends, opened, pool)
        return ends.outcomes(self._nodes)

    def _layers(self, image: SourceImage) -> Layers:
        return BareLayers.of(self._source.layers(image))


class _Quiet:
    """A line that nobody sees: the gates' line is on the screen."""

    def say(self, text: str) -> None: ...
    def expect(self, total: int) -> None: ...
    def moved(self, count: int) -> None: ...
    def done(self, text: str, *, is_good: bool) -> None: ...


def _said(sent: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {megabytes(count)}" for name, count in sorted(sent.items()))
