"""The words of a Dockerfile's instruction: quotes, variables, heredocs, flags.

As BuildKit's own lexer has them (frontend/dockerfile/shell/lex.go and parser/line_parsers.go).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_HEREDOC = re.compile(r"[0-9]*<<(-?)([^<]+)")
_FLAG = re.compile(r"--([A-Za-z][A-Za-z0-9_-]*)(?:=(.*))?", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-+?])|\}))")
_URL = re.compile(r"(?:https?|ssh|git)://", re.IGNORECASE)
_SCP = re.compile(r"[A-Za-z0-9_-]+@[A-Za-z0-9.-]+:")
WHITE = " \t\r\n\v\f"


@dataclass(frozen=True, slots=True)
class Heredoc:
    name: str
    content: str
    expand: bool  # whether variables in it are expanded: its name stood without quotes
    chomp: bool = False  # `<<-`: leading tabs are dropped


def split(text: str, escape: str) -> Iterator[str]:
    """The words of a line with their quotes and escapes as they stand."""
    word, quote, i = "", "", 0
    while i < len(text):
        char = text[i]
        if char == escape and quote != "'" and i + 1 < len(text):
            word += text[i : i + 2]
            i += 2
            continue
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in WHITE:
            if word:
                yield word
            word, i = "", i + 1
            continue
        word += char
        i += 1
    if word:
        yield word


def bare(word: str, escape: str) -> str:
    """A word without its quotes and escapes; variables stay as they stand."""
    found, quote, i = "", "", 0
    while i < len(word):
        char = word[i]
        if char == escape and quote != "'" and i + 1 < len(word):
            following = word[i + 1]
            kept = quote == '"' and following not in ('"', "$", escape)
            found += char + following if kept else following
            i += 2
            continue
        if quote and char == quote:
            quote = ""
        elif not quote and char in "'\"":
            quote = char
        else:
            found += char
        i += 1
    return found


def expand(text: str, values: Mapping[str, str]) -> str:
    """`$X`, `${X}`, `${X:-d}`, `${X:+a}` replaced; what is unknown becomes empty."""
    found, at = "", 0
    while match := _VARIABLE.search(text, at):
        found += text[at : match.start()]
        name, operator, at = match[1] or match[2], match[3], match.end()
        value = values.get(name)
        if operator:
            word, at = _operand(text, at)
            there = value is not None and (value != "" or ":" not in operator)
            if operator.endswith("+"):
                value = expand(word, values) if there else ""
            elif not there:
                value = expand(word, values)
        found += value or ""
    return found + text[at:]


def variables(text: str) -> frozenset[str]:
    """The names of the variables in a text."""
    return frozenset(m[1] or m[2] for m in _VARIABLE.finditer(text))


def flags(text: str) -> tuple[tuple[tuple[str, str], ...], str]:
    """The flags at the start (`--mount=…`, name and value), and the text behind them."""
    found: list[tuple[str, str]] = []
    rest = text.lstrip(WHITE)
    while rest.startswith("--"):
        word = re.split(r"[ \t\r\n\v\f]", rest, maxsplit=1)[0]
        match = _FLAG.fullmatch(word)
        if match is None:
            break
        found.append((match[1], bare(match[2] or "", "\0")))
        rest = rest[len(word) :].lstrip(WHITE)
    return tuple(found), rest


def heredocs(words: list[str], escape: str) -> Iterator[tuple[str, bool, bool]]:
    """(name, expand, chomp) of each word that opens a heredoc, in order."""
    for word in words:
        match = _HEREDOC.fullmatch(word)
        if match is not None and (name := bare(match[2], escape)):
            yield name, name == match[2], bool(match[1])


def json_words(text: str) -> tuple[str, ...] | None:
    """The strings of the JSON form (`["a", "b"]`), or None where the text is none."""
    if not text.startswith("["):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(found, list) and all(isinstance(word, str) for word in found):
        return tuple(found)
    return None


def _operand(text: str, at: int) -> tuple[str, int]:
    """The text up to the brace that closes `${X:-…}`, and where it goes on."""
    depth = 1
    for i in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return text[at:i], i + 1
    return text[at:], len(text)


def is_remote(source: str) -> bool:
    """Whether ADD takes this from the network, and not from a context.

    As BuildKit does: util/gitutil/git_ref.go, and isHTTPSource of dockerfile2llb.
    """
    return bool(_URL.match(source) or _SCP.match(source))
