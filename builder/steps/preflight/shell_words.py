"""Take a shell text apart as sh does: simple commands, their words, what is inserted in them.

Quotes, comments, redirections, heredocs, `$(…)` and `${…}`; keywords are words like others.
What sh would refuse (a quote that is not closed) is taken apart by its words alone, so that
no text is without commands because of a sign in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_BLANK = " \t\r"
_BREAKS = ";&|()\n"
_REDIRECTION = re.compile(r"&?(?:<<<|<<-|<<|<>|<&|>>|>&|>\||<|>)")
_CASE = re.compile(r"(?<![^\s;&|({])(?:case|esac)(?![^\s;&|)}])")
_IN_DOUBLE = '"$`\\'


@dataclass(frozen=True, slots=True)
class Simple:
    """A simple command; `$(…)`, backticks and variables stand in its words as they were."""

    breaker: str  # the operators before it: "&&", "||", ";", "(", …
    words: tuple[str, ...]
    inserted: tuple[tuple[int, str], ...] = ()  # what runs to make a word: its index, the text
    heredocs: list[str] = field(default_factory=list)  # what it is given to read


class _Unclosed(Exception):
    pass


def simple(text: str) -> list[Simple]:
    """The simple commands of a text, in order."""
    try:
        return _Reading(text).read()
    except _Unclosed:
        return list(_by_words(text))


def _by_words(text: str) -> Iterator[Simple]:
    breaker = ""
    for part in re.split(r"([;&|()\n]+)", text.replace("\\\n", " ")):
        words = tuple(re.sub(r"[\"']|`", "", part).split())
        if words and words[0][0] not in _BREAKS:
            yield Simple(breaker, words)
            breaker = ""
        else:
            breaker += part


@dataclass(slots=True)
class _Reading:
    text: str
    at: int = 0
    done: list[Simple] = field(default_factory=list)
    breaker: str = ""
    words: list[str] = field(default_factory=list)
    inserted: list[tuple[int, str]] = field(default_factory=list)
    heredocs: list[str] = field(default_factory=list)
    word: str | None = None  # the one that is being read
    redirected: str = ""  # the operator whose operand comes next
    awaited: list[tuple[bool, str, list[str]]] = field(default_factory=list)

    def read(self) -> list[Simple]:
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in _BLANK:
                self._end_word()
                self.at += 1
            elif char == "#" and self.word is None:
                end = self.text.find("\n", self.at)
                self.at = end if end >= 0 else len(self.text)
            elif self._is_process():
                self._insert(self.at + 1)
            elif match := _REDIRECTION.match(self.text, self.at):
                self._redirect(match[0])
            elif char in _BREAKS:
                self._break(char)
            else:
                self._add(char)
        self._end_command()
        return self.done

    def _is_process(self) -> bool:
        return self.text.startswith(("<(", ">("), self.at)

    def _redirect(self, operator: str) -> None:
        if self.word is not None and self.word.isdecimal():
            self.word = None  # 2>: a descriptor
        self._end_word()
        self.redirected = operator
        self.at += len(operator)

    def _break(self, char: str) -> None:
        self._end_command()
        self.breaker += char
        self.at += 1
        if char == "\n":
            for chomp, name, kept in self.awaited:
                self._heredoc(chomp, name, kept)
            self.awaited = []

    def _heredoc(self, chomp: bool, name: str, kept: list[str]) -> None:
        """Take the lines up to the name of a heredoc; without one, it is none."""
        dash = r"\t*" if chomp else ""
        end = re.compile(rf"^{dash}{re.escape(name)}\r?$", re.MULTILINE).search(self.text, self.at)
        if end is not None:
            kept.append(self.text[self.at : end.start()])
            self.at = min(end.end() + 1, len(self.text))

    def _add(self, char: str) -> None:
        """Read a quote, an insertion, or one character of a word."""
        if char == "\\":
            if self.text.startswith("\\\n", self.at):
                self.at += 2
                return
            self.word = (self.word or "") + (self.text[self.at + 1 : self.at + 2] or char)
            self.at += 2
        elif char == "'":
            self.word = (self.word or "") + self._until_quote(self.at + 1)
        elif char == '"':
            self._double()
        elif char == "$" and self.text.startswith("$'", self.at):
            end = _closed(self.text, self.at + 1, "'", raw=False)
            self.word = (self.word or "") + self.text[self.at + 2 : end]
            self.at = end + 1
        elif char in "$`":
            self._insert(self.at)
        else:
            self.word = (self.word or "") + char
            self.at += 1

    def _until_quote(self, at: int) -> str:
        end = self.text.find("'", at)
        if end < 0:
            raise _Unclosed
        self.at = end + 1
        return self.text[at:end]

    def _double(self) -> None:
        self.word, self.at = self.word or "", self.at + 1
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return
            if char == "\\" and self.text[self.at + 1 : self.at + 2] in (*_IN_DOUBLE, "\n"):
                self.word += self.text[self.at + 1].strip("\n")
                self.at += 2
            elif char in "$`":
                self._insert(self.at, quotes='"`')  # in ${…} an apostrophe is one
            else:
                self.word += char
                self.at += 1
        raise _Unclosed

    def _insert(self, at: int, *, quotes: str = "'\"`") -> None:
        """Take `$(…)`, `${…}`, `$((…))`, backticks or a lone `$` into the word as it stands."""
        begun, end = self.at, at
        following = self.text[at : at + 2]
        if following.startswith("`"):
            end = _closed(self.text, at, "`", raw=False)
            self._inserted(self.text[at + 1 : end])
        elif following == "${":
            end = _matching(self.text, at + 1, "{}", quotes)
        elif following == "$(" or following.startswith("("):
            opened = at + following.index("(")
            end = _matching(self.text, opened, "()", "'\"`")
            inner = self.text[opened + 1 : end]
            if not (inner.startswith("(") and inner.endswith(")")):  # not arithmetic
                self._inserted(inner)
        self.at = end + 1
        self.word = (self.word or "") + self.text[begun : self.at]

    def _inserted(self, text: str) -> None:
        self.inserted.append((len(self.words), text))

    def _end_word(self) -> None:
        if self.word is None:
            return
        if self.redirected in ("<<", "<<-"):
            self.awaited.append((self.redirected == "<<-", self.word, self.heredocs))
        elif not self.redirected:
            self.words.append(self.word)
        self.word, self.redirected = None, ""

    def _end_command(self) -> None:
        self._end_word()
        self.redirected = ""
        if self.words or self.inserted:
            words, inserted = tuple(self.words), tuple(self.inserted)
            self.done.append(Simple(self.breaker, words, inserted, self.heredocs))
            self.breaker = ""
        self.words, self.inserted, self.heredocs = [], [], []


def _closed(text: str, at: int, quote: str, *, raw: bool) -> int:
    """Where the quote that opens at `at` is closed."""
    at += 1
    while at < len(text):
        if text[at] == "\\" and not raw:
            at += 1
        elif text[at] == quote:
            return at
        at += 1
    raise _Unclosed


def _matching(text: str, at: int, pair: str, quotes: str) -> int:
    """Where the bracket that opens at `at` is closed, outside of quotes; the one that ends a
    pattern of `case` closes nothing."""
    opened: list[str] = []
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
        elif char in quotes:
            at = _closed(text, at, char, raw=char == "'")
        elif char == pair[0]:
            opened.append(char)
        elif char == pair[1] and opened[-1] == pair[0]:
            opened.pop()
            if not opened:
                return at
        elif pair == "()" and (word := _CASE.match(text, at)):
            if word[0] == "case":
                opened.append("case")
            elif opened[-1] == "case":
                opened.pop()
        at += 1
    raise _Unclosed
