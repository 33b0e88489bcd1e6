"""Looks at an image for all gates: one container start, one pass over its files."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from builder.engine_ports import Engine
from builder.errors import DistributionError, ToolFailed
from builder.model.locate import line_of
from builder.model.values import ImageInfo, ScriptResult, Verdict
from builder.steps.gates import script
from builder.steps.gates.files import EngineBase, read_files, read_layers
from builder.steps.gates.gate import (
    Answer,
    BaseImage,
    CouldNotLook,
    Evidence,
    Gate,
    LaneFacts,
    Probe,
    Search,
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


@dataclass(frozen=True, slots=True)
class _Told:
    """What the engine says of the image, as far as any gate wants it."""

    image: ImageInfo | None = None
    history: tuple[str, ...] = ()


def examine(
    gates: Sequence[Gate], image: str, *, engine: Engine, facts: LaneFacts
) -> tuple[Verdict, ...]:
    """The verdicts of all gates on an image, in the order of the gates.

    A gate that could not look gives a failed verdict; what two gates say alike is said once. The
    container of the probes has no network and a read-only root; nothing is left behind.
    """
    unique = tuple(dict.fromkeys(gates))
    told = _tell(unique, image, engine)
    needs = _look(unique, image, engine, facts)
    verdicts: dict[tuple[object, ...], Verdict] = {}
    for need in needs:
        for v in _verdicts(need, facts, told, engine):
            verdicts.setdefault((v.gate, v.about, v.passed, v.seen), _placed(v, need.gate, facts))
    if verdicts:
        return tuple(verdicts.values())
    return (Verdict("gates", "the image", True, "no gate asks for anything in the image"),)


def _placed(verdict: Verdict, gate: Gate, facts: LaneFacts) -> Verdict:
    place = facts.places.get(gate)
    if verdict.passed or place is None:
        return verdict
    try:
        line = line_of(place.file.read_text(encoding="utf-8"), place.key)
    except (OSError, UnicodeDecodeError):
        line = None
    return replace(verdict, file=str(place.file), line=line)


def _tell(gates: Sequence[Gate], image: str, engine: Engine) -> _Told:
    wanted = {want for gate in gates for want in gate.wants}
    if not wanted:
        return _Told()
    found = engine.image(image)
    return _Told(found, engine.history(image) if found and "history" in wanted else ())


def _look(gates: Sequence[Gate], image: str, engine: Engine, facts: LaneFacts) -> list[_Needs]:
    probes = [gate.probes() for gate in gates]
    searches = [gate.searches() for gate in gates]
    asked = [(gate, probe) for gate, some in zip(gates, probes, strict=True) for probe in some]
    answers, no_answer = _ask(asked, image, engine)
    files, unread = _read([s for some in searches for s in some], image, engine, facts)
    needs, p, s = [], 0, 0
    for gate, mine, wanted in zip(gates, probes, searches, strict=True):
        heard = tuple(answers[p : p + len(mine)])
        silent = no_answer if any(answer is None for answer in heard) else None
        blind = silent or next((unread[w.layers] for w in wanted if w.layers in unread), None)
        needs.append(_Needs(gate, mine, heard, tuple(files[s : s + len(wanted)]), blind))
        p, s = p + len(mine), s + len(wanted)
    return needs


def _read(
    searches: Sequence[Search], image: str, engine: Engine, facts: LaneFacts
) -> tuple[list[tuple[Seen, ...]], dict[bool, CouldNotLook]]:
    """What each search found, and why files (False) or layers (True) were not read."""
    found: list[tuple[Seen, ...]] = [() for _ in searches]
    unread: dict[bool, CouldNotLook] = {}
    for layers in sorted({search.layers for search in searches}):
        at = [i for i, search in enumerate(searches) if search.layers is layers]
        mine = [searches[i] for i in at]
        try:
            if layers:
                above = _of_bases(image, facts, engine)
                seen = read_layers(mine, image, above=above, engine=engine)
            else:
                seen = read_files(mine, image, engine=engine)
        except CouldNotLook as why:
            unread[layers] = why
        except (ToolFailed, DistributionError) as why:
            what = "layers" if layers else "files"
            unread[layers] = CouldNotLook(f"the image's {what} cannot be read: {why}")
        else:
            for i, files in zip(at, seen, strict=True):
                found[i] = files
    return found, unread


def _of_bases(image: str, facts: LaneFacts, engine: Engine) -> int:
    """How many layers are those of a base, which its digest pins; of several, the fewest."""
    own = engine.image(image)
    bases = [b for ref in facts.bases.values() if (b := engine.image(ref)) is not None]
    shared = [len(b.layers) for b in bases if own and own.layers[: len(b.layers)] == b.layers]
    return min(shared, default=0)


def _base(name: str, facts: LaneFacts, engine: Engine) -> BaseImage:
    reference = facts.bases.get(name)
    if reference is None:
        raise CouldNotLook(
            f"which image base {name} is, is not known here",
            hint="it is when the lane is locked for this engine's platform",
        )
    found = engine.image(reference)
    if found is None:
        raise CouldNotLook(f"the engine does not have base {name} ({reference})")
    return EngineBase(reference, found, engine)


def _verdicts(need: _Needs, facts: LaneFacts, told: _Told, engine: Engine) -> tuple[Verdict, ...]:
    try:
        if need.blind is not None:
            raise need.blind
        names = [probe.name for probe in need.probes]
        answers = {n: a for n, a in zip(names, need.answers, strict=True) if a is not None}
        base = partial(_base, facts=facts, engine=engine)
        seen = Evidence(facts, answers, need.files, told.image, told.history, base)
        return need.gate.judge(seen)
    except ToolFailed as failed:
        return (need.gate.failed(f"could not look: {failed}"),)
    except CouldNotLook as why:
        blind = f"could not look: {why.why}"
        hint = why.hint.replace("LANE", facts.lane or "LANE")
        return (need.gate.failed(blind, hint, detail=why.detail),)


def _ask(
    asked: Sequence[tuple[Gate, Probe]], image: str, engine: Engine
) -> tuple[Sequence[Answer | None], CouldNotLook | None]:
    """The answers, and why those that are None have none."""
    if not asked:
        return (), None
    probes = [probe for _, probe in asked]
    token = f"imgbuild-{secrets.token_hex(12)}"
    text, timeout_s = script.write(probes, token=token)
    try:
        result = engine.run_script(image, text, timeout_s=timeout_s, most=script.most(probes))
    except ToolFailed as failure:
        said = "\n".join(f"{found.what}\n{found.detail}" for found in failure.findings)
        result = ScriptResult(_START_FAILED, b"", said.encode())
    answers = script.read(result.stdout, probes, token=token)
    if None not in answers:
        return answers, None
    return answers, _silence(result, asked[answers.index(None)][0])


def _silence(result: ScriptResult, first: Gate) -> CouldNotLook:
    """Why probes have no answer, from how the whole script ended; `first` is the first of them."""
    if result.ended:
        why = f"the probes were ended at {first.kind} {first.about}: {result.ended}"
        hint = (
            "those before it have their answers; where the image has a timeout that works "
            "(coreutils, busybox), each is ended alone"
            if "no end" in result.ended
            else "what prints that, sh itself? docker run --rm --entrypoint sh IMAGE -c true"
        )
        return CouldNotLook(why, hint=hint, detail=result.stdout[-2000:].decode("utf-8", "replace"))
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
