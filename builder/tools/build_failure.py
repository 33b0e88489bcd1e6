"""Why a build failed: which step, in its own words, and whether to try again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.errors import BuildError, Place
from builder.tools.rawjson import Vertex

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
    def has_network(self) -> bool:
        """Whether the step can reach a network: the whole build is told `--network none`."""
        what = self.vertex.instruction if self.vertex else ""
        return not what.startswith("RUN") or bool(re.match(r"RUN (--\S+ )*--network=[dh]", what))


@dataclass(frozen=True, slots=True)
class Transient:
    """A failure that may be gone at the next try."""

    reason: str
    pattern: re.Pattern[str]
    only_with_network: bool = False  # without, it is the rule


def _says(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns))


TRANSIENT = (
    Transient(
        "a server answered 5xx",
        _says(
            r"\b50[0234] +(?:Internal Server Error|Bad Gateway|Gateway Time-?out)",
            r"\b503 +Service (?:Temporarily )?Unavailable",
            r"HTTP Error 50[0234]",
            r"(?:returned error|status(?: code)?|unexpected status[^:]*): ?50[0234]\b",
        ),
    ),
    Transient(
        "a server asked to slow down",
        _says(
            r"429 Too Many Requests", r"HTTP Error 429", r"toomanyrequests",
            r"(?:returned error|status(?: code)?): ?429\b",
        ),
    ),
    Transient(
        "a name did not resolve",
        _says(
            r"Temporary failure in name resolution", r"Temporary failure resolving",
            r"Could not resolve host", r"server misbehaving",
        ),
        only_with_network=True,
    ),
    Transient(
        "a connection broke",
        _says(
            r"[Cc]onnection reset by peer", r"[Cc]onnection timed out", r"Read timed out",
            r"(?:Read|Connect)TimeoutError", r"i/o timeout", r"IncompleteRead",
            r"RPC failed; curl", r"fetch-pack: unexpected disconnect",
        ),
    ),
    Transient(
        "a TLS handshake did not end",
        _says(r"TLS handshake timeout", r"gnutls_handshake\(\) failed", r"SSL_ERROR_SYSCALL"),
    ),
)  # fmt: skip

_CAUSES = (  # the first of the first kind that is there
    _says(
        r"\b(?:fatal )?error(?: ?[#\[][\w-]+\]?)?: ", r"undefined reference to",
        r"CMake Error", r"No space left on device", r"\b(?:nvcc|ptxas) fatal", r"cannot find -l",
        r"^Killed\b", r"Killed signal",
    ),
    _says(
        r"^E: ", r"^ERROR\b", r"^Traceback \(most recent", r"^fatal: ", r"^FAILED: ",
        r": not found$", r"Temporary failure",
    ),
)  # fmt: skip

_GONE = _says(
    r"Cannot connect to the Docker daemon", r"error during connect", r"code = Unavailable",
    r"failed to receive status", r"transport is closing",
)  # fmt: skip
_FULL = _says(r"[Nn]o space left on device")
_KILLED = _says(r"exit code: 137$", r"Killed signal terminated program")
_NO_NETWORK = next(t.pattern for t in TRANSIENT if t.only_with_network)
_BASE = re.compile(
    r"ERROR: failed to solve: .*failed to resolve source metadata for ([^\s]+): (.*)"
)
_PARSE = re.compile(r"dockerfile parse error(?: on)? line \d+: (.*)")
_COMMAND = re.compile(r'process ".*?" did not complete', re.DOTALL)
_LINE = re.compile(r"Dockerfile:(\d+)$")


def transient(evidence: Evidence) -> str | None:
    """Why another try may succeed, or None."""
    tail = [*evidence.output[-_TAIL:], *evidence.error.splitlines()]
    for known in TRANSIENT:
        if known.only_with_network and not evidence.has_network:
            continue
        places = [i for i, line in enumerate(tail) if known.pattern.search(line)]
        if places and not _compiler_error(tail[places[-1] + 1 : -1]):
            return known.reason
    return None


def explain(evidence: Evidence, *, returncode: int) -> BuildFailed:
    """The error that says which step failed, why, and what to do about it."""
    vertex, last = evidence.vertex, "\n".join([*evidence.output[-_TAIL:], evidence.error])
    step = _step(vertex) if vertex else "the build"
    if _FULL.search(last):
        return _error(
            DiskFull, f"{step}: the engine's disk is full", evidence,
            "docker system df shows what takes the space; docker builder prune frees the cache",
        )  # fmt: skip
    if vertex and _KILLED.search(last):
        return _error(
            OutOfMemory, f"{step} was killed, most likely because memory ran out", evidence,
            "give the lane fewer jobs at once ([build] args), or the machine more memory or swap",
        )  # fmt: skip
    if base := _BASE.search(evidence.error):
        return _error(
            BaseUnknown, f"the base {base[1]} cannot be had: {base[2][-200:]}", evidence,
            "build FROM ${BASE_<NAME>} of a [base.<name>] in the lane; if the digest is gone: "
            "imgbuild lock LANE --update <name>",
        )  # fmt: skip
    if parse := _PARSE.search(evidence.error):
        return _error(DockerfileInvalid, f"the Dockerfile cannot be read: {parse[1]}", evidence)
    if vertex is None and _GONE.search("\n".join(evidence.said)):
        return _error(
            EngineGone, "the Docker engine went away during the build", evidence,
            "look whether it runs (docker info); the steps that ended are in its cache",
        )  # fmt: skip
    if vertex and not evidence.has_network and _NO_NETWORK.search(last):
        return _error(
            NoNetwork, f"{step} wants the network, and a locked build has none", evidence,
            "stage what it downloads: [deps], [python] or [debs] in the lane",
        )  # fmt: skip
    code = re.search(r"exit code: (\d+)", vertex.error) if vertex else None
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
