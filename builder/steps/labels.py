"""Name an image that passed its gates: labels, tags, and the candidates before that."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from builder.engine_ports import Engine
from builder.errors import BuildError
from builder.model.label_names import BUILD_ID, CREATED, ENV, GATES, LANE, LOCK_DIGEST, PROVEN
from builder.model.lane import Lane
from builder.model.lock import Lock
from builder.model.proven import digest_of, is_derived
from builder.model.values import LabelledImage, PassedGates, Verdict

CANDIDATES = "imgbuild-candidate"
_OCI = "org.opencontainers.image"


class OnBuildLeft(BuildError):
    """The candidate holds ONBUILD, which labelling would run on what the gates saw."""

    code = "onbuild"


class LabellingChanged(BuildError):
    """Labelling gave more than labels: not what the gates saw."""

    code = "labelling-changed"


def candidate_reference(lane: str, run: str) -> str:
    """The temporary tag of a candidate. No lane's name holds a capital, so none is another's
    prefix."""
    return f"{CANDIDATES}:{lane}-R{run}"


def references(lane: Lane, build_id: str) -> tuple[str, ...]:
    """The tags of a proven image, the lane's own last: they are what people run."""
    return tuple(f"{lane.repository}:{tag}" for tag in (build_id[:12], *lane.tags))


def labels(
    lane: Lane, lock: Lock, *, build_id: str, lock_digest: str, verdicts: Sequence[Verdict]
) -> Mapping[str, str]:
    """What the image says of itself; the same inputs give the same labels."""
    created = datetime.fromtimestamp(lock.epoch, UTC).isoformat().replace("+00:00", "Z")
    found = {
        f"{_OCI}.title": lane.name,
        f"{_OCI}.version": build_id[:12],
        f"{_OCI}.revision": build_id,
        CREATED: created,
        f"{_OCI}.ref.name": f"{lane.repository}:{build_id[:12]}",
        LANE: lane.name,
        BUILD_ID: build_id,
        LOCK_DIGEST: lock_digest,
        "io.imgbuild.arch-list": lane.build.cuda_arch_list,
        GATES: f"{sum(v.passed for v in verdicts)} of {len(verdicts)}",
    }
    if lane.env:
        found[ENV] = " ".join(sorted(lane.env))
    if len(lock.sources) == 1:
        found[f"{_OCI}.source"] = next(iter(lock.sources.values())).url
    for name, source in lock.sources.items():
        found[f"io.imgbuild.source.{name}.commit"] = source.commit
        found[f"io.imgbuild.source.{name}.tree"] = source.final.tree
    for name, base in lock.base.items():
        for platform, digest in base.platforms.items():
            found[f"io.imgbuild.base.{name}.{platform.replace('/', '-')}"] = digest
    return dict(sorted(found.items()))


def label(
    passed: PassedGates,
    labels: Mapping[str, str],
    references: Sequence[str],
    *,
    platform: str,
    epoch: int,
    engine: Engine,
) -> LabelledImage:
    """Give a proven candidate its labels, the digest of what was proven too, and its tags; its
    temporary tag goes.

    The references are moved in their order, after layers, config and history were found to be
    the same; until then nothing of the lane's names is touched. Raises: OnBuildLeft,
    LabellingChanged.
    """
    candidate = passed.image.reference
    before = _whole(passed.image.id, engine)
    if held := before.get("OnBuild"):
        raise _onbuild(held)
    temporary = f"{candidate}-labelled"
    log = passed.image.log.with_name("label.log")
    seen = engine.image(passed.image.id)
    labels = dict(sorted({**labels, **({PROVEN: digest_of(seen)} if seen else {})}.items()))
    image = engine.relabel(
        candidate, labels, platform=platform, epoch=epoch, tag=temporary, log=log
    )
    try:
        _check_same(before, _whole(image, engine), labels)
        former = [engine.image(reference) for reference in references]
        for reference in references:
            engine.tag(image, reference)
    finally:
        engine.untag(temporary)
    engine.untag(candidate)
    _drop_nameless([i.id for i in former if i and i.id != image], engine)
    return LabelledImage(image, tuple(references), labels)


def built(lane: Lane, build_id: str, *, engine: Engine) -> LabelledImage | None:
    """The image of this build, if the engine has it with its labels."""
    names = references(lane, build_id)
    found = engine.image(names[0])
    if found is None or found.labels.get(BUILD_ID) != build_id or GATES not in found.labels:
        return None
    if is_derived(found.labels, digest_of(found), found.created):
        return None
    return LabelledImage(found.id, tuple(n for n in names if n in found.tags), found.labels)


def restore(
    image: LabelledImage, lane: Lane, build_id: str, *, engine: Engine
) -> tuple[LabelledImage, tuple[str, ...]]:
    """Move the lane's tags back to its image, where a build in between took them.

    The image with all its tags, and those that were moved.
    """
    wanted = references(lane, build_id)
    moved = tuple(name for name in wanted if name not in image.tags)
    for name in moved:
        engine.tag(image.id, name)
    return LabelledImage(image.id, wanted, image.labels), moved


def drop_candidates(
    lane: str, *, keep: str, ended: Callable[[str], bool], engine: Engine
) -> tuple[str, ...]:
    """Untag the lane's candidates of former runs; their references.

    `keep` is the run that goes on; `ended` says whether another one does no more.
    """
    pattern = re.compile(rf"{CANDIDATES}:{re.escape(lane)}-R(?P<run>.+?)(?:-labelled)?")
    dropped = []
    for tag in sorted(tag for image in engine.images(CANDIDATES) for tag in image.tags):
        match = pattern.fullmatch(tag)
        if match and match["run"] != keep and ended(match["run"]):
            engine.untag(tag)
            dropped.append(tag)
    return tuple(dropped)


def _drop_nameless(images: Sequence[str], engine: Engine) -> None:
    """Remove images that lost their last name to a newer one of the same build."""
    for image in dict.fromkeys(images):
        there = engine.image(image)
        if there is not None and not there.tags:
            engine.untag(image)


def _whole(image: str, engine: Engine) -> Mapping[str, object]:
    """Config, layers and history; what is empty is left out, however the engine writes it."""
    found = {**engine.config(image), "history": engine.history(image)}
    return {key: value for key, value in sorted(found.items()) if value}


def _check_same(
    before: Mapping[str, object], after: Mapping[str, object], labels: Mapping[str, str]
) -> None:
    own = before.get("Labels")
    wanted = {**before, "Labels": {**(own if isinstance(own, Mapping) else {}), **labels}}
    keys = sorted(wanted.keys() | after.keys())
    changed = [key for key in keys if (wanted.get(key) or None) != after.get(key)]
    if changed:
        raise LabellingChanged(
            f"labelling changed more than the labels of the image: {', '.join(changed)}",
            hint="the candidate and the tags of the lane are as they were; this is a bug of "
            "imgbuild or of buildx",
            detail="\n".join(f"{k}: {wanted.get(k)} -> {after.get(k)}" for k in changed),
        )


def _onbuild(held: object) -> OnBuildLeft:
    lines = [f"ONBUILD {line}" for line in held] if isinstance(held, list) else [str(held)]
    return OnBuildLeft(
        f"the image holds {lines[0]}, which would run when it is labelled, after its gates",
        hint="take it out of the last stage of the Dockerfile, or write the instruction itself",
        detail="\n".join(lines),
    )
