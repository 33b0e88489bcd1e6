"""Statements of CMake files that run any number of times, and those that do not run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from builder.steps.cmake_blocks import Node, within
from builder.steps.cmake_content import Reading, content
from builder.steps.cmake_lines import Command
from builder.steps.cmake_scope import UNKNOWN, Scope, meet
from builder.steps.cmake_variables import assign


def loop(command: Command, scope: Scope, one_round: Callable[[Scope], Scope]) -> Scope:
    """The scope after a `foreach` or `while`; the variable of a `foreach` is as before then."""
    words = command.words
    names = words[:1] if command.name == "foreach" else ()
    if names and "IN" in words:
        names = words[: words.index("IN")]
    before = {name: scope.normal.get(name) for name in names}
    start = scope.copy()
    for name in names:
        start.set(name, (UNKNOWN,))
    end = one_round(start.copy())
    while _taken_up(start, end):  # until a round changes nothing further
        end = one_round(start.copy())
    end = meet([scope, end])
    for name, values in before.items():
        end.normal.pop(name, None)
        if values is not None:
            end.normal[name] = values
    return end


def untaken(nodes: Sequence[Node], scope: Scope, reading: Reading) -> None:
    """What is not taken still says which environment variable stands for a content."""
    before = reading.silent, reading.scope
    reading.silent, reading.scope = True, scope.copy()
    for command in within(nodes):
        if command.name == "set":
            assign(command, reading)
        elif command.name.startswith("fetchcontent_") and len(command.words) > 1:
            content(command, reading)
    reading.silent, reading.scope = before


def _taken_up(start: Scope, end: Scope) -> bool:
    """Take what a round changed as not known from its start on; whether there was any."""
    changed = not end.wild <= start.wild
    start.wild |= end.wild
    for before, after in (
        (start.normal, end.normal), (start.cache, end.cache), (start.env, end.env),
        (start.above, end.above),
    ):  # fmt: skip
        for name in {*before, *after}:
            if before.get(name) not in (after.get(name), (UNKNOWN,)):
                before[name] = (UNKNOWN,)
                changed = True
    return changed
