"""What a build does again when its inputs change: the stages of the pipeline.

An over-approximation: what is said to run may be found in a cache after all; what is said
not to run has the same inputs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder.steps import dockerfile, identity
from builder.steps.dockerfile import Dockerfile
from builder.steps.image import dockerfile as with_record
from builder.steps.image import variable, version
from builder.steps.rebuild_stages import BuildInputs, StageRun, stage_runs

STAGES = ("fetch", "verify", "patch", "preflight", "stage", "build", "gates", "label")
"""The pipeline's, in order."""

_FOLLOW = {"BUILD_ID", "CACHE_FINGERPRINT"}  # move with other inputs, which are told
BUILD_ID = "BUILD_ID"
"""The argument that moves with every change: of stages a reason, and never an input of its own."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What each stage of the pipeline takes, by a name that people know: `sources.kern commit`."""

    fetch: Mapping[str, str]
    verify: Mapping[str, str]
    patch: Mapping[str, str]
    stage: Mapping[str, str]  # files of the build context and of the named ones
    build: BuildInputs
    gates: Mapping[str, str]
    label: Mapping[str, str]

    @property
    def archives(self) -> Mapping[str, str]:
        """Those files of the context that are archives of the file store, with their sha256."""
        mine = ("sources/", "deps/deps-src")
        return {path: digest for path, digest in self.stage.items() if path.startswith(mine)}


@dataclass(frozen=True, slots=True)
class Again:
    """One stage of the pipeline, and why it does something again; nothing: it does not."""

    name: str
    why: tuple[str, ...]  # names of inputs, sorted


@dataclass(frozen=True, slots=True)
class Rebuild:
    again: tuple[Again, ...]
    stages: tuple[StageRun, ...]  # of the Dockerfile, in its order

    @property
    def first(self) -> tuple[str, str] | None:
        """The first input that differs, and the stage of the pipeline that takes it."""
        return next(((done.why[0], done.name) for done in self.again if done.why), None)


def inputs(lane_and_lock: Mapping[str, Any], rows: Sequence[Sequence[Any]], text: bytes) -> Inputs:
    """From a build's canonical inputs (identity.inputs), its image folder and its Dockerfile."""
    lane, lock = lane_and_lock["lane"], lane_and_lock["lock"]
    entries = [
        (f"{kind}.{name}", entry)
        for kind in ("sources", "deps")
        for name, entry in sorted(lock.get(kind, {}).items())
    ]
    context, named = dict(_context(lane, lock, rows)), _named(lock)
    read = dockerfile.parse(with_record(text, None, lane.get("env")), Path("Dockerfile"))
    build_id = identity.sha256(identity.canonical(lane_and_lock))
    args = {**_args(lane_and_lock["name"], lane, lock), BUILD_ID: build_id}
    return Inputs(
        fetch=dict(_commits(entries)),
        verify={f"{name} tree": f"{e['tree']} {e['content']}" for name, e in entries},
        patch={f"{name} {what}": text for name, what, text in _patches(lane, lock)},
        stage={**context, **{f"{n}/{f}": d for n, held in named.items() for f, d in held.items()}},
        build=BuildInputs(read, context, named, args),
        gates={"gates": _text(lane.get("gates", [])), "gates.toml": _row(rows, "gates.toml")},
        label={key: _text(lane.get(key, "")) for key in ("repository", "tags", "platforms")},
    )


def rebuild(before: Inputs, after: Inputs) -> Rebuild:
    """Which stages of the pipeline and of the Dockerfile run again, and why."""
    found = {
        name: tuple(changed(getattr(before, name), getattr(after, name)))
        for name in ("fetch", "verify", "patch", "stage", "gates", "label")
    }
    found["stage"] = tuple(path for path in found["stage"] if path != "Dockerfile")
    runs = stage_runs(before.build, after.build)
    found["build"] = tuple(_build_inputs(before.build, after.build, found["stage"]))
    differs = any(found.values())
    found["label"] = found["label"] or (("the build id",) if differs else ())
    found["gates"] = found["gates"] or (("the image",) if found["build"] else ())
    return Rebuild(tuple(Again(name, found.get(name, ())) for name in STAGES), runs)


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """The keys that are new, gone or hold another value, in their order."""
    for key in dict.fromkeys((*before, *after)):
        if before.get(key) != after.get(key):
            yield key


def _build_inputs(before: BuildInputs, after: BuildInputs, staged: Sequence[str]) -> Iterator[str]:
    if _written(before.dockerfile) != _written(after.dockerfile):
        yield "Dockerfile"
    args = (name for name in changed(before.args, after.args) if name not in _FOLLOW)
    yield from (f"build argument {name}" for name in args)
    yield from staged


def _written(read: Dockerfile) -> tuple[object, ...]:
    return (dict(read.args), *(i.same for s in read.stages for i in s.instructions))


def _commits(entries: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[tuple[str, str]]:
    for name, entry in entries:
        yield f"{name} commit", entry["commit"]
        for path, sub in sorted(entry.get("submodules", {}).items()):
            yield f"{name} submodule {path}", sub["commit"]


def _patches(lane: Mapping[str, Any], lock: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name, entry in sorted(lock.get("sources", {}).items()):
        wanted = lane.get("sources", {}).get(name, {})
        if "compose" in entry or "compose" in wanted:
            yield (
                f"sources.{name}",
                "pull requests",
                _text(entry.get("compose", wanted.get("compose"))),
            )
        for patch in entry.get("patches", []):
            yield f"sources.{name}", patch["path"], f"{patch['sha256']} {patch['state']}"
        yield f"sources.{name}", "result tree", entry["final"]["tree"]


def _context(
    lane: Mapping[str, Any], lock: Mapping[str, Any], rows: Sequence[Sequence[Any]]
) -> Iterator[tuple[str, str]]:
    """Every file of the build context, as steps/assemble.py lays it out, with its digest."""
    for name, entry in sorted(lock.get("sources", {}).items()):
        final = entry["final"]
        if lane.get("sources", {}).get(name, {}).get("native"):
            yield f"sources/{name}-native.tar", final.get("native", "")
            yield f"sources/{name}-rest.tar", final.get("rest", "")
        else:
            yield f"sources/{name}.tar", final["content"]
    if "deps-archive" in lock:
        yield "deps/deps-src.tar.gz", lock["deps-archive"]["content"]
        told = _told(lock)
        if any(dep["variable"] or dep["from"] for dep in told.values()):
            yield from ((f"deps/{name}", _text(told)) for name in ("deps.env", "deps.cmake"))
    for path, is_executable, content in rows:
        yield path, f"{content} {is_executable}"
    yield "imgbuild/opt/imgbuild/inputs.json", _text([lane, lock])


def _named(lock: Mapping[str, Any]) -> Mapping[str, Mapping[str, str]]:
    kinds = {"wheels": "python", "debs": "debs"}
    return {
        name: {
            file["filename"]: file["sha256"]
            for _, package in sorted(lock.get(kind, {}).items())
            for _, file in sorted(package["platforms"].items())
        }
        for name, kind in kinds.items()
    }


def _told(lock: Mapping[str, Any]) -> Mapping[str, Any]:
    """What says where deps lie: all of them that steps/deps_env.py writes from."""
    keys = ("commit", "variable", "into", "subfolder", "from", "file")
    return {n: {k: dep.get(k) for k in keys} for n, dep in sorted(lock.get("deps", {}).items())}


def _args(name: str, lane: Mapping[str, Any], lock: Mapping[str, Any]) -> Mapping[str, str]:
    """The build arguments of image.build_args; a base is told by all its digests."""
    entries = [*lock.get("sources", {}).values(), *lock.get("deps", {}).values()]
    found = {
        **lane["build"].get("args", {}),
        "TORCH_CUDA_ARCH_LIST": lane["build"]["cuda-arch-list"],
        "SOURCE_DATE_EPOCH": str(max((entry["time"] for entry in entries), default=0)),
        **{f"BASE_{variable(n)}": _text(b) for n, b in sorted(lock.get("base", {}).items())},
        "SOURCES": " ".join(sorted(lock.get("sources", {}))),
        "CACHE_FINGERPRINT": identity.fingerprint_of(lane, {"base": {}, **lock})[:12],
    }
    for source, entry in sorted(lock.get("sources", {}).items()):
        native = entry["final"].get("native") or entry["final"]["content"]
        found[f"{variable(source)}_COMMIT"] = entry["commit"]
        found[f"{variable(source)}_VERSION"] = version(name, entry["commit"])
        found[f"{variable(source)}_NATIVE"] = native
    return found


def _row(rows: Sequence[Sequence[Any]], path: str) -> str:
    return next((content for name, _, content in rows if name == path), "")


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
