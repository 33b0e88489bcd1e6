"""The image folder's Dockerfile, stage by stage, before BuildKit sees it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from builder.errors import Finding, GateError, ImgbuildError, LaneError, Place
from builder.model.lane import Lane
from builder.steps import image
from builder.steps.dockerfile import Dockerfile, parse
from builder.steps.gates import Gate
from builder.steps.gates.package import Package
from builder.steps.gates.pkg_config import PkgConfig
from builder.steps.preflight import silent
from builder.steps.preflight.arch import VARIABLE, architectures
from builder.steps.preflight.compiles import compiles
from builder.steps.preflight.installs import Installed, installed
from builder.steps.preflight.references import needed, references
from builder.steps.preflight.remote import remotes
from builder.steps.preflight.report import Preflight
from builder.steps.preflight.shadowed import shadowed
from builder.steps.preflight.stages import network, secrets
from builder.steps.preflight.values import Valued, valued

_NAMED = ("wheels", "debs")
_OF_MODULE = {"libusb-1.0": "libusb-1.0-0-dev", "zlib": "zlib1g-dev", "openssl": "libssl-dev"}


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
) -> None:
    """Check a Dockerfile for a lane.

    `args` are the build's arguments; `cuda` the sources that hold device code; `bases` the
    packages of images, by reference, as far as they are known.
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
    report.check(LaneError, *references(read, stages, references_of, _NAMED, used, file))
    report.check(LaneError, *shadowed(read, _NAMED, file))
    report.check(LaneError, *secrets(read, file))
    aware = _aware(read)
    for stage in stages:
        is_used = stage.stage.index in used
        report.check(LaneError, *remotes(stage, file, needed=is_used))
        if is_used:
            found = tuple(compiles(stage, cuda))
            wanted = lane.build.cuda_arch_list
            report.check(LaneError, *architectures(stage, found, wanted, file, aware=aware))
            report.check(LaneError, *network(stage, found, file))
            report.check(LaneError, *silent.caches(found, file))
            report.check(LaneError, *silent.masked(stage, file))
    last = {stage.stage.index: stage for stage in stages}
    has = installed(stages[-1], read, last, bases)
    for gate, place in gates:
        if not (isinstance(gate, PkgConfig) and gate.module.encode() in data):
            report.check(GateError, *_package(gate, place, has, file, stages[-1]))


def device_code(paths: Mapping[str, Collection[str]], lane: Lane) -> frozenset[str]:
    """The sources that hold device code: paths of each patched tree, by source."""
    return frozenset(
        name
        for name, held in paths.items()
        if name in lane.sources and any(path.endswith((".cu", ".cuh")) for path in held)
    )


def _package(
    gate: Gate, place: Place, has: Installed, file: Path, last: Valued
) -> Iterator[Finding]:
    if isinstance(gate, Package):
        wanted = gate.name
    elif isinstance(gate, PkgConfig):
        wanted = _OF_MODULE.get(gate.module, f"{gate.module}-dev")
        if not gate.module.startswith("lib") and gate.module not in _OF_MODULE:
            return  # which package has it is not known
    else:
        return
    if not has.may_have(wanted):
        yield Finding(
            "package-not-installed",
            f"the gate {gate.kind} {gate.about} asks for {wanted}, which nothing installs in the "
            f"last stage ({last.stage.title}, from line {last.stage.line} of {file.name})",
            f"apt-get install {wanted} in the last stage, or copy it from a stage that installs "
            "it; what runs in another stage is not in the image",
            place=place,
        )


def _aware(read: Dockerfile) -> bool:
    """Whether anything in the Dockerfile speaks of the list: it is one that compiles for GPUs."""
    names = {name.upper() for name in read.args}
    names |= {name.upper() for stage in read.stages for name in (*stage.args, *stage.env)}
    return VARIABLE in names
