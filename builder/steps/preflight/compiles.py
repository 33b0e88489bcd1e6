"""Which commands of a Dockerfile compile, and whether that is device code.

Certain are nvcc itself and whatever builds a source of the lane that holds CUDA files. Of what
the lane does not know (a `git clone`, a copied folder) it can only be said that it may be, and
that it is likely: `setup.py`, or a folder with the name of such a source. A Python build that
only packs the files of its source compiles nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from builder.steps.dockerfile import Instruction
from builder.steps.preflight.packaging import Plain
from builder.steps.preflight.shell import Command, commands, known
from builder.steps.preflight.values import At, Valued

_STAGED = re.compile(r"(?:^|/)sources/(?P<name>[a-z0-9._-]+?)(?P<part>-native|-rest)?\.tar$")
_ABOUT = frozenset({"--version", "-V", "-v", "--help", "-h", "clean", "--list"})
_PYTHON = re.compile(r"python(?:3(?:\.[0-9]+)?)?")
_BUILDS = frozenset({"bdist_wheel", "install", "develop", "build", "build_ext", "bdist_egg"})
_FLAGS = re.compile(r"-?-gencode|-?-arch|--gpu-architecture|--generate-code|-?-code|.*\$")
_CMAKE_ARCH = re.compile(r"-D[A-Z_]*(?:CUDA_ARCH|ARCHITECTURES|ARCH_LIST|GPU_ARCHS|SM_ARCH)")
_BUILT = re.compile(r"[A-Z_]*(?:USE_PRECOMPILED|PRECOMPILED_WHEEL_LOCATION)")
_NO = ("", "0", "false", "no", "off")
_WITH_VALUE = frozenset(
    (
        "-r", "--requirement", "-c", "--constraint", "-i", "--index-url", "--extra-index-url", "-f",
        "--find-links", "-t", "--target", "--prefix", "--root", "-w", "--wheel-dir", "--python",
        "--config-settings", "-C", "--index", "--platform", "--no-binary", "--only-binary",
        "--global-option", "--build-option", "--torch-backend", "--default-index",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Compile:
    """A command that compiles."""

    tool: str  # "nvcc", "cmake", "make", "pip", "setup.py"
    at: At
    command: Command
    source: str = ""  # of the lane, when it is known
    sure: bool = False  # it compiles device code
    likely: bool = False  # it seems to; the lane does not know what it builds
    states_arch: bool = False  # its own words say for which GPU

    @property
    def run(self) -> Instruction:
        return self.at.instruction


def compiles(
    stage: Valued, cuda: Collection[str], plain: Plain = lambda *_: False
) -> Iterator[Compile]:
    """What a stage compiles. `cuda` are the lane's sources with device code; `plain` knows which
    folders of them a Python build only packs."""
    held = _held(stage)
    for at in stage.steps:
        if at.instruction.name != "RUN":
            continue
        mounted = {**held, **_mounted(at.instruction)}
        for command in commands(at.instruction, folder=at.folder):
            tool = _tool(command)
            if not tool:
                continue
            source, inside = _source(command, mounted)
            rest_only = mounted.get(source) == "-rest"
            packed = tool in ("pip", "setup.py") and inside is not None and plain(source, inside)
            sure = tool == "nvcc" or (source in cuda and not rest_only and not packed)
            if not sure and (source or _takes_built(command, at)):
                continue  # a source of the lane without device code, or nothing is compiled
            likely = not sure and (tool == "setup.py" or _called(command, cuda))
            yield Compile(tool, at, command, source, sure, likely, _states_arch(tool, command))


def _tool(command: Command) -> str:
    words = command.words
    if _ABOUT & set(words[1:2]) or (len(words) == 1 and words[0] in ("nvcc", "cmake")):
        return ""
    tools = {"nvcc": "nvcc", "cmake": "cmake", "make": "make", "gmake": "make", "ninja": "make"}
    if command.program in tools:
        return tools[command.program]
    return _of_python(words)


def _of_python(words: tuple[str, ...]) -> str:
    words = (words[0].rpartition("/")[2], *words[1:])
    if words[0] == "uv" and words[1:2] == ("run",):
        return _of_python(words[2:]) if len(words) > 2 else ""
    if words[0] == "uv":
        words = words[1:]
        if words[:1] == ("build",):
            return "pip" if _ABOUT.isdisjoint(words) else ""
    elif _PYTHON.fullmatch(words[0]):
        if any(word.endswith("setup.py") for word in words[1:3]):
            return "setup.py" if _BUILDS & set(words) else ""
        if words[1:2] != ("-m",):
            return ""
        words = words[2:]
        if words[:1] == ("build",):
            return "pip"
    if words and re.fullmatch(r"pip(?:3(?:\.[0-9]+)?)?", words[0]) and len(words) > 2:
        return "pip" if words[1] in ("install", "wheel") and any(_operands(words[2:])) else ""
    return ""


def _operands(words: tuple[str, ...]) -> Iterator[str]:
    """What pip is given that it has to build: folders, and repositories."""
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in _WITH_VALUE:
            skip = True
        elif word.startswith("git+") or "@ git+" in word or word in (".", ".."):
            yield word
        elif word.startswith(("/", "./", "../")) and not re.search(
            r"\.(?:whl|txt|toml)\b|\*", word
        ):
            yield word.partition("[")[0]
        elif word.startswith(".["):
            yield "."


def _held(stage: Valued) -> dict[str, str]:
    """The staged sources that a stage has unpacked, and which part of each."""
    found: dict[str, str] = {}
    for each in reversed(stage.chain):
        for read in each.stage.named("ADD", "COPY"):
            if read.flag("from") is None:
                for path in read.sources:
                    _note(found, path)
    return found


def _mounted(run: Instruction) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for mount in run.mounts:
        _note(found, mount.get("source", ""))
    return found


def _note(found: dict[str, str], path: str) -> None:
    path = re.sub(r"\[(.)\]", r"\1", path)  # x.ta[r]: x.tar, if it is staged
    if match := _STAGED.search(path):
        name, part = match["name"], match["part"] or ""
        found[name] = part if found.get(name, part) == part else ""


def _source(command: Command, held: Mapping[str, str]) -> tuple[str, str | None]:
    """The lane's source that a command builds, by a folder of its name in what it was given, and
    the folder within it; None: it is the only one that is there."""
    places = [word for word in command.words[1:] if not word.startswith("--")] + [command.folder]
    for place in places:
        parts = [part for part in re.split(r"[/=:]", place.partition("[")[0]) if part != "."]
        for name in sorted(held, key=len, reverse=True):
            if name in parts:
                return name, "/".join(parts[parts.index(name) + 1 :]).strip("/")
    return (next(iter(held)), None) if len(held) == 1 else ("", None)


def _called(command: Command, sources: Collection[str]) -> bool:
    """Whether the folder that a command builds has the name of one of these sources."""
    return any(place.rpartition("/")[2] in sources for place in (*command.words, command.folder))


def _takes_built(command: Command, at: At) -> bool:
    """Whether its variables say that what would be compiled is taken from a wheel."""
    outside = {} if command.clean else at.values
    values = {**command.env, **outside}  # X="${X}" means the one from outside
    said = {**values, **{name: known(v, values) for name, v in command.env.items()}}
    return any(_BUILT.fullmatch(n) and (v is None or v.lower() not in _NO) for n, v in said.items())


def _states_arch(tool: str, command: Command) -> bool:
    words = command.words[1:]
    if tool == "nvcc":
        return any(_FLAGS.match(word) for word in words)
    for name, value in command.env.items():
        if value and "ARCH" in name and "TORCH_CUDA_ARCH_LIST" not in name + value:  # its own
            return True
    return any(_CMAKE_ARCH.match(word) for word in words)
