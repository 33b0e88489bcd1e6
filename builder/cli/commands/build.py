"""imgbuild build"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path

import click

from builder.cli import nodes_wiring, progress, verdicts, wiring
from builder.cli.options import (
    PLATFORM,
    emit,
    json_option,
    junit_option,
    lane_argument,
    lane_named,
)
from builder.errors import Finding, ImgbuildError
from builder.model.values import Record, Verdict
from builder.pipeline.build import Options, build
from builder.pipeline.lock import lock
from builder.ports import Progress
from builder.steps.nodes import Known


@click.command()
@lane_argument
@click.option("--lock", "relock", is_flag=True, help="Resolve first, and write the lock.")
@click.option("--no-cache", is_flag=True, help="Run every step of the Dockerfile again.")
@click.option("--force", is_flag=True, help="Build although the image is there.")
@click.option("--platform", metavar="linux/ARCH", type=PLATFORM, help="Default: the engine's own.")
@click.option("--push", "group", metavar="NODES",
              help="Then push it; its layers move while the gates run.")  # fmt: skip
@junit_option
@json_option
@click.pass_obj
def command(
    folder: Path,
    lane: str,
    relock: bool,
    no_cache: bool,
    force: bool,
    platform: str | None,
    group: str | None,
    junit: Path | None,
    as_json: bool,
) -> int:
    """Build LANE from its lock: fetch, verify, patch, preflight, stage, build, gates, label.

    Says so and stops early when the image of these inputs is there. A failed run leaves its
    record and log (imgbuild history); the same command goes on from what is done.
    """
    with lane_named(), told(junit, f"build of {lane}") as judged:
        project = wiring.project(folder)
        shown = progress.progress()
        tools = wiring.sources(project)
        if relock:
            lock(
                lane, update=None, host=wiring.host_platform(),
                progress=shown, registry=wiring.registry(), **tools,
            )  # fmt: skip
        known = nodes_wiring.known(folder)
        run = partial(
            build, lane, Options(platform, no_cache, force, known.hooks), cache=wiring.cache(),
            contexts=wiring.contexts(), engine=wiring.engine(), records=wiring.records(),
            progress=shown, judged=judged.extend, **tools,
        )  # fmt: skip
        if group is not None:
            return _and_push(lane, known, group, run, shown, as_json=as_json)
        record = run()
    if as_json:
        emit(asdict(record))
    return 0


def _and_push(
    lane: str, known: Known, group: str, run: Callable[..., Record], shown: Progress, *,
    as_json: bool,
) -> int:  # fmt: skip
    from builder.cli import board, pushes
    from builder.pipeline.push_ahead import build_and_push

    record, receipt = build_and_push(
        lane,
        nodes_wiring.choose(known, group),
        nodes_wiring.options(known),
        build=lambda final: run(final=final),
        progress=shown,
        board=board.board(),
        **nodes_wiring.tools(),
    )
    if as_json:
        emit({**asdict(record), "push": pushes.report(receipt)})
    else:
        pushes.show(receipt)
    return pushes.code(receipt)


@contextmanager
def told(junit: Path | None, suite: str) -> Iterator[list[Verdict]]:
    """The list that verdicts are put into; at the end they are written, with what was found."""
    heard: list[Verdict] = []
    findings: tuple[Finding, ...] = ()
    try:
        yield heard
    except ImgbuildError as error:
        findings = tuple(f for f in error.findings if f.level == "error")
        raise
    finally:
        if junit is not None:
            failed = any(not verdict.passed for verdict in heard)
            data = verdicts.junit(suite, heard, () if failed else findings)
            verdicts.write_junit(junit, data)
