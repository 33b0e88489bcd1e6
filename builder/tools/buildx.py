"""`docker buildx build`, told as it goes, its whole log kept, ended with us."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from builder.model.values import UNNAMED, BuildRequest, BuildStep
from builder.ports import Say
from builder.tools import docker_cli
from builder.tools.build_failure import Evidence, explain, transient
from builder.tools.rawjson import LogLine, Vertex, Vertices, decode

_TRIES = 3
_SAID = 100  # characters of what a stage does right now
_PLACE = re.compile(r"\[[^\]]+\]")


def build(
    request: BuildRequest, *, say: Say, pause_s: float = 5
) -> tuple[str, tuple[BuildStep, ...]]:
    """Build, and load into the engine; the image id and the steps.

    buildx's own account of the result lies beside the log, as `.json`.

    A transient failure is tried again with the cache, at most twice. When it ends badly,
    or the caller is interrupted, nothing of it goes on in the engine. Raises: BuildFailed and
    its kinds, EngineMissing.
    """
    request.log.parent.mkdir(parents=True, exist_ok=True)
    metadata = request.log.with_suffix(".json")
    with request.log.open("wb") as log:
        log.writelines(f"{0:9.3f} [imgbuild] {note}\n".encode() for note in request.notes)
        for left in reversed(range(_TRIES)):
            metadata.unlink(missing_ok=True)
            words = command(request, builder=builder_name(), metadata=metadata)
            narrator = Narrator(log, say)
            returncode = _attempt(words, narrator)
            if returncode == 0:
                return _image_id(metadata), narrator.vertices.steps()
            evidence = narrator.evidence(request)
            reason = transient(evidence)
            if reason is None or not left:
                raise explain(evidence, returncode=returncode)
            narrator.note(
                f"{reason}: trying again in {pause_s:g} s, with what is done in the cache"
            )
            time.sleep(pause_s)
    raise AssertionError


def builder_name() -> str:
    """The builder that lies in the engine itself: buildx names it as the current context."""
    return docker_cli.run("context", "inspect", "--format", "{{.Name}}").text.strip()


def command(request: BuildRequest, *, builder: str, metadata: Path) -> list[str | Path]:
    """The words behind `docker`."""
    words: list[str | Path] = [
        "buildx", "build", "--builder", builder, "--progress", "rawjson",
        "--provenance=false", "--sbom=false", "--network", "none",
        "--platform", request.platform, "--file", request.context / "Dockerfile",
    ]  # fmt: skip
    for flag, pairs in (
        ("--build-context", request.named),
        ("--build-arg", request.args),
        ("--label", request.labels),
    ):
        for name, value in sorted(pairs.items()):
            words += [flag, f"{name}={value}"]
    if request.no_cache:
        words.append("--no-cache")
    return [
        *words, "--metadata-file", metadata, "--tag", request.tag, "--load", request.context,
    ]  # fmt: skip


def _attempt(words: list[str | Path], narrator: Narrator) -> int:
    with docker_cli.started(words, stdin=subprocess.DEVNULL) as process:
        assert process.stderr is not None
        for message in decode(process.stderr):
            narrator.hear(message)
        return process.wait()


def _image_id(metadata: Path) -> str:
    # On both stores the id by which the engine knows it: the config's digest on the classic
    # one, the manifest's on containerd's.
    told = json.loads(metadata.read_bytes())
    return str(told["containerimage.digest"])


@dataclass(slots=True)
class Narrator:
    """Hears what buildx tells: writes the log, says what goes on, keeps what is needed later."""

    log: IO[bytes]
    say: Say
    vertices: Vertices = field(default_factory=Vertices)
    said: list[str] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)
    _last: str = ""

    def hear(self, message: object) -> None:
        if isinstance(message, str):
            self.said.append(message)
            self._write(message)
            return
        assert isinstance(message, dict)
        for event in self.vertices.apply(message):
            if isinstance(event, LogLine):
                self._line(event)
            else:
                self._vertex(event)
        self.log.flush()

    def note(self, text: str) -> None:
        self._write(text)
        self.say(text)

    def evidence(self, request: BuildRequest) -> Evidence:
        failed = next((v for v in self.vertices.by_digest.values() if v.failed), None)
        written = request.dockerfile or request.context / "Dockerfile"
        return Evidence(failed, self.said, written, request.log)

    def _line(self, line: LogLine) -> None:
        vertex = self.vertices.by_digest[line.vertex]
        self._write(f"{_place(vertex)}   {line.text}")
        if line.text.strip():
            self._tell(vertex, line.text)

    def _vertex(self, vertex: Vertex) -> None:
        for text in _news(vertex):
            self._write(f"{_place(vertex)} {text}")
        if vertex.is_running and (vertex.is_of_dockerfile or vertex.name.startswith("export")):
            self._tell(vertex, vertex.instruction)

    def _tell(self, vertex: Vertex, what: str) -> None:
        text = " ".join(what.split())
        text = f"{vertex.stage or UNNAMED}  {text[:_SAID]}"
        if text != self._last:
            self._last = text
            self.say(text)

    def _write(self, text: str) -> None:
        line = f"{time.monotonic() - self._began:9.3f} {text}\n"
        self.log.write(line.encode("utf-8", "replace"))


def _place(vertex: Vertex) -> str:
    match = _PLACE.match(vertex.name) if vertex.is_of_dockerfile else None
    return match[0] if match else "[buildkit]"


def _news(vertex: Vertex) -> Iterator[str]:
    if vertex.is_running:
        yield vertex.instruction
    elif vertex.error:
        yield f"{'failed' if vertex.failed else 'canceled'} after {vertex.seconds:.1f} s"
    elif vertex.is_of_dockerfile and vertex.cached:
        yield f"cached: {vertex.instruction}"
    elif vertex.is_of_dockerfile and vertex.completed:
        yield f"done in {vertex.seconds:.1f} s"
