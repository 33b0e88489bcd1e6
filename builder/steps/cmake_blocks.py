"""The commands of a CMake file, nested as `if`, loops, functions and macros nest them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from builder.steps.cmake_lines import Command, Unreadable, commands

BODIES = frozenset({"foreach", "while", "function", "macro", "block"})
_DEEPEST = 100


@dataclass(slots=True)
class Node:
    """A command; of an `if` its branches, of what has a body that body as the only one."""

    command: Command
    branches: list[tuple[Command, list[Node]]] = field(default_factory=list)


def blocks(text: str) -> list[Node]:
    """The commands of a file. Raises: Unreadable."""
    found: list[Node] = []
    opened: list[Node] = []
    for command in commands(text):
        last = opened[-1] if opened else None
        body = last.branches[-1][1] if last else found
        if command.name == "if" or command.name in BODIES:
            node = Node(command)
            node.branches.append((command, []))
            body.append(node)
            opened.append(node)
            if len(opened) > _DEEPEST:
                raise Unreadable(f"{command.name}( is nested too deeply", command.line)
        elif command.name in ("elseif", "else"):
            if last is None or last.command.name != "if":
                raise Unreadable(f"{command.name}( without an if", command.line)
            last.branches.append((command, []))
        elif command.name == "endif" or command.name.removeprefix("end") in BODIES - {command.name}:
            if last is None or command.name != f"end{last.command.name}":
                raise Unreadable(f"{command.name}( ends nothing", command.line)
            opened.pop()
        else:
            body.append(Node(command))
    if opened:
        command = opened[-1].command
        raise Unreadable(f"{command.name}( has no end{command.name}", command.line)
    return found


def within(nodes: Sequence[Node]) -> Iterator[Command]:
    """All commands, also those in bodies."""
    for node in nodes:
        yield node.command
        for _, body in node.branches:
            yield from within(body)
