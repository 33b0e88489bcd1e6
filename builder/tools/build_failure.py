"""Why a build failed: which step, in its own words, and whether to try again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.errors import BuildError, Place
from builder.tools.rawjson import Vertex
from builder.tools.transient import TRANSIENT, says

_CONTEXT, _KEPT = 2, 20  # lines before the first error, lines shown
_WIDTH = 240  # characters of a line that is shown
_TAIL = 60  # lines in which a transient failure is looked for


class BuildFailed(BuildError):
    """A step failed; the detail is its own output around the first error."""

    code = "build-failed"


class EngineGone(BuildFailed):
    code = "engine-gone"


class DiskFull(BuildFailed):
    code = "disk-full"


class OutOfMemory(BuildFailed):
    code = "out-of-memory"


class DockerfileInvalid(BuildFailed):
    code = "dockerfile-invalid"


class BaseUnknown(BuildFailed):
    code = "base-unknown"


class NoNetwork(BuildFailed):
    code = "build-no-network"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a build that failed."""

    vertex: Vertex | None  # the step that failed itself
    said: Sequence[str]  # plain text lines of buildx, its "ERROR:" among them
    dockerfile: Path
    log: Path

    @property
    def output(self) -> Sequence[str]:
        return self.vertex.lines if self.vertex else ()

    @property
    def error(self) -> str:
        """buildx's last word, and that of the step, without the command that it ran."""
        last = [line for line in self.said if line.startswith("ERROR:")][-1:]
        words = "\n".join([*last, *([self.vertex.error] if self.vertex else [])])
        return _COMMAND.sub("the command did not complete", words)

    @property
    def end(self) -> str:
        """The last lines of the step's output, and the errors."""
        return "\n".join([*self.output[-_TAIL:], self.error])

    @property
    def has_network(self) -> bool:
        """Whether the step can reach a network: the whole build is told `--network none`."""
        what = self.vertex.instruction if self.vertex else ""
        return not what.startswith("RUN") or bool(re.match(r"RUN (--\S+ )*--network=[dh]", what))


_CAUSES = (  # the first of the first kind that is there
    says(
        r"\b(?:fatal )?error(?: ?[#\[][\w-]+\]?)?: ", r"undefined reference to",
        r"CMake Error", r"No space left on device", r"\b(?:nvcc|ptxas) fatal", r"cannot find -l",
        r"^Killed\b", r"Killed signal",
    ),
    says(
        r"^E: ", r"^ERROR\b", r"^Traceback \(most recent", r"^fatal: ", r"^FAILED: ",
        r": not found$", r"Temporary failure",
    ),
)  # fmt: skip

_GONE = says(
    r"Cannot connect to the Docker daemon", r"error during connect", r"code = Unavailable",
    r"failed to receive status", r"transport is closing", r"error reading from server",
)  # fmt: skip
_FULL = says(r"[Nn]o space left on device")
_KILLED = says(r"exit code: 137$", r"Killed signal terminated program")
_NO_NETWORK = next(t.pattern for t in TRANSIENT if t.only_with_network)
_BASE = re.compile(
    r"ERROR: failed to solve: .*failed to resolve source metadata for ([^\s]+): (.*)"
)
_PARSE = re.compile(r"dockerfile parse error(?: on)? line \d+: (.*)")
_COMMAND = re.compile(r'process ".*?" did not complete', re.DOTALL)
_LINE = re.compile(r"Dockerfile:(\d+)$")


def transient(evidence: Evidence) -> str | None:
    """Why another try may succeed, or None."""
    tail = evidence.end.splitlines()
    for known in TRANSIENT:
        if known.only_with_network and not evidence.has_network:
            continue
        places = [i for i, line in enumerate(tail) if known.pattern.search(line)]
        if places and not _compiler_error(tail[places[-1] + 1 : -1]):
            return known.reason
    return None


def explain(evidence: Evidence, *, returncode: int) -> BuildFailed:
    """The error that says which step failed, why, and what to do about it."""
    step = _step(evidence.vertex) if evidence.vertex else "the build"
    for kind, look, hint in _KINDS:
        if seen := look(evidence):
            return _error(kind, seen.replace("{step}", step), evidence, hint)
    code = re.search(r"exit code: (\d+)", evidence.vertex.error) if evidence.vertex else None
    ending = f"ended with code {code[1]}" if code else f"failed: {_last_word(evidence, returncode)}"
    return _error(BuildFailed, f"{step} {ending}", evidence)


def excerpt(lines: Sequence[str]) -> list[str]:
    """The lines around the first error; the last ones when none stands out."""
    for kind in _CAUSES:
        first = next((i for i, line in enumerate(lines) if kind.search(line)), None)
        if first is not None:
            start = max(0, first - _CONTEXT)
            shown = [line[:_WIDTH] for line in lines[start : start + _KEPT]]
            return shown + (["…"] if start + _KEPT < len(lines) else [])
    return [line[:_WIDTH] for line in lines[-_KEPT:]]


def _full(evidence: Evidence) -> str:
    return "{step}: the engine's disk is full" if _FULL.search(evidence.end) else ""


def _killed(evidence: Evidence) -> str:
    killed = evidence.vertex is not None and _KILLED.search(evidence.end)
    return "{step} was killed, most likely because memory ran out" if killed else ""


def _base(evidence: Evidence) -> str:
    match = _BASE.search(evidence.error)
    return f"the base {match[1]} cannot be had: {match[2][-200:]}" if match else ""


def _dockerfile(evidence: Evidence) -> str:
    match = _PARSE.search(evidence.error)
    return f"the Dockerfile cannot be read: {match[1]}" if match else ""


def _gone(evidence: Evidence) -> str:
    gone = evidence.vertex is None and _GONE.search("\n".join(evidence.said))
    return "the Docker engine went away during the build" if gone else ""


def _no_network(evidence: Evidence) -> str:
    wanted = not evidence.has_network and _NO_NETWORK.search(evidence.end)
    return "{step} wants the network, and a locked build has none" if wanted else ""


_KINDS: tuple[tuple[type[BuildFailed], Callable[[Evidence], str], str], ...] = (
    (DiskFull, _full,
     "docker system df shows what takes the space; docker builder prune frees the cache"),
    (OutOfMemory, _killed,
     "give the lane fewer jobs at once ([build] args), or the machine more memory or swap"),
    (BaseUnknown, _base,
     "build FROM an argument BASE_… of a table [base.…] in the lane; if its digest is gone "
     "and git diff locks/LANE.lock shows no edit: imgbuild lock LANE --update, with the table's "
     "name"),
    (DockerfileInvalid, _dockerfile, ""),
    (EngineGone, _gone,
     "look whether it runs (docker info); the steps that ended are in its cache"),
    (NoNetwork, _no_network,
     "stage what it downloads: [deps], [python] or [debs] in the lane"),
)  # fmt: skip


def _compiler_error(lines: Sequence[str]) -> bool:
    return any(_CAUSES[0].search(line) for line in lines)


def _step(vertex: Vertex) -> str:
    what = vertex.instruction
    what = what if len(what) <= 100 else f"{what[:99]}…"
    return f"{vertex.stage}: {what}" if vertex.stage else what


def _last_word(evidence: Evidence, returncode: int) -> str:
    words = (evidence.error or f"buildx ended with code {returncode}").splitlines()[0]
    return words.removeprefix("ERROR: ").removeprefix("failed to solve: ")[:300]


def _error(kind: type[BuildFailed], what: str, evidence: Evidence, hint: str = "") -> BuildFailed:
    line = next((int(m[1]) for said in evidence.said if (m := _LINE.match(said))), None)
    shown = excerpt(evidence.output) or list(_words(evidence.said))
    return kind(
        what,
        hint=hint or f"the whole log: {evidence.log}",
        detail="\n".join([*shown, *([f"the whole log: {evidence.log}"] if hint else [])]),
        place=Place(evidence.dockerfile, line) if line else None,
    )


def _words(said: Sequence[str]) -> Iterator[str]:
    yield from (line[:_WIDTH] for line in said[-_KEPT:])
