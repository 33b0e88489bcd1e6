"""Counts as people read them."""

from __future__ import annotations


def plural(count: int, word: str) -> str:
    """A count and its word: `1 patch`, `3 patches`."""
    if count == 1:
        return f"1 {word}"
    return f"{count} {word}es" if word.endswith("ch") else f"{count} {word}s"
