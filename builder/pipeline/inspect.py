"""Look at an image that the engine has."""

from __future__ import annotations

from builder.errors import UsageError
from builder.model.values import ImageInfo
from builder.ports import Engine


def find(reference: str, *, engine: Engine) -> ImageInfo:
    """The image under a tag or id. Raises: UsageError."""
    engine.describe()
    found = engine.image(reference)
    if found is None:
        raise UsageError(
            f"the engine has no image {reference}", hint="docker images lists what it has"
        )
    return found
