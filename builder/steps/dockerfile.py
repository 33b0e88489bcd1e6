"""Read a Dockerfile: instructions with their lines, and the view by stage.

The rules are BuildKit's (frontend/dockerfile/parser/parser.go): directives, continued lines
with comments and empty lines in them, heredocs, JSON forms. Written here, since no package
that is kept up reads heredocs and the escape directive (docs/decisions/0009-dockerfile-parser.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from builder.errors import Place
from builder.steps.dockerfile_lines import DockerfileUnreadable, Instruction, instructions, wrong
from builder.steps.dockerfile_words import WHITE, Heredoc

__all__ = [
    "Dockerfile", "DockerfileUnreadable", "Heredoc", "Instruction", "Stage", "parse",
]  # fmt: skip

_DIRECTIVE = re.compile(r"#\s*([a-zA-Z][a-zA-Z0-9]*)\s*=\s*(.+?)\s*")
_KNOWN_DIRECTIVES = ("syntax", "escape", "check")


@dataclass(frozen=True, slots=True)
class Stage:
    index: int
    name: str  # "" for a stage without AS
    base: str  # what stands behind FROM, variables as they stand
    line: int
    instructions: tuple[Instruction, ...]  # FROM is the first

    @property
    def title(self) -> str:
        """Its name, or `stage-7`, as BuildKit calls one without."""
        return self.name or f"stage-{self.index}"

    def named(self, *names: str) -> tuple[Instruction, ...]:
        """Its instructions of these names, in order."""
        return tuple(i for i in self.instructions if i.name in names)

    @property
    def args(self) -> Mapping[str, str | None]:
        """What it declares by ARG, with its defaults."""
        return {name: value for i in self.named("ARG") for name, value in i.pairs}

    @property
    def env(self) -> Mapping[str, str]:
        return {name: value or "" for i in self.named("ENV") for name, value in i.pairs}


@dataclass(frozen=True, slots=True)
class Dockerfile:
    stages: tuple[Stage, ...]
    args: Mapping[str, str | None] = field(default_factory=dict)  # before the first FROM
    directives: Mapping[str, str] = field(default_factory=dict)

    @property
    def escape(self) -> str:
        """What continues lines, and takes the meaning from a quote or a dollar sign."""
        return self.directives.get("escape", "\\")

    def stage(self, reference: str, *, before: int | None = None) -> Stage | None:
        """The stage that `FROM`, `--from` or `from=` means: a name in any case, or an index.

        `before` is the index of the stage that asks: only earlier ones are seen, the last
        of a name first. None: the name is an image or a named context.
        """
        seen = self.stages[:before]
        for stage in reversed(seen):
            if stage.name and stage.name.lower() == reference.lower():
                return stage
        index = int(reference) if reference.isdecimal() and len(reference) < 6 else len(seen)
        return seen[index] if index < len(seen) else None


def parse(data: bytes, file: Path) -> Dockerfile:
    """Read a Dockerfile. Raises: DockerfileUnreadable, with the line."""
    try:
        text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError as bad:
        line = data[: bad.start].count(b"\n") + 1
        raise DockerfileUnreadable("is not UTF-8 text", place=Place(file, line)) from bad
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    directives = _directives(lines, file)
    if (escape := directives.get("escape", "\\")) not in ("\\", "`"):
        raise wrong(f"escape is {escape!r}, and may be \\ or ` only", 1, file)
    return _staged(instructions(lines, escape, file), directives, file)


def _directives(lines: list[str], file: Path) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        match = _DIRECTIVE.fullmatch(line.strip(WHITE))
        if match is None:
            break
        name = match[1].lower()
        if name in found:
            raise wrong(f"the directive {name} stands here a second time", number, file)
        if name not in _KNOWN_DIRECTIVES:
            break  # a comment, and what follows it is one, too
        found[name] = match[2]
    return found


def _staged(held: Iterator[Instruction], directives: Mapping[str, str], file: Path) -> Dockerfile:
    args: dict[str, str | None] = {}
    stages: list[list[Instruction]] = []
    for read in held:
        if read.name == "FROM":
            if not (len(read.words) == 1 or (len(read.words) == 3 and _is_as(read))):
                raise wrong("FROM takes an image, and AS with a name", read.line, file)
            stages.append([read])
        elif stages:
            stages[-1].append(read)
        elif read.name == "ARG":
            args.update(read.pairs)
        else:
            raise wrong(f"{read.name} stands before the first FROM", read.line, file)
    if not stages:
        raise wrong("the Dockerfile holds no FROM", None, file)
    return Dockerfile(tuple(_stage(i, s) for i, s in enumerate(stages)), args, directives)


def _stage(index: int, held: list[Instruction]) -> Stage:
    first = held[0]
    name = first.words[2] if len(first.words) == 3 else ""
    return Stage(index, name, first.words[0], first.line, tuple(held))


def _is_as(read: Instruction) -> bool:
    return read.words[1].upper() == "AS"
