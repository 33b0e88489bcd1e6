"""What the debs that a stage gives dpkg depend on, and that is not among them.

dpkg fetches nothing. What the base has satisfies them too, where that is known; where it is not,
only a dependency on one version exactly is told: such packages come from one source, together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from builder.errors import Finding, Place
from builder.model.lane import Lane
from builder.steps.preflight.contexts import Contexts, lie_at, matching
from builder.steps.preflight.installs import Installed, by_dpkg
from builder.steps.preflight.shell import commands, known
from builder.steps.preflight.values import Valued

Control: TypeAlias = Callable[[str], Mapping[str, str] | None]
"""The fields of a locked deb's control file, by file name; None: it is not on this machine."""

_ALTERNATIVE = re.compile(
    r"\s*([a-z0-9][a-z0-9+.-]+)(?::\w+)?\s*(?:\(\s*([<>=]+)\s*([^)\s]+)\s*\))?"
)


@dataclass(frozen=True, slots=True)
class _Wish:
    text: str  # "liburing2 (= 2.3-3)"
    names: tuple[str, ...]
    version: str = ""  # exactly, of the only name


def unmet(
    stage: Valued, has: Installed, contexts: Contexts, control: Control, lane: Lane, file: Path
) -> Iterator[Finding]:
    """One finding for each locked deb that a stage installs without what it depends on."""
    given = _given(stage, contexts)
    fields = {name: control(name) for name in given}
    if not given or None in fields.values():
        return
    known_fields = {name: held for name, held in fields.items() if held is not None}
    there = {held.get("Package", ""): held.get("Version", "") for held in known_fields.values()}
    for held in known_fields.values():
        there.update(dict.fromkeys(_names(held.get("Provides", "")), ""))
    for name, held in sorted(known_fields.items()):
        wishes = [*_wishes(held.get("Pre-Depends", "")), *_wishes(held.get("Depends", ""))]
        lacking = [w for w in wishes if _lacks(w, there, has)]
        sure = [w for w in lacking if w.version and not has.over_unknown]
        if told := [w for w in lacking if w.version or not has.over_unknown]:
            yield _finding(name, given[name], told, lane, file, sure=bool(sure))


def _given(stage: Valued, contexts: Contexts) -> Mapping[str, int]:
    """The locked files that dpkg is given in a stage and those it is built from; the lines."""
    found: dict[str, int] = {}
    for each in stage.chain:
        for at in each.steps:
            if at.instruction.name != "RUN":
                continue
            for command in commands(at.instruction, folder=at.folder):
                for path in by_dpkg(command):
                    text = known(path, {**at.values, **command.env})
                    held = matching(text or "", lie_at(each, at), contexts)
                    names = held[1] if held else {}
                    found.update(dict.fromkeys(names, at.instruction.line))
    return found


def _wishes(text: str) -> Iterator[_Wish]:
    for clause in filter(str.strip, text.split(",")):
        found = [m for one in clause.split("|") if (m := _ALTERNATIVE.match(one))]
        if found:
            exact = found[0][3] if len(found) == 1 and found[0][2] == "=" else ""
            yield _Wish(" ".join(clause.split()), tuple(m[1] for m in found), exact)


def _names(text: str) -> Collection[str]:
    return [m[1] for one in filter(str.strip, text.split(",")) if (m := _ALTERNATIVE.match(one))]


def _lacks(wish: _Wish, there: Mapping[str, str], has: Installed) -> bool:
    if wish.version and there.get(wish.names[0]):
        return there[wish.names[0]] != wish.version
    return not any(name in there or has.may_have(name) for name in wish.names)


def _finding(
    name: str, line: int, lacking: list[_Wish], lane: Lane, file: Path, *, sure: bool
) -> Finding:
    package = name.partition("_")[0]
    key = next((k for k, deb in lane.debs.items() if deb.package == package), None)
    what = ", ".join(wish.text for wish in lacking)
    tables = " ".join(f'[debs.{w.names[0]}] package = "{w.names[0]}"' for w in lacking[:3])
    return Finding(
        "deb-depends",
        f"{package} depends on {what}, and dpkg in line {line} of {file.name} is not given it",
        f"lock it too: {tables} in the lane, then imgbuild lock {lane.name}; of one source take "
        "all at one version",
        place=Place(lane.path, key=("debs", key)) if key else Place(file, line),
        level="error" if sure else "warning",
    )
