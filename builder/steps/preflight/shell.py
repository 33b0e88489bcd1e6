"""The commands of a RUN: enough of sh to know which programs start, with what, and where.

Not an interpreter: conditions are not followed, what a variable holds is only known where the
Dockerfile sets it. A text that does not parse gives no commands, and so no findings.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from builder.steps.dockerfile import Instruction
from builder.steps.dockerfile_words import expand, variables

_SKIPPED = frozenset(
    (
        "if", "then", "else", "elif", "fi", "do", "done", "while", "until", "for", "in", "case",
        "esac", "{", "}", "!", "time", "exec", "command", "sudo", "nice", "nohup", "ccache",
        "sccache", "env",
    )
)  # fmt: skip
_BREAKS = re.compile(r"[;&|()\n]+")
_REDIRECTION = re.compile(r"[<>&|]*[<>][<>&|]*")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=(.*)", re.DOTALL)
_INNER_HEREDOC = re.compile(r"<<-?\s*([\"']?)([A-Za-z_][A-Za-z0-9_]*)\1")
_SHELLS = ("sh", "bash", "dash", "ash")


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command: its words, what is set for it, and the folder it runs in."""

    words: tuple[str, ...]  # variables as they stand
    env: Mapping[str, str] = field(default_factory=dict)  # set before it, in the same RUN
    folder: str = ""
    conditional: bool = False  # behind an `if`, `||` or `case`

    @property
    def program(self) -> str:
        return self.words[0].rpartition("/")[2]


def commands(run: Instruction, *, folder: str = "") -> Iterator[Command]:
    """The commands of a RUN instruction, in order; of heredocs, those that a shell runs."""
    if run.is_json and _inner(run.words) is None:
        yield Command(run.words, {}, folder)
        return
    for text in _texts(run):
        yield from _of_text(text, folder)


def exported(run: Instruction) -> Iterator[tuple[str, str]]:
    """Names that `export NAME=$(PROGRAM …)` sets, with the program: its failure is lost."""
    for text in _texts(run):
        name = ""
        for breaker, words in _simple(_without_heredocs(text)):
            if name and breaker == "(":
                yield name, words[0].rpartition("/")[2]
            name = ""
            words = _stripped(words)
            if words[:1] == ["export"]:
                for own, value in _assigned([w for w in words[1:] if not w.startswith("-")]):
                    quoted = re.search(rf'{own}="[^"]*?(?:\$\((?!\()|`)\s*([^\s`)"]+)', text)
                    if quoted:
                        yield own, quoted[1].rpartition("/")[2]
                    elif value.startswith("`"):
                        yield own, value[1:].rpartition("/")[2].rstrip("`")
                    name = own if value.endswith("$") else ""


def _texts(run: Instruction) -> Iterator[str]:
    """What a shell reads of a RUN: its line, and the heredocs that are scripts."""
    if run.is_json:
        yield _inner(run.words) or ""
        return
    outside = run.text
    for heredoc in run.heredocs:
        before = outside.partition("<<")[0].strip()
        if not before or before.split()[0].rpartition("/")[2] in _SHELLS:
            yield heredoc.content
    if not (run.heredocs and outside.startswith("<<")):
        yield outside


def _of_text(text: str, folder: str) -> Iterator[Command]:
    env: dict[str, str] = {}
    depth, either = 0, False
    for breaker, words in _simple(_without_heredocs(text)):
        either = "||" in breaker
        for word in words:
            depth += {"if": 1, "case": 1, "fi": -1, "esac": -1}.get(word, 0)
        words = _stripped(words)
        own = dict(_assigned(words))
        rest = words[len(own) :]
        rest = _stripped(rest)
        if not rest:
            env.update(own)
        elif rest[0] in ("export", "declare", "typeset"):
            env.update(_assigned([w for w in rest[1:] if not w.startswith("-")]))
        elif rest[0] in ("cd", "pushd") and len(rest) > 1:
            folder = rest[1] if rest[1].startswith(("/", "$")) else f"{folder}/{rest[1]}"
        elif (inner := _inner(rest)) is not None:
            yield from _of_text(inner, folder)
        else:
            yield Command(tuple(rest), {**env, **own}, folder, depth > 0 or either)


def _simple(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each simple command with what stands before it: `&&`, `||`, `;`."""
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    try:
        tokens = list(lexer)
    except ValueError:
        return
    breaker, skip, comment = "", False, False
    words: list[str] = []
    for token in tokens:
        if _REDIRECTION.fullmatch(token):
            skip = True
            if words and words[-1].isdecimal() and len(words[-1]) == 1:
                words.pop()
        elif _BREAKS.fullmatch(token) and not (comment and "\n" not in token):
            if words:
                yield breaker, words
            breaker, words, skip, comment = token, [], False, False
        elif skip or comment:
            skip = False
        elif token.startswith("#"):
            comment = True
        else:
            words.append(token)
    if words:
        yield breaker, words


def _stripped(words: list[str]) -> list[str]:
    at = 0
    while at < len(words) and (words[at] in _SKIPPED or words[at] == "$"):
        at += 1
    return words[at:]


def _assigned(words: list[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        match = _ASSIGNMENT.fullmatch(word)
        if match is None:
            return
        yield match[1], match[2]


def _inner(words: list[str] | tuple[str, ...]) -> str | None:
    """The text of `sh -c TEXT`."""
    if not words or words[0].rpartition("/")[2] not in _SHELLS:
        return None
    for i, word in enumerate(words[1:-1], 1):
        if re.fullmatch(r"-[a-z]*c", word):
            return words[i + 1]
    return None


def _without_heredocs(text: str) -> str:
    """The text without the lines of heredocs within it, which are data for some command, and
    without lines of comment, which may hold single quotes."""
    kept, until = [], ""
    for line in text.split("\n"):
        if until:
            until = "" if line.strip() == until else until
            continue
        if line.lstrip().startswith("#"):
            continue
        kept.append(line)
        if match := _INNER_HEREDOC.search(line):
            until = match[2]
    return "\n".join(kept)


def known(text: str, values: Mapping[str, str]) -> str | None:
    """The text with its variables replaced, or None when one of them is not known."""
    if "`" in text or "$(" in text or not variables(text) <= set(values):
        return None
    found = expand(text, values)
    return None if "$" in found else found
