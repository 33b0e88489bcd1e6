"""Looks at an image for all gates: one container start, one pass over its files."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from builder.errors import ToolFailed
from builder.model.values import ScriptResult, Verdict
from builder.ports import Engine
from builder.steps.gates import script
from builder.steps.gates.files import read_files
from builder.steps.gates.gate import (
    Answer,
    CouldNotLook,
    Evidence,
    Gate,
    LaneFacts,
    Probe,
    Seen,
    last_line,
    one_line,
)

_START_FAILED = 125  # docker's own code


@dataclass(frozen=True, slots=True)
class _Needs:
    """What one gate asked for, or why it has no answer."""

    gate: Gate
    probes: tuple[Probe, ...]
    answers: tuple[Answer | None, ...]
    files: tuple[tuple[Seen, ...], ...]
    blind: CouldNotLook | None


def examine(
    gates: Sequence[Gate], image: str, *, engine: Engine, facts: LaneFacts
) -> tuple[Verdict, ...]:
    """The verdicts of all gates on an image, in the order of the gates.

    A gate that could not look gives a failed verdict. The container of the probes has no
    network and a read-only root; nothing is left behind.
    """
    unique = tuple(dict.fromkeys(gates))
    needs = _look(unique, image, engine)
    verdicts = tuple(verdict for need in needs for verdict in _verdicts(need, facts))
    if verdicts:
        return verdicts
    return (Verdict("gates", "the image", True, "no gate asks for anything in the image"),)


def _look(gates: Sequence[Gate], image: str, engine: Engine) -> list[_Needs]:
    probes = [gate.probes() for gate in gates]
    searches = [gate.searches() for gate in gates]
    answers, no_answer = _ask([p for some in probes for p in some], image, engine)
    files: Sequence[tuple[Seen, ...]] = ()
    unread: CouldNotLook | None = None
    try:
        files = read_files([s for some in searches for s in some], image, engine=engine)
    except CouldNotLook as why:
        unread = why
    except ToolFailed as why:
        unread = CouldNotLook(f"the image's files cannot be read: {why}")
    needs, p, s = [], 0, 0
    for gate, asked, wanted in zip(gates, probes, searches, strict=True):
        mine = tuple(answers[p : p + len(asked)])
        silent = no_answer if any(answer is None for answer in mine) else None
        blind = silent or (unread if wanted else None)
        needs.append(_Needs(gate, asked, mine, tuple(files[s : s + len(wanted)]), blind))
        p, s = p + len(asked), s + len(wanted)
    return needs


def _verdicts(need: _Needs, facts: LaneFacts) -> tuple[Verdict, ...]:
    try:
        if need.blind is not None:
            raise need.blind
        names = [probe.name for probe in need.probes]
        answers = {n: a for n, a in zip(names, need.answers, strict=True) if a is not None}
        return need.gate.judge(Evidence(facts, answers, need.files))
    except CouldNotLook as why:
        seen = f"could not look: {why.why}"
        return (need.gate.failed(seen, why.hint, detail=why.detail),)


def _ask(
    probes: Sequence[Probe], image: str, engine: Engine
) -> tuple[Sequence[Answer | None], CouldNotLook | None]:
    """The answers, and why those that are None have none."""
    if not probes:
        return (), None
    token = f"imgbuild-{secrets.token_hex(12)}"
    text, timeout_s = script.write(probes, token=token)
    try:
        result = engine.run_script(image, text, timeout_s=timeout_s)
    except ToolFailed as failure:
        said = "\n".join(f"{found.what}\n{found.detail}" for found in failure.findings)
        result = ScriptResult(_START_FAILED, b"", said.encode())
    answers = script.read(result.stdout, probes, token=token)
    return answers, _silence(result) if None in answers else None


def _silence(result: ScriptResult) -> CouldNotLook:
    """Why probes have no answer, from how the whole script ended."""
    said = result.stderr.decode("utf-8", "replace").strip()
    if "executable file not found" in said or '"sh"' in said:
        return CouldNotLook(
            "the image has no sh",
            hint="probes are small sh scripts: the last stage needs a shell (busybox is enough)",
            detail=said,
        )
    if result.returncode == _START_FAILED:
        why = one_line(said.partition("\n")[0])
        return CouldNotLook(f"the image cannot be run: {why}", detail=said)
    return CouldNotLook(
        f"the probes broke off with code {result.returncode}: {last_line(said)}",
        hint="probes need head, wc, cat and mkdir in the image, and a writable /tmp",
        detail=said,
    )
