"""What a gate is: it says what it needs and judges what was seen; it starts nothing.

A kind is a frozen dataclass in a module of its own, whose fields are the keys of its table,
and one line in `table.GATES`. Its need is a probe (sh, run in the image) or a search (files,
read out of the image); `examine` brings both, for all gates at once. What the engine says of
the image is in `Evidence.image` for a kind that wants it; what the lane and its build know
(locked wheels, sources, logs, the former image) is in `LaneFacts`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from builder.errors import Place
from builder.model.values import ImageFile, ImageInfo, Verdict
from builder.steps.gates.glob import Glob


class CouldNotLook(Exception):
    """A gate has no answer: not seen is not passed. `judge` may raise it."""

    def __init__(self, why: str, *, hint: str = "", detail: str = "") -> None:
        super().__init__(why)
        self.why, self.hint, self.detail = why, hint, detail


@dataclass(frozen=True, slots=True)
class Probe:
    """A piece of POSIX sh that runs in the image, in its working directory and environment.

    `$1` is an empty folder of its own, in which programs may be written and run.
    """

    name: str  # of its gate's probes
    script: str
    timeout_s: int = 20


@dataclass(frozen=True, slots=True)
class Answer:
    """How a probe ended and what it printed (of each stream, the first MiB)."""

    code: int
    seconds: float
    stdout: str
    stderr: str
    timed_out: bool = False


class Reading(Protocol):
    """Takes the content of one file as it streams by."""

    def feed(self, chunk: bytes) -> bool:
        """Whether it wants more."""

    def result(self) -> Any: ...


class Start(Protocol):
    def __call__(self, file: ImageFile) -> Reading: ...


@dataclass(frozen=True, slots=True)
class Search:
    """Files of the image that a gate reads."""

    glob: Glob
    start: Start
    links: bool = False  # symlinks that match are seen too, with the value None
    layers: bool = False  # what the layers hold that are not a base's, hidden or not


@dataclass(frozen=True, slots=True)
class Seen:
    """A file or folder that a search found, and the result of reading it (None: a folder)."""

    file: ImageFile
    value: Any
    layer: int = 0  # its number, for a search in layers


@dataclass(frozen=True, slots=True)
class LaneFacts:
    """What a lane and its build know. A kind that needs what is not here could not look."""

    lane: str = ""
    cuda_arch_list: str = ""
    wheels: Mapping[str, Path] = field(default_factory=dict)  # distribution -> the locked file
    sources: Callable[[str], Mapping[str, str] | None] | None = None  # name -> (path -> sha256)
    logs: tuple[Path, ...] = ()  # of the image's build, then of the lane's builds before it
    former: ImageInfo | None = None  # the image that the lane's tag names now
    bases: Mapping[str, str] = field(default_factory=dict)  # name -> how the engine knows it
    places: Mapping[Gate, Place] = field(default_factory=dict)  # where each gate is declared


class BaseImage(Protocol):
    """A base of the lane, which is looked into only where a gate asks."""

    @property
    def config(self) -> ImageInfo: ...
    def at(self, paths: Sequence[str], start: Start) -> Mapping[str, Seen]:
        """What lies at these paths. Raises: CouldNotLook."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was seen for one gate."""

    facts: LaneFacts = LaneFacts()
    answers: Mapping[str, Answer] = field(default_factory=dict)  # by the probe's name
    files: tuple[tuple[Seen, ...], ...] = ()  # for each search, sorted by path
    image: ImageInfo | None = None  # for a kind that wants its config
    history: tuple[str, ...] = ()  # for a kind that wants it: what made each layer
    bases: Callable[[str], BaseImage] | None = None  # Raises: CouldNotLook

    def answer(self, probe: str) -> Answer:
        """Raises: CouldNotLook, when the probe did not end in its time."""
        answer = self.answers[probe]
        if answer.timed_out:
            raise CouldNotLook(
                f"no end after {answer.seconds:.0f} s",
                hint="if it only needs longer, and the kind has timeout-s: raise it",
                detail=answer.stdout + answer.stderr,
            )
        return answer

    @property
    def config(self) -> ImageInfo:
        """What the engine says of the image. Raises: CouldNotLook."""
        if self.image is None:
            raise CouldNotLook("the engine does not know the image")
        return self.image


class Fault(NamedTuple):
    """A value that reads well and makes no sense."""

    key: str
    what: str
    hint: str = ""


class Gate(ABC):
    """The base of all kinds."""

    __slots__ = ()
    kind: ClassVar[str]
    wants: ClassVar[frozenset[Literal["config", "history"]]] = frozenset()

    @property
    @abstractmethod
    def about(self) -> str:
        """What it looks at, in a word or two."""

    def faults(self) -> Iterable[Fault]:
        """What is wrong with its table beyond types and names of keys."""
        return ()

    def probes(self) -> tuple[Probe, ...]:
        return ()

    def searches(self) -> tuple[Search, ...]:
        return ()

    @abstractmethod
    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Raises: CouldNotLook."""

    def passed(self, seen: str, *, gate: str = "", about: str = "") -> Verdict:
        return Verdict(gate or self.kind, about or self.about, True, one_line(seen))

    def failed(
        self, seen: str, hint: str = "", *, gate: str = "", about: str = "", detail: str = ""
    ) -> Verdict:
        return Verdict(
            gate or self.kind, about or self.about, False, one_line(seen), hint, detail[-4000:]
        )


def one_line(text: str) -> str:
    """A line without control characters, of a length that fits a terminal's few lines."""
    line = " ".join(text.split())
    line = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)
    return line if len(line) <= 300 else f"{line[:299]}…"


def last_line(text: str) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"
