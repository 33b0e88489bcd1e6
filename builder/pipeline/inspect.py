"""Look at an image that the engine has."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from builder.engine_ports import Engine
from builder.errors import ImgbuildError, UsageError
from builder.model.label_names import BUILD_ID
from builder.model.lane import Lane
from builder.model.values import ImageInfo
from builder.ports import Project
from builder.steps.lanes import named, names, read_lane

_INPUTS = "opt/imgbuild/inputs.json"


def find(reference: str, *, engine: Engine, project: Project | None = None) -> ImageInfo:
    """The image under a tag or id. Raises: UsageError, with the near lane of the project."""
    engine.describe()
    found = engine.image(reference)
    if found is None:
        raise UsageError(f"the engine has no image {reference}", hint=_hint(reference, project))
    return found


def _hint(reference: str, project: Project | None) -> str:
    """The image of the lane whose name this is, or is like."""
    lanes = _lanes(project) if project is not None else {}
    name = named(reference)
    near = name if name in lanes else next(iter(get_close_matches(name, lanes, n=1)), None)
    if near is None:
        return "docker images lists what it has"
    lane = lanes[near]
    tag = f"{lane.repository}:{lane.tags[-1]}" if lane.tags else lane.repository
    return f"did you mean {tag}, of lane {near}? If it is not built yet: imgbuild build {near}"


def _lanes(project: Project) -> Mapping[str, Lane]:
    found = {}
    for name in names(project):
        with suppress(ImgbuildError):
            found[name] = read_lane(name, project=project).lane
    return found


@dataclass(frozen=True, slots=True)
class MadeOf:
    """What an image was made of, as the inputs in it say; all of it in the order of the lock."""

    sources: Mapping[str, Mapping[str, Any]]  # the entries of the lock
    deps: Mapping[str, Mapping[str, Any]]


def made_of(image: ImageInfo, *, engine: Engine) -> MadeOf | None:
    """What stands in the inputs that a build left in the image; None where there are none, or
    where they are not those of the build that its labels name."""
    if BUILD_ID not in image.labels:
        return None
    with engine.read_tree(image.id, [_INPUTS]) as entries:
        found = (reader.read() for file, reader in entries if file.path == _INPUTS and reader)
        data = next(found, b"")
    if hashlib.sha256(data).hexdigest() != image.labels.get(BUILD_ID):
        return None
    lock = json.loads(data)["lock"]
    return MadeOf(lock.get("sources", {}), lock.get("deps", {}))
