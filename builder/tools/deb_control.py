"""The control file of a .deb, as dpkg-deb reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from builder.errors import ToolFailed, ToolMissing
from builder.ports import Files
from builder.tools import process

_FIELDS = ("Package", "Version", "Pre-Depends", "Depends", "Provides")


def control(sha256: str, files: Files) -> Mapping[str, str] | None:
    """What a deb of the store says of itself, remembered by its digest; None where the store
    does not have it, or nothing here can read it."""
    key = f"control of {sha256}"
    kept = files.recall(key)
    if kept is None:
        path = files.path(sha256)
        kept = _read(path) if path else None
        if kept is None:
            return None
        files.remember(key, kept)
    found: Mapping[str, str] = json.loads(kept)
    return found


def _read(path: Path) -> str | None:
    try:
        done = process.run(
            ["dpkg-deb", "--field", path, *_FIELDS], env=process.environment(), timeout_s=60
        )
    except (ToolMissing, ToolFailed):
        return None
    fields = re.findall(r"^([A-Za-z-]+):[ \t]*(.*(?:\n[ \t].*)*)", done.text, re.MULTILINE)
    return json.dumps({name: " ".join(value.split()) for name, value in fields}, sort_keys=True)
