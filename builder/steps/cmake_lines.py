"""Read CMake's language as far as commands and their arguments; nothing is evaluated.

The grammar is that of cmake-language(7): comments, bracket, quoted and unquoted arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

NO_EXPANSION = "\0"  # stands for an escaped `$`

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<comment>\#\[(?P<c>=*)\[.*?\](?P=c)\]|\#[^\n]*)
    |\[(?P<b>=*)\[(?P<bracket>.*?)\](?P=b)\]
    |"(?P<quoted>(?:\\.|[^"\\])*)"
    |(?P<paren>[()])
    |(?P<plain>(?:\\.|\$\([^)]*\)|[^\s()\#"\\])(?:\\.|\$\([^)]*\)|"(?:\\.|[^"\\])*"|[^\s()\#"\\])*)
    """,
    re.DOTALL | re.VERBOSE,
)
_ESCAPED = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\n": "", "$": NO_EXPANSION, ";": "\\;"}


class Unreadable(ValueError):
    """The text is not CMake; `line` (from 1) is where it stops to be."""

    def __init__(self, what: str, line: int) -> None:
        super().__init__(what)
        self.line = line


@dataclass(frozen=True, slots=True)
class Argument:
    text: str
    quoted: bool = False  # a keyword never is


@dataclass(frozen=True, slots=True)
class Command:
    name: str  # in lower case
    arguments: tuple[Argument, ...]
    line: int  # of its name, from 1

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(argument.text for argument in self.arguments)


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    kind: str  # paren, plain, quoted
    line: int


def commands(text: str) -> Iterator[Command]:
    """The commands of a file, in order. Raises: Unreadable."""
    tokens = _tokens(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    for token in tokens:
        if token.kind != "plain" or not token.text.isidentifier():
            raise Unreadable(f"{token.text[:40]!r} is no command", token.line)
        opening = next(tokens, None)
        if opening is None or (opening.kind, opening.text) != ("paren", "("):
            raise Unreadable(f"no parenthesis behind {token.text}", token.line)
        yield Command(token.text.lower(), tuple(_arguments(token, tokens)), token.line)


def _arguments(command: _Token, tokens: Iterator[_Token]) -> Iterator[Argument]:
    depth = 1
    for token in tokens:
        if token.kind == "paren":
            depth += 1 if token.text == "(" else -1
            if not depth:
                return
        yield Argument(token.text, token.kind == "quoted")
    raise Unreadable(f"{command.text}( is never closed", command.line)


def _tokens(text: str) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise Unreadable(f"cannot read {text[at : at + 20]!r}", line)
        if match["paren"]:
            yield _Token(match["paren"], "paren", line)
        elif match["plain"]:
            yield _Token(_unescaped(match["plain"]), "plain", line)
        elif match["quoted"] is not None:
            yield _Token(_unescaped(match["quoted"]), "quoted", line)
        elif match["bracket"] is not None:
            held = match["bracket"].removeprefix("\n").replace("$", NO_EXPANSION)
            yield _Token(held, "quoted", line)
        line += match[0].count("\n")
        at = match.end()


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], match[1]), text)
