"""Look at an image that the engine has."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from difflib import get_close_matches

from builder.errors import ImgbuildError, UsageError
from builder.model.lane import Lane
from builder.model.values import ImageInfo
from builder.ports import Engine, Project
from builder.steps.lanes import named, names, read_lane


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
