"""The commands of a RUN: enough of sh to know which programs start, with what, and where.

Not an interpreter: conditions are not followed, what a variable holds is only known where the
Dockerfile sets it, and functions are taken to run where they stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from builder.steps.dockerfile import Instruction
from builder.steps.dockerfile_words import expand, variables
from builder.steps.preflight.shell_words import Simple, simple
from builder.steps.preflight.wrappers import SHELLS, Started, assigned, started

_DEEPEST = 20  # texts within texts


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command: its words, what is set for it, and the folder it runs in."""

    words: tuple[str, ...]  # variables as they stand
    env: Mapping[str, str] = field(default_factory=dict)  # set before it, in the same RUN
    folder: str = ""
    conditional: bool = False  # behind an `if`, `||` or `case`
    clean: bool = False  # what ENV and ARG say does not reach it: `env -i`

    @property
    def program(self) -> str:
        return self.words[0].rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class _Around:
    """What a text is run with."""

    folder: str
    env: Mapping[str, str] = field(default_factory=dict)
    conditional: bool = False
    clean: bool = False
    depth: int = 0


def commands(run: Instruction, *, folder: str = "") -> Iterator[Command]:
    """The commands of a RUN instruction, in order; of heredocs, those that a shell runs."""
    if run.is_json:
        for each in started(run.words):
            if each.words:
                yield from _commands(each, _Around(folder))
    for text in _texts(run):
        yield from _of_text(text, _Around(folder))


def exported(run: Instruction) -> Iterator[tuple[str, str]]:
    """Names that `export NAME=$(PROGRAM …)` sets, with the program: its failure is lost."""
    texts = [*_texts(run), *filter(None, (s.text for s in started(run.words) if run.is_json))]
    for each in (part for text in texts for part in simple(text)):
        program = next(started(each.words), None)
        if program is None or program.words[:1] != ("export",):
            continue
        for index, text in each.inserted:
            own = dict(assigned(each.words[index : index + 1]))
            inner = next((s for part in simple(text) for s in started(part.words)), None)
            if own and inner and inner.words:
                yield next(iter(own)), inner.words[0].rpartition("/")[2]


def _texts(run: Instruction) -> Iterator[str]:
    """What a shell reads of a RUN: its line with the heredocs in it, or the heredoc alone."""
    if run.is_json:
        return
    if len(run.heredocs) == 1 and len(run.words) == 1:
        content = run.heredocs[0].content
        program = re.split(r"[/\s]+", content.partition("\n")[0])
        if not content.startswith("#!") or not set(SHELLS).isdisjoint(program):
            yield content
    else:
        held = "".join(f"{h.content}{h.name}\n" for h in run.heredocs)
        yield f"{run.text}\n{held}"


def _of_text(text: str, around: _Around) -> Iterator[Command]:
    if around.depth > _DEEPEST:
        return
    stack: list[tuple[dict[str, str], str]] = []
    env, folder, depth = dict(around.env), around.folder, 0
    parts = simple(text)
    for i, part in enumerate(parts):
        for sign in part.breaker:  # what a subshell sets is lost behind it
            if sign == "(":
                stack.append((dict(env), folder))
            elif sign == ")" and stack:
                env, folder = stack.pop()
        for word in part.words:
            depth += {"if": 1, "case": 1, "fi": -1, "esac": -1}.get(word, 0)
        conditional = around.conditional or depth > 0 or "||" in part.breaker
        here = _Around(folder, env, conditional, around.clean, around.depth + 1)
        for _, inner in part.inserted:
            yield from _of_text(inner, here)
        for each in started(part.words):
            program = each.words[0] if each.words else ""
            if not program:
                env |= each.env
            elif program in ("export", "declare", "typeset", "local", "readonly"):
                env |= _exported(each.words[1:])
            elif program == "unset":
                env |= dict.fromkeys(each.words[1:], "")
            elif program in ("cd", "pushd"):
                folder = _moved(folder, each.words[1:])
            else:
                yield from _commands(each, here)
        for content in part.heredocs if _runs_input(parts, i) else ():
            yield from _of_text(content, here)


def _commands(each: Started, around: _Around) -> Iterator[Command]:
    clean = around.clean or each.clean
    env = {**({} if each.clean else around.env), **each.env}
    if each.text is not None:
        inner = replace(around, env=env, clean=clean, depth=around.depth + 1)
        yield from _of_text(each.text, inner)
    else:
        yield Command(each.words, env, around.folder, around.conditional, clean)


def _exported(words: tuple[str, ...]) -> Mapping[str, str]:
    names = [word for word in words if not word.startswith("-")]
    return dict.fromkeys(names, "") if "-n" in words else dict(assigned(names))


def _moved(folder: str, words: tuple[str, ...]) -> str:
    to = next((word for word in words if not word.startswith("-")), "")
    return to if not to or to.startswith(("/", "$")) else f"{folder}/{to}"


def _runs_input(parts: list[Simple], at: int) -> bool:
    """Whether what a command is given to read is run: it is a shell, or hands it on to one."""
    for i, part in enumerate(parts[at:]):
        if i and part.breaker not in ("|", "|&"):
            return False
        if any(each.words and each.reads_script for each in started(part.words)):
            return True
    return False


def known(text: str, values: Mapping[str, str]) -> str | None:
    """The text with its variables replaced, or None when one of them is not known."""
    if "`" in text or "$(" in text or not variables(text) <= set(values):
        return None
    found = expand(text, values)
    return None if "$" in found else found
