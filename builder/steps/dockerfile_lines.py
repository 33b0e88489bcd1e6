"""Read the instructions of a Dockerfile: continued lines, heredocs, flags, JSON forms."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from builder.errors import LaneError, Place
from builder.steps import dockerfile_words as words_of
from builder.steps.dockerfile_words import WHITE, Heredoc

_NAME = re.compile(r"[A-Za-z]+")
_WITH_HEREDOCS = ("ADD", "COPY", "RUN")
_WITH_FLAGS = ("ADD", "COPY", "RUN", "FROM", "HEALTHCHECK")
_KNOWN = (
    "ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL",
    "MAINTAINER", "ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR",
)  # fmt: skip
_WITH_JSON = ("ADD", "COPY", "RUN", "CMD", "ENTRYPOINT", "SHELL", "VOLUME")


class DockerfileUnreadable(LaneError):
    code = "dockerfile"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; `text` is what stands behind its name and flags, lines joined."""

    name: str  # in capitals
    line: int
    end: int  # its last line, heredocs with it
    text: str
    flags: tuple[tuple[str, str], ...] = ()  # --mount=… as ("mount", "…"), in order
    words: tuple[str, ...] = ()  # without quotes; of a JSON form, its strings
    is_json: bool = False
    heredocs: tuple[Heredoc, ...] = ()
    is_open: bool = False  # its last line is continued, and the file ends

    def flag(self, name: str) -> str | None:
        return next((value for key, value in self.flags if key == name), None)

    @property
    def mounts(self) -> tuple[Mapping[str, str], ...]:
        """RUN --mount: each with its type, `from` and so on; `src` is told as `source`."""
        return tuple(_mount(value) for key, value in self.flags if key == "mount")

    @property
    def pairs(self) -> tuple[tuple[str, str | None], ...]:
        """ARG and ENV: names and values, None for an ARG without one."""
        if self.name == "ENV" and self.words and "=" not in self.words[0]:
            return ((self.words[0], self.text[len(self.words[0]) :].strip(WHITE)),)
        split = (word.partition("=") for word in self.words)
        return tuple((name, value if equals else None) for name, equals, value in split)

    @property
    def sources(self) -> tuple[str, ...]:
        """ADD and COPY: what is taken, heredocs left out."""
        inline = {h.name for h in self.heredocs}
        taken = self.words[:-1]
        return tuple(w for w in taken if w.lstrip("0123456789").lstrip("<-") not in inline)

    @property
    def same(self) -> tuple[object, ...]:
        """Equal for two instructions that do the same, wherever they stand."""
        text = () if self.words and self.name not in ("RUN", "CMD", "ENV") else self.text
        return (self.name, self.flags, self.words, text, self.heredocs)


def instructions(lines: list[str], escape: str, file: Path) -> Iterator[Instruction]:
    continued = re.compile(rf"(?:^|(?<=[^{re.escape(escape)}])){re.escape(escape)}[ \t]*$")
    at = 0
    while at < len(lines):
        first = at + 1
        text, open_ = _joined("", lines[at].lstrip(WHITE), continued)
        at += 1
        while open_ and at < len(lines):
            if lines[at].strip(WHITE) and not _is_comment(lines[at]):
                text, open_ = _joined(text, lines[at], continued)
            at += 1
        if not text.strip(WHITE):
            continue
        read = replace(_instruction(text.strip(WHITE), first, at, escape, file), is_open=open_)
        if opened := _opened(read, escape):
            heredocs, at = _heredocs(opened, lines, at, first, file)
            read = _instruction(text.strip(WHITE), first, at, escape, file, tuple(heredocs))
        yield read


def _joined(text: str, line: str, continued: re.Pattern[str]) -> tuple[str, bool]:
    if _is_comment(line):
        return text, False
    cut = continued.sub("", line)
    return text + cut, cut != line


def _is_comment(line: str) -> bool:
    return line.lstrip(WHITE).startswith("#")


def _instruction(
    text: str, line: int, end: int, escape: str, file: Path, heredocs: tuple[Heredoc, ...] = ()
) -> Instruction:
    match = _NAME.match(text)
    if match is None or text[match.end() : match.end() + 1] not in ("", *WHITE):
        raise wrong(f"no instruction: {text[:40]!r}", line, file)
    name, rest = match[0].upper(), text[match.end() :].strip(WHITE)
    if name not in _KNOWN:
        near = difflib.get_close_matches(name, _KNOWN, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_KNOWN)}"
        raise wrong(f"there is no instruction {match[0][:40]}", line, file, hint)
    flags: tuple[tuple[str, str], ...] = ()
    if name in _WITH_FLAGS:
        flags, rest = words_of.flags(rest)
    form = words_of.json_words(rest) if name in _WITH_JSON else None
    words = form
    if words is None:
        words = tuple(words_of.bare(word, escape) for word in words_of.split(rest, escape))
    return Instruction(name, line, end, rest, flags, words, form is not None, heredocs)


def _opened(read: Instruction, escape: str) -> list[tuple[str, bool, bool]]:
    inner = read.text.split(maxsplit=1)[:1] if read.name == "ONBUILD" else [read.name]
    if read.is_json or not inner or inner[0].upper() not in _WITH_HEREDOCS:
        return []
    return list(words_of.heredocs(list(words_of.split(read.text, escape)), escape))


def _heredocs(
    opened: list[tuple[str, bool, bool]], lines: list[str], at: int, line: int, file: Path
) -> tuple[list[Heredoc], int]:
    found = []
    for name, expand, chomp in opened:
        content: list[str] = []
        while True:
            if at >= len(lines):
                raise wrong(f"the heredoc {name} has no end", line, file)
            text = lines[at].lstrip("\t") if chomp else lines[at]
            at += 1
            if text == name:
                break
            content.append(lines[at - 1])
        found.append(Heredoc(name, "".join(f"{c}\n" for c in content), expand, chomp))
    return found, at


def _mount(value: str) -> Mapping[str, str]:
    found = {"type": "bind"}
    for part in value.split(","):
        key, equals, given = part.partition("=")
        key = {"src": "source", "dst": "target", "destination": "target"}.get(key, key)
        found[key] = given if equals else "true"
    return found


def wrong(what: str, line: int | None, file: Path, hint: str = "") -> DockerfileUnreadable:
    hint = hint or "docker buildx build --check reads it too"
    return DockerfileUnreadable(what, place=Place(file, line), hint=hint)
