"""Calls in CMake files: the parameters of functions and macros, and cmake_language."""

from __future__ import annotations

import re
from collections.abc import Sequence

from builder.steps.cmake_blocks import BODIES, Node, blocks
from builder.steps.cmake_lines import Argument, Command, Unreadable
from builder.steps.cmake_scope import UNKNOWN, Scope, Value

_ARGV = ("ARGN", "ARGV", "ARGC", *(f"ARGV{i}" for i in range(10)))


def parameters(node: Node) -> tuple[str, ...]:
    """The names that are told in the body of a function or macro."""
    return (*node.command.words[1:], *_ARGV)


def bound(node: Node, arguments: Sequence[Argument], scope: Scope) -> dict[str, Value]:
    """The values of parameters; behind an argument that may be several words, not known."""
    names, found = node.command.words[1:], dict[str, Value]()
    (whole, *others) = scope.lists(arguments)
    if others or whole is None:
        words: list[Value] = []
        for argument in arguments:
            (one, *more) = scope.lists([argument])
            if more or one is None:
                if not argument.quoted:
                    break
                words.append(UNKNOWN)
            else:
                words += one
        return dict(zip(names, words, strict=False))
    found |= dict.fromkeys(names, "")
    found |= dict(zip(names, whole, strict=False))
    found |= {f"ARGV{i}": word for i, word in enumerate(whole)}
    found["ARGN"], found["ARGV"] = ";".join(whole[len(names) :]), ";".join(whole)
    found["ARGC"] = str(len(whole))
    return found


def replaced(nodes: Sequence[Node], values: dict[str, Value]) -> list[Node]:
    """The body of a macro with its arguments in it, as text; what is not known stays so."""

    def text(argument: Argument) -> Argument:
        def value(match: re.Match[str]) -> str:
            name = match[1]
            if name not in values:
                return match[0]
            known = values[name]
            return f"${{{name}?}}" if known is None else known

        return Argument(re.sub(r"\$\{([^${}]*)\}", value, argument.text), argument.quoted)

    def command(one: Command) -> Command:
        return Command(one.name, tuple(map(text, one.arguments)), one.line)

    return [
        Node(command(node.command), [(command(c), replaced(b, values)) for c, b in node.branches])
        for node in nodes
    ]


def _moved(nodes: Sequence[Node], line: int) -> list[Node]:
    """The code of a text, told to stand in the line of the command that has it."""
    return [
        Node(
            Command(node.command.name, node.command.arguments, line),
            [(Command(c.name, c.arguments, line), _moved(b, line)) for c, b in node.branches],
        )
        for node in nodes
    ]


def told(command: Command, scope: Scope) -> list[Node] | None:
    """What cmake_language(CALL …), (EVAL CODE …) or (DEFER … CALL …) runs; None: not known."""
    words = command.words
    if words[:2] == ("EVAL", "CODE"):
        codes = [scope.candidates(argument.text) for argument in command.arguments[2:]]
        try:
            code = " ".join(str(one[0]) for one in codes if one[0] is not UNKNOWN)
            known = all(len(one) == 1 and one[0] is not UNKNOWN for one in codes)
            return _moved(blocks(code), command.line) if known else None
        except Unreadable:
            return None
    if "CALL" in words[:-1]:
        at = words.index("CALL") + 1
        (name, *others) = scope.candidates(words[at])
        if others or name is None or name.lower() in {"if", *BODIES}:
            return None
        return [Node(Command(name.lower(), command.arguments[at + 1 :], command.line))]
    return [] if words[:1] in (("GET_MESSAGE_LOG_LEVEL",), ("DEFER",), ("EXIT",)) else None
