"""What to type next, where several findings say the same."""

from __future__ import annotations


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
