"""`imgbuild push`: the same image on every node, proved."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from builder.errors import ImgbuildError, UsageError
from builder.model.distribution import Outcome, Receipt, SourceImage
from builder.model.ids import is_image, is_name
from builder.model.label_names import BUILD_ID, GATES, LANE
from builder.model.nodes import Node
from builder.model.schema import quoted
from builder.node_ports import Board, Connections, Layers, Receipts, Source
from builder.pipeline.push_bring import Options, bring
from builder.pipeline.push_nodes import Ends
from builder.ports import Progress
from builder.steps.distribution import place as placing
from builder.steps.distribution import plan as planning
from builder.tools import hooks


def push(
    name: str | None,
    nodes: Sequence[Node],
    options: Options,
    *,
    source: Source,
    connections: Connections,
    receipts: Receipts,
    progress: Progress,
    board: Board,
    ahead: Mapping[str, int] | None = None,
) -> Receipt:
    """Bring an image to all nodes; what happened on each is in the receipt, which is kept.

    A node's failure is its outcome and stops no other. On a node that failed no tag was moved;
    layers that arrived stay for the next push. `ahead` says how many bytes went to a node before.
    Raises: Ungated, UsageError, EngineMissing.
    """
    if options.registry is not None:
        placing.parsed(options.registry)
    moved = partial(
        _push, name, nodes, options, source=source, connections=connections, receipts=receipts,
        progress=progress, board=board, ahead=ahead or {},
    )  # fmt: skip
    if options.dry_run or not (options.hooks.before_push or options.hooks.after_push):
        return moved(None)
    image = _chosen(name, options, source)

    def after(result: str) -> None:
        told = hooks.told(_about(image), result)
        hooks.run_all(options.hooks.after_push, "after-push", told)

    with hooks.righted(after):
        hooks.run_all(options.hooks.before_push, "before-push", _about(image))  # may wake nodes
        receipt = moved(image)
    try:
        after("failed" if receipt.is_failed else "ok")
    except ImgbuildError as error:  # no reason to hide how it went on the nodes
        receipt = replace(receipt, findings=error.findings)
        receipts.write(receipt)
    return receipt


def _push(
    name: str | None,
    nodes: Sequence[Node],
    options: Options,
    image: SourceImage | None,
    *,
    source: Source,
    connections: Connections,
    receipts: Receipts,
    progress: Progress,
    board: Board,
    ahead: Mapping[str, int],
) -> Receipt:
    """Without the hooks of this host; `image` where it was chosen before."""
    began, started = time.monotonic(), datetime.now(UTC)
    with ExitStack() as held:
        pool = held.enter_context(ThreadPoolExecutor(max(4, 2 * len(nodes))))
        opened = held.enter_context(connections.open(nodes))  # while it connects:
        image = image or _chosen(name, options, source)
        tags = planning.tags_to_move(image)
        progress.title(_title(image, nodes))
        place = placing.place(options.registry, image) if options.registry else None
        reading = pool.submit(source.layers, image)
        names = [*(node.name for node in nodes), *([place.host] if place else ())]
        lines = held.enter_context(board.lines(names))
        ends = Ends(image, tags, lines, options.hooks, _about(image))
        layers, shelf = bring(nodes, reading, options, ends, opened, pool, place)
    receipt = _receipt(image, tags, layers, ends.outcomes(nodes), started, began, options)
    receipt = replace(receipt, ahead=ahead)
    if place is not None and shelf is not None:
        receipt = replace(receipt, via=f"{place.host}/{shelf.path}", uploaded=shelf.uploaded)
    if not options.dry_run:
        receipts.write(receipt)
    return receipt


def find(name: str | None, *, source: Source) -> SourceImage:
    """The newest image of a lane, an image by its reference, or the newest of all."""
    if name is not None and not (is_name(name) or is_image(name)):
        raise UsageError(
            f"{quoted(name)} is the name neither of a lane nor of an image",
            hint="such as: imgbuild push LANE; or an image by its name or id, in lower case as "
            "docker images lists it",
        )
    found = source.newest(LANE, name)
    if found is None and name is not None and is_image(name):
        found = source.find(name)
    if found is None:
        raise UsageError(
            f"this host's engine has no image of a lane {name!r} and none by that name"
            if name else "this host's engine has no image that imgbuild built",
            hint="build it: imgbuild build LANE; docker images lists what there is",
        )  # fmt: skip
    return found


def _chosen(name: str | None, options: Options, source: Source) -> SourceImage:
    image = find(name, source=source)
    planning.check_gates(image, force=options.force)
    return image


def _about(image: SourceImage) -> Mapping[str, str]:
    labels, tags = image.labels, planning.tags_to_move(image)
    return hooks.variables(
        labels.get(LANE, ""), labels.get(BUILD_ID, ""), tags[0] if tags else image.id
    )


def _receipt(
    image: SourceImage,
    tags: Sequence[str],
    layers: Layers,
    outcomes: tuple[Outcome, ...],
    started: datetime,
    began: float,
    options: Options,
) -> Receipt:
    return Receipt(
        id=f"{started:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}",
        started=started.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - began, 3),
        lane=image.labels.get(LANE, ""),
        build_id=image.labels.get(BUILD_ID, ""),
        image=image.id,
        config=layers.config_digest(),
        layers=image.layers,
        tags=tuple(tags),
        gates=image.labels.get(GATES, ""),
        forced=options.force and not planning.passed_gates(image),
        nodes=outcomes,
    )


def _title(image: SourceImage, nodes: Sequence[Node]) -> str:
    name = image.labels.get(LANE) or (image.tags[0] if image.tags else image.id[7:19])
    build = image.labels.get(BUILD_ID, "")
    about = f"build {build[:12]}" if build else f"image {image.id[7:19]}"
    return f"{name} · {about} · {len(nodes)} node{'s' if len(nodes) != 1 else ''}"
