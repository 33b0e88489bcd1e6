"""Write lanes and locks: tomlkit keeps what a person wrote around the value."""

from __future__ import annotations

import json

import tomlkit
from tomlkit.items import Table

from builder.model.lock import Lock
from builder.model.schema import plain

HEAD = (
    "# Written by `imgbuild lock {lane}`; do not edit. Conflicts: keep either side, lock again.\n"
)


def lock_text(lock: Lock, lane: str) -> str:
    """The text of a lock: sorted, one key a line, LF; the same lock gives the same bytes."""
    return HEAD.format(lane=lane) + tomlkit.dumps(plain(lock), sort_keys=True)


def inputs_text(inputs: bytes) -> str:
    """The lock among a build's canonical inputs, as TOML for people to read."""
    return tomlkit.dumps(json.loads(inputs)["lock"], sort_keys=True)


def with_commit(text: str, kind: str, name: str, commit: str) -> str:
    """A lane's text with another commit in `[<kind>.<name>]`; all else stays as it is.

    What was published of the former commit goes: it says nothing of this one.
    """
    document = tomlkit.parse(text)
    table = document[kind][name]
    assert isinstance(table, Table | tomlkit.items.InlineTable | dict)
    if table["commit"] != commit:
        for published in ("tree", "parts", "result-tree"):
            table.pop(published, None)
    table["commit"] = commit
    return tomlkit.dumps(document)
