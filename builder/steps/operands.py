"""The words of a command that are neither its options nor the values of these."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator


def operands(words: Iterable[str], valued: Container[str]) -> Iterator[str]:
    """`words` stand behind the program; `valued` are the options that take the next word."""
    rest = iter(words)
    for word in rest:
        if word in valued:
            next(rest, None)
        elif not word.startswith("-"):
            yield word
