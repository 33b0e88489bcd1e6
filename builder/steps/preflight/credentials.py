"""Secrets that a Dockerfile gives away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from builder.errors import Finding, Place
from builder.steps.dockerfile import Dockerfile
from builder.steps.gates.credentials import find_named, is_secret_name


def secrets(read: Dockerfile, file: Path) -> Iterator[Finding]:
    """Credentials in ARG and ENV, and arguments that ask for one."""
    for name, value in read.args.items():
        yield from _secret("ARG", name, value, Place(file))
    for stage in read.stages:
        for instruction in stage.named("ARG", "ENV"):
            for name, value in instruction.pairs:
                place = Place(file, instruction.line)
                yield from _secret(instruction.name, name, value, place)


def _secret(word: str, name: str, value: str | None, place: Place) -> Iterator[Finding]:
    hint = (
        f"RUN --mount=type=secret,id={name.lower()},env={name} …: it leaves no trace in the image"
    )
    held = next(iter(find_named(name, value or "")), None)
    if held is not None:
        yield Finding(
            "secret-in-dockerfile", f"{word} {name} holds {held.what} ({held.shown})",
            f"revoke it, then: {hint}", place=place,
        )  # fmt: skip
    elif word == "ARG" and not value and is_secret_name(name):
        yield Finding(
            "secret-argument", f"ARG {name}: build arguments stay in the history of the image",
            hint, place=place, level="warning",
        )  # fmt: skip
