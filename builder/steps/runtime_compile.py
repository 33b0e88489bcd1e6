"""Gates that follow from `[[sources.NAME.runtime-compile]]`.

A source that calls a compiler when it starts needs in the image what its build needed elsewhere,
and often leaves a feature out without a word when something is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from builder.errors import Finding, Place
from builder.model.lane import Lane, RuntimeCompile
from builder.model.schema import KeyPath
from builder.steps.gates import Gate, parse


def of_runtime_compile(
    lane: Lane, path: Path
) -> tuple[tuple[Gate, ...], tuple[Place, ...], tuple[Finding, ...]]:
    """The gates, where each comes from, and what is wrong with the tables."""
    found: list[Gate] = []
    places: list[Place] = []
    findings: list[Finding] = []
    for name, source in sorted(lane.sources.items()):
        for i, wanted in enumerate(source.runtime_compile):
            at: KeyPath = ("sources", name, "runtime-compile", i)
            made, wrong = parse(list(_tables(wanted)), file=path, at=at)
            findings += wrong
            found += made
            places += [Place(path, key=at)] * len(made)
            if not made and not wrong:
                what = f"{name}: runtime-compile names nothing"
                findings.append(Finding("lane-invalid", what, _KEYS, place=Place(path, key=at)))
    return tuple(found), tuple(places), tuple(findings)


_KEYS = "packages, pkg-config, libraries or headers"


def _tables(wanted: RuntimeCompile) -> Iterator[dict[str, object]]:
    for name in wanted.packages:
        yield {"kind": "package", "name": name}
    for module in wanted.pkg_config:
        yield {"kind": "pkg-config", "module": module}
    if wanted.libraries:
        yield {"kind": "link", "libraries": wanted.libraries}
    if wanted.headers:
        yield {"kind": "headers", "headers": wanted.headers}
