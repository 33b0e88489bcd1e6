"""Keep a build's inputs in the file store, so that a later run can compare with them.

A chain of digests: the build id is the sha256 of `inputs.json`, which holds the digest of the
image folder, which is the sha256 of its list of files. Nothing else has to be remembered.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import IO, Any

from builder.ports import Files, Project

Row = Sequence[Any]  # path, is executable, sha256 in hex


def image_rows(folder: str, *, project: Project) -> tuple[Row, ...]:
    """The files of an image folder, as `image.folder_digest` hashes them."""
    found = []
    for path, is_executable in project.files(folder) or ():
        content = hashlib.sha256(project.read(f"{folder}/{path}") or b"").hexdigest()
        found.append((path, is_executable, content))
    return tuple(sorted(found))


def keep(inputs: bytes, folder: str, *, project: Project, files: Files) -> None:
    """Keep the inputs of a build, the list of its image folder, and its Dockerfile."""
    rows = json.dumps(
        image_rows(folder, project=project), separators=(",", ":"), ensure_ascii=False
    )
    for data in (inputs, rows.encode(), project.read(f"{folder}/Dockerfile") or b""):
        files.create(functools.partial(_write, data))


def recall(
    build_id: str, *, files: Files
) -> tuple[Mapping[str, Any], tuple[Row, ...], bytes] | None:
    """Inputs, image folder and Dockerfile of a former build; None when they are not kept."""
    inputs = _json(f"sha256:{build_id}", files)
    if not isinstance(inputs, dict):
        return None
    rows = _json(inputs["lock"]["image"]["content"], files)
    if not isinstance(rows, list):
        return None
    digest = next((sha for path, _, sha in rows if path == "Dockerfile"), "")
    text = _bytes(f"sha256:{digest}", files)
    return None if text is None else (inputs, tuple(map(tuple, rows)), text)


def _write(data: bytes, out: IO[bytes]) -> None:
    out.write(data)


def _json(sha256: str, files: Files) -> Any:
    data = _bytes(sha256, files)
    return None if data is None else json.loads(data)


def _bytes(sha256: str, files: Files) -> bytes | None:
    path = files.path(sha256)
    return None if path is None else path.read_bytes()
