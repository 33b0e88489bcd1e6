"""What to type next, where several findings say the same."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import replace

from builder.errors import Finding, PatchError

_OF_PATCHES = re.compile(r"imgbuild patch (?:check|refresh) \S+ ([^\s,;:)]+)")


def restoring(lane: str) -> str:
    """For a lock that imgbuild did not write so: what it pinned is nowhere else."""
    return (
        f"bring back the one that imgbuild wrote: git checkout -- locks/{lane}.lock "
        "(locking without it would move every source that follows a branch)"
    )


def unless_edited(lane: str) -> str:
    """Before a cure that moves a pin: the same is seen where a hand changed the lock."""
    file = f"locks/{lane}.lock"
    return f"if git diff {file} shows an edit: git checkout -- {file}; otherwise "


def settling(source: str) -> str:
    """For a patch that nothing but a person can carry over."""
    return (
        f"settle it in a folder: imgbuild patch refresh LANE {source} --into settle-{source}; or "
        f"in the patch itself, then: imgbuild patch check LANE {source}"
    )


def at_tip(found: Finding, moving: Container[str]) -> Finding:
    """With --update in commands for patches of sources that are looked at, at their tips."""
    return replace(found, hint=_OF_PATCHES.sub(
        lambda m: f"{m[0]} --update" if m[1] in moving else m[0], found.hint
    ))  # fmt: skip


@contextmanager
def at_tips(moving: Container[str]) -> Iterator[None]:
    """Failures of patches within speak of the tips."""
    try:
        yield
    except PatchError as error:
        error.findings = tuple(at_tip(found, moving) for found in error.findings)
        raise
