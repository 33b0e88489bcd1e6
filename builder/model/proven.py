"""Whether an image is the one that was proven, or only inherits the labels of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from builder.model.label_names import BUILD_ID, CREATED, PROVEN

if TYPE_CHECKING:  # its name only: a push needs no other model
    from builder.model.values import ImageInfo


def digest(
    layers: Sequence[str],
    env: Iterable[str],
    entrypoint: Sequence[str],
    command: Sequence[str],
    user: str,
) -> str:
    """One digest for what of an image runs: its diff ids in their order, its `NAME=value`, what it
    starts and as whom."""
    parts = [[*layers], sorted(env), [*entrypoint], [*command], user]
    return f"sha256:{hashlib.sha256(json.dumps(parts).encode()).hexdigest()}"


def digest_of(image: ImageInfo) -> str:
    env = (f"{name}={value}" for name, value in image.env.items())
    return digest(image.layers, env, image.entrypoint, image.command, image.user)


def is_derived(labels: Mapping[str, str], now: str, created: str) -> bool:
    """Whether somebody built on a proven image; `now` is its own digest, `created` its time.

    Labels are inherited. Images that were labelled before their digest was are told by the time,
    which is their lock's; another layer gives another one.
    """
    if BUILD_ID not in labels:
        return False
    if PROVEN in labels:
        return labels[PROVEN] != now
    said, found = _second(labels.get(CREATED, "")), _second(created)
    return said is not None and found is not None and said != found


def _second(text: str) -> int | None:
    """The time of an image, whose fraction may have nine digits."""
    whole, dot, rest = text.partition(".")
    zone = rest.lstrip("0123456789") if dot else ""
    try:
        return int(datetime.fromisoformat(whole + zone).timestamp())
    except ValueError:
        return None
