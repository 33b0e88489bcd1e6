"""Which Debian packages the last stage will have, as far as its Dockerfile says for sure.

A package that a gate asks for is missing for sure only when nothing can bring it: not a line of
apt or dpkg in the stage, in those it is built from or copies from, not the base, not a script,
and not the dependencies of what is installed. What `debs` holds is known: it is locked by name.
In doubt nothing is said; the gate will.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from builder.steps.dockerfile import Dockerfile
from builder.steps.operands import operands
from builder.steps.preflight.contexts import NAMED, Contexts, lie_at, matching
from builder.steps.preflight.shell import Command, commands, known
from builder.steps.preflight.values import At, Valued

_APT = ("apt-get", "apt", "aptitude", "apt-fast")
_SCRIPT = re.compile(r".*\.(?:sh|bash|py)$|^\./")
_WITH_VALUE = ("-o", "-t", "-c", "--target-release", "--option", "--config-file")
_ANYTHING = ("xargs", "eatmydata", "debootstrap", "rpm", "conda", "nala", "aptdcon")
_METAPACKAGES = re.compile(r"build-essential|.*-devel?|.*-all|.*-full|dpkg-dev|devscripts")


@dataclass(frozen=True, slots=True)
class Installed:
    """`exactly` came by name or file; `from_archive` may have brought others with it."""

    exactly: frozenset[str]
    from_archive: frozenset[str] = frozenset()
    unknown: bool = False  # something ran, or came in, that may have installed anything
    over_unknown: bool = False  # what the base brings is not known

    def may_have(self, package: str) -> bool:
        if self.unknown or any(fnmatch.fnmatchcase(package, held) for held in self.exactly):
            return True
        if package.endswith("-dev"):  # comes in with other -dev packages only
            return any(_METAPACKAGES.fullmatch(name) for name in self.from_archive)
        return bool(self.from_archive)


def installed(
    stage: Valued,
    read: Dockerfile,
    stages: Mapping[int, Valued],
    bases: Mapping[str, Collection[str]],
    contexts: Contexts,
) -> Installed:
    """What a stage has in the end. `bases`: what is known of images, by reference."""
    found: list[Installed] = []
    bottom = stage.chain[-1].base
    if bottom in bases:
        found.append(Installed(frozenset(bases[bottom])))
    elif bottom != "scratch":
        found.append(Installed(frozenset(), over_unknown=True))
    for each in stage.chain:
        for at in each.steps:
            found += _instruction(at, each, read, stages, bases, contexts)
    return Installed(
        frozenset().union(*(f.exactly for f in found)),
        frozenset().union(*(f.from_archive for f in found)),
        any(f.unknown for f in found),
        any(f.over_unknown for f in found),
    )


def _instruction(
    at: At, stage: Valued, read: Dockerfile, stages: Mapping[int, Valued],
    bases: Mapping[str, Collection[str]], contexts: Contexts,
) -> Iterator[Installed]:  # fmt: skip
    instruction = at.instruction
    if instruction.name == "RUN":
        for command in commands(instruction, folder=at.folder):
            yield from _command(command, at, lie_at(stage, at), contexts)
    elif instruction.name in ("COPY", "ADD") and (source := instruction.flag("from")):
        other = read.stage(source, before=stage.stage.index)
        if other is not None:
            yield installed(stages[other.index], read, stages, bases, contexts)
        elif source not in NAMED:
            yield Installed(frozenset(), unknown=True)
    elif instruction.name in ("COPY", "ADD") and any("dpkg" in word for word in instruction.words):
        yield Installed(frozenset(), unknown=True)


def _command(
    command: Command, at: At, folders: Mapping[str, str], contexts: Contexts
) -> Iterator[Installed]:
    values = {**at.values, **command.env}
    words = command.words
    if command.program in _APT and "install" in words:
        yield _apt(words[words.index("install") + 1 :], values, folders, contexts)
    elif files := by_dpkg(command):
        yield _files(files, values, folders, contexts)
    elif _may_install(command):
        yield Installed(frozenset(), unknown=True)


def by_dpkg(command: Command) -> tuple[str, ...]:
    """The files that a command gives dpkg to install."""
    words = command.words
    if command.program != "dpkg" or not {"-i", "--install", "--unpack"} & set(words):
        return ()
    return tuple(word for word in words[1:] if not word.startswith("-"))


def _may_install(command: Command) -> bool:
    if command.program in _ANYTHING or _SCRIPT.match(command.words[0]):
        return True
    return command.program in ("sh", "bash", "source", ".") and len(command.words) > 1


def _apt(
    words: tuple[str, ...], values: Mapping[str, str], folders: Mapping[str, str],
    contexts: Contexts,
) -> Installed:  # fmt: skip
    exact, unknown = set[str](), False
    for word in operands(words, _WITH_VALUE):
        text = known(word, values)
        if text is None:
            unknown = True
            continue
        for name in text.split():
            if name.endswith(".deb"):
                exact |= _files([name], values, folders, contexts).exactly
            else:
                exact.add(re.split(r"[=:/]", name)[0])
    names = frozenset(exact)
    return Installed(names, names, unknown)


def _files(
    paths: Collection[str], values: Mapping[str, str], folders: Mapping[str, str],
    contexts: Contexts,
) -> Installed:  # fmt: skip
    exact, unknown = set[str](), False
    for path in paths:
        text = known(path, values)
        if text is None:
            unknown = True
        elif (found := matching(text, folders, contexts)) is not None:
            exact |= set(found[1].values())
        else:
            exact.add(text.rpartition("/")[2].partition("_")[0].removesuffix(".deb") or "*")
    return Installed(frozenset(exact), unknown=unknown)
