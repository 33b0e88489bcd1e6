"""The image folder's Dockerfile, stage by stage, before BuildKit sees it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from pathlib import Path

from builder.errors import GateError, ImgbuildError, LaneError, Place
from builder.model.lane import Lane
from builder.model.lock import Lock
from builder.steps import image
from builder.steps.dockerfile import Dockerfile, parse
from builder.steps.gates import Gate
from builder.steps.preflight import silent
from builder.steps.preflight.arch import VARIABLE, architectures
from builder.steps.preflight.compiles import compiles
from builder.steps.preflight.contexts import NAMED, Contexts, missing
from builder.steps.preflight.contradictions import contradictions
from builder.steps.preflight.credentials import secrets
from builder.steps.preflight.deb_depends import Control, unmet
from builder.steps.preflight.installs import installed
from builder.steps.preflight.log_stages import log_stages
from builder.steps.preflight.network import network
from builder.steps.preflight.onbuild import onbuild
from builder.steps.preflight.packaging import Plain, packs_only
from builder.steps.preflight.references import needed, references
from builder.steps.preflight.remote import remotes
from builder.steps.preflight.report import Preflight
from builder.steps.preflight.shadowed import shadowed
from builder.steps.preflight.values import valued
from builder.steps.preflight.wanted import not_installed


def dockerfile(
    report: Preflight,
    lane: Lane,
    gates: Sequence[tuple[Gate, Place]],
    data: bytes,
    file: Path,
    *,
    args: Mapping[str, str],
    cuda: Collection[str],
    bases: Mapping[str, Collection[str]],
    platform: str = "",
    plain: Plain = lambda *_: False,
    lock: Lock | None = None,
    contexts: Contexts = Contexts(),  # noqa: B008
    control: Control = lambda _: None,
) -> None:
    """Check a Dockerfile for a lane.

    `args` are the build's arguments; `cuda` the sources that hold device code, `plain` knows
    which folders of them a Python build only packs; `bases` the packages of images, by
    reference, as far as they are known; `control` what a locked deb says of itself.
    """
    try:
        image.dockerfile(data, Place(file), lane.env)  # it takes what is added to it
        read = parse(data, file)
    except ImgbuildError as error:
        report.check(LaneError, *error.findings)
        return
    stages = valued(read, args, platform)
    used = needed(stages, read)
    references_of = {n: v for n, v in args.items() if n.startswith("BASE_")}
    report.check(LaneError, *references(read, stages, references_of, NAMED, used, file))
    report.check(LaneError, *shadowed(read, NAMED, file))
    report.check(LaneError, *secrets(read, file))
    report.check(LaneError, *onbuild(read.stages[-1], file))
    aware = _aware(read)
    by_index = {stage.stage.index: stage for stage in stages}
    for stage in stages:
        is_used = stage.stage.index in used
        report.check(LaneError, *remotes(stage, file, needed=is_used))
        if is_used:
            found = tuple(compiles(stage, cuda, plain))
            wanted = lane.build.cuda_arch_list
            report.check(LaneError, *architectures(stage, found, wanted, file, aware=aware))
            report.check(LaneError, *network(stage, found, file))
            report.check(LaneError, *silent.caches(found, file))
            report.check(LaneError, *silent.masked(stage, file))
            report.check(LaneError, *missing(stage, read, contexts, file))
            has = installed(stage, read, by_index, bases, contexts)
            report.check(LaneError, *unmet(stage, has, contexts, control, lane, file))
    last = stages[-1]
    has = installed(last, read, by_index, bases, contexts)
    in_it = [stage for stage in stages if stage.stage.index in used]
    report.check(GateError, *not_installed(gates, has, in_it, last, lane, file))
    report.check(LaneError, *contradictions(gates, lane, lock, last))
    for gate, place in gates:
        report.check(GateError, *log_stages(gate, place, read, used, file))


def device_code(
    trees: Mapping[str, tuple[Collection[str], Callable[[str], bytes | None]]], lane: Lane
) -> tuple[frozenset[str], Plain]:
    """The sources that hold device code, and which of their folders a Python build only packs.

    `trees` are the paths of each patched tree, and what reads a file of it.
    """
    cuda = frozenset(
        name
        for name, (held, _) in trees.items()
        if name in lane.sources and any(path.endswith((".cu", ".cuh")) for path in held)
    )

    @cache
    def plain(name: str, folder: str) -> bool:
        return name in cuda and packs_only(folder, *trees[name])

    return cuda, plain


def _aware(read: Dockerfile) -> bool:
    """Whether anything in the Dockerfile speaks of the list: it is one that compiles for GPUs."""
    names = {name.upper() for name in read.args}
    names |= {name.upper() for stage in read.stages for name in (*stage.args, *stage.env)}
    return VARIABLE in names
