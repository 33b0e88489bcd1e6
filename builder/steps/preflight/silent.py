"""What goes wrong without a word: a build folder of another source, a failure behind `export`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from builder.errors import Finding, Place
from builder.steps.preflight.compiles import Compile
from builder.steps.preflight.shell import exported
from builder.steps.preflight.values import Valued

_KEYED = re.compile(r"\$\{?[A-Z0-9_]+_(?:NATIVE|COMMIT|VERSION|TREE)\b|\$\{?BUILD_ID\b")
_BY_CONTENT = re.compile(r"(?:^|/)[a-z.]*cache")  # ccache, pip, uv, apt: their entries have keys
_PATH = re.compile(r"/[^\s=:,;\"']+")
_NEVER_FAIL = frozenset(
    ("arch", "basename", "date", "dirname", "echo", "hostname", "id", "nproc", "printf", "pwd",
     "uname", "whoami")
)  # fmt: skip


def caches(found: Sequence[Compile], file: Path) -> Iterator[Finding]:
    """Cache mounts in which one source is built over what another one left there."""
    for each in found:
        for mount in each.run.mounts:
            target, named = mount.get("target", ""), mount.get("id", "")
            is_cache = mount.get("type") == "cache" and not _BY_CONTENT.search(target)
            if is_cache and not _KEYED.search(named) and _works_in(each, target.rstrip("/")):
                key = f"{each.source or '<source>'}_native".upper().replace("-", "_")
                yield Finding(
                    "cache-shared",
                    f"{each.tool} builds in the cache mount {target}, whose id "
                    f"{named or target} is the same for every source tree",
                    f"id={named or 'build'}-${{{key}}}, with ARG {key} in the stage: it moves when "
                    "what the compiler sees does",
                    place=Place(file, each.run.line), level="warning",
                )  # fmt: skip


def masked(stage: Valued, file: Path) -> Iterator[Finding]:
    """`export X=$(…)`: its code is that of export, so that a failure is an empty X."""
    for run in stage.stage.named("RUN"):
        for name, program in exported(run):
            if program not in _NEVER_FAIL:
                yield Finding(
                    "failure-masked",
                    f"export {name}=$({program} …) goes on with an empty {name} when it fails",
                    f"{name}=$({program} …) && export {name}",
                    place=Place(file, run.line), level="warning",
                )  # fmt: skip


def _works_in(each: Compile, target: str) -> bool:
    paths = [path for word in each.command.words[1:] for path in _PATH.findall(word)]
    return any(p == target or p.startswith(f"{target}/") for p in (*paths, each.command.folder))
