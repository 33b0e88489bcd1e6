"""What buildx tells with `--progress=rawjson`, decoded as it comes.

buildx 0.13 writes concatenated indented JSON objects, newer versions one object a line; the
data of logs is base64. Between and after them stands plain text: warnings, the excerpt of
the Dockerfile, the last `ERROR:` line.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from builder.model.values import BuildStep

_NAME = re.compile(
    r"\[(?:linux/\S+ )?(?:(?P<stage>\S+) +)?(?P<line>\d+)/\d+\] (?P<what>.*)", re.DOTALL
)
_UNNAMED = re.compile(r"stage-\d+")
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_LONGEST_LINE = 64 * 1024  # characters of a log line without an end


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line that a vertex wrote."""

    vertex: str  # its digest
    text: str  # printable


@dataclass(slots=True)
class Vertex:
    """One step of the build, as far as it has been told of."""

    digest: str
    name: str  # "[kern-cuda 3/5] RUN make"
    started: datetime | None = None
    completed: datetime | None = None
    cached: bool = False
    error: str = ""
    lines: list[str] = field(default_factory=list)
    pending: str = ""  # a line that has no end yet

    @property
    def stage(self) -> str:
        """The name of the Dockerfile's stage; empty when it has none."""
        match = _NAME.match(self.name)
        stage = (match and match["stage"]) or ""
        return "" if _UNNAMED.fullmatch(stage) else stage

    @property
    def instruction(self) -> str:
        """What it does, in one printable line."""
        match = _NAME.match(self.name)
        return printable(" ".join((match["what"] if match else self.name).split()))

    @property
    def is_of_dockerfile(self) -> bool:
        return _NAME.match(self.name) is not None

    @property
    def is_internal(self) -> bool:
        return self.name.startswith("[internal]")

    @property
    def group(self) -> str:
        """What it is a step of: a stage of the Dockerfile, or itself."""
        match = _NAME.match(self.name)
        return (match["stage"] or "") if match else self.name

    @property
    def line(self) -> int:
        """Which step of its stage it is."""
        match = _NAME.match(self.name)
        return int(match["line"]) if match else 0

    @property
    def first(self) -> datetime:
        found = self.started or self.completed
        assert found is not None, "it has ended"
        return found

    @property
    def is_running(self) -> bool:
        return self.started is not None and self.completed is None

    @property
    def failed(self) -> bool:
        """Whether it failed itself, not because another one did."""
        return bool(self.error) and not self.error.endswith("context canceled")

    @property
    def seconds(self) -> float:
        if self.started is None or self.completed is None:
            return 0.0
        return max(0.0, (self.completed - self.started).total_seconds())


@dataclass(slots=True)
class Vertices:
    """All vertices of a build, in the order in which they were first told of."""

    by_digest: dict[str, Vertex] = field(default_factory=dict)

    def apply(self, message: Mapping[str, Any]) -> Iterator[Vertex | LogLine]:
        """Take in one message; what is new: vertices that began or ended, and log lines."""
        for told in message.get("vertexes") or ():
            vertex, changed = self._update(told)
            if changed and vertex.completed is not None:
                yield from self._flush(vertex)
            if changed:
                yield vertex
        for log in message.get("logs") or ():
            yield from self._log(log)

    def steps(self) -> tuple[BuildStep, ...]:
        """The vertices that ended, but for what BuildKit does for itself: stage after stage, as
        they began, each by its lines."""
        ended = [v for v in self.by_digest.values() if v.completed and not v.is_internal]
        began: dict[str, datetime] = {}
        for vertex in ended:
            began[vertex.group] = min(filter(None, (began.get(vertex.group), vertex.first)))
        return tuple(
            BuildStep(vertex.stage, vertex.instruction, vertex.seconds, vertex.cached)
            for vertex in sorted(
                ended, key=lambda v: (not v.is_of_dockerfile, began[v.group], v.group, v.line)
            )
        )

    def _update(self, told: Mapping[str, Any]) -> tuple[Vertex, bool]:
        digest = str(told.get("digest", ""))
        vertex = self.by_digest.get(digest)
        if vertex is None:
            vertex = self.by_digest[digest] = Vertex(digest, str(told.get("name", "")))
        before = (vertex.started is None, vertex.completed is None, vertex.error)
        started, completed = _time(told.get("started")), _time(told.get("completed"))
        # BuildKit starts a vertex again when it needs it again: the first start counts.
        vertex.started = vertex.started or started
        vertex.completed = completed if started or completed else vertex.completed
        vertex.cached = vertex.cached or bool(told.get("cached"))
        vertex.error = str(told.get("error") or vertex.error)
        return vertex, before != (vertex.started is None, vertex.completed is None, vertex.error)

    def _log(self, log: Mapping[str, Any]) -> Iterator[LogLine]:
        vertex = self.by_digest.get(str(log.get("vertex", "")))
        if vertex is None:
            return
        try:
            data = base64.b64decode(log.get("data") or "", validate=True)
        except (binascii.Error, ValueError):
            return
        *whole, vertex.pending = (vertex.pending + data.decode("utf-8", "replace")).split("\n")
        for line in whole:
            yield self._line(vertex, line)
        if len(vertex.pending) > _LONGEST_LINE:
            yield from self._flush(vertex)

    def _flush(self, vertex: Vertex) -> Iterator[LogLine]:
        rest, vertex.pending = vertex.pending, ""
        if rest:
            yield self._line(vertex, rest)

    def _line(self, vertex: Vertex, raw: str) -> LogLine:
        # A line that was drawn over by carriage returns shows its last state.
        text = printable(raw.rstrip("\r").rpartition("\r")[2])
        vertex.lines.append(text)
        return LogLine(vertex.digest, text)


def decode(lines: Iterable[bytes]) -> Iterator[Mapping[str, Any] | str]:
    """The JSON objects and the plain text lines of buildx's stderr, in their order."""
    held: list[bytes] = []
    for line in lines:
        bare = line.rstrip(b"\r\n")
        if held or bare == b"{":
            held.append(bare)
            if bare == b"}":
                yield from _object(held)
                held = []
        elif bare.startswith(b"{"):
            yield from _object([bare])
        else:
            yield _text(bare)
    yield from map(_text, held)


def printable(text: str) -> str:
    """Text of outside with colours dropped and control characters made visible."""
    if text.isascii() and text.isprintable():
        return text
    plain = _ESCAPE.sub("", text).replace("\t", "    ")
    return "".join(_visible(c) if unicodedata.category(c)[0] == "C" else c for c in plain)


def _visible(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _object(held: list[bytes]) -> Iterator[Mapping[str, Any] | str]:
    try:
        found = json.loads(b"\n".join(held))
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        yield found
    else:
        yield from map(_text, held)


def _text(bare: bytes) -> str:
    return printable(bare.decode("utf-8", "replace"))


def _time(text: object) -> datetime | None:
    if not isinstance(text, str):
        return None
    # Nanoseconds; fromisoformat of Python 3.11 takes at most six digits exactly.
    short = re.sub(r"(\.\d{6})\d+", r"\1", text)
    try:
        return datetime.fromisoformat(short)
    except ValueError:
        return None
