"""Files that someone baked into an image: which they are, and where they belong in a source."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from builder.errors import UsageError
from builder.model.ids import is_relative_path

_HASHED = re.compile(r"(?:sha256:)?([0-9a-f]{64})[ \t]+\*?(\S.*)")
_PATH_KEYS, _HASH_KEYS = ("path", "file", "name", "target"), ("sha256", "hash", "digest")


class ManifestUnreadable(UsageError):
    code = "manifest"


@dataclass(frozen=True, slots=True)
class BakedFile:
    path: str  # in the image, without a leading /
    sha256: str = ""  # hex, as the manifest says; "" when it says none


@dataclass(frozen=True, slots=True)
class Placed:
    """Where each file of an image lies in a source; those that lie nowhere in it."""

    files: Mapping[str, str]  # path in the source -> path in the image
    left: tuple[str, ...]


def read_manifest(data: bytes, *, folder: str) -> tuple[BakedFile, ...]:
    """The files that a manifest lists; relative paths are below its own folder.

    Plain lines of paths, lines of `sha256sum`, or JSON: a list of paths or of tables, a table of
    hashes by path, or any of these below a key such as "files". Raises: ManifestUnreadable.
    """
    text = data.decode("utf-8", "replace").strip()
    try:
        found = list(_of_json(json.loads(text))) if text[:1] in "[{" else list(_of_lines(text))
    except ValueError as bad:
        raise ManifestUnreadable(f"the manifest is not JSON: {bad}") from bad
    except RecursionError as bad:
        raise ManifestUnreadable("the manifest is JSON that is nested too deeply") from bad
    if not found:
        raise ManifestUnreadable(
            "the manifest lists no files",
            hint="a path a line, lines of sha256sum, or JSON with paths and hashes",
        )
    placed = {_absolute(file.path, folder): file.sha256 for file in found}
    for path in placed:
        if not is_relative_path(path):
            raise ManifestUnreadable(f"the manifest lists {path!r}, which is no path in an image")
    return tuple(BakedFile(path, placed[path]) for path in sorted(placed))


def place(files: Sequence[BakedFile], known: Iterable[str]) -> Placed:
    """Where files lie in a source whose paths are `known`: by the folder that most of them share.

    usr/lib/python3/dist-packages/vllm/x.py is vllm/x.py where the source has that; a file that
    it has not is placed by the folder found for the others, if the source has its first folder.
    """
    paths = set(known)
    tops = {path.partition("/")[0] for path in paths if "/" in path}
    folders = Counter(
        root for file in files for root in _roots(file.path) if file.path[len(root) :] in paths
    )
    found: dict[str, str] = {}
    left = []
    for file in files:
        fitting = [root for root in folders if file.path.startswith(root)]
        there = [root for root in fitting if file.path[len(root) :] in paths]
        new = [root for root in fitting if file.path[len(root) :].partition("/")[0] in tops]
        best = max(there or new, key=lambda root: (folders[root], -len(root)), default=None)
        if best is None:
            left.append(file.path)
        else:
            found[file.path[len(best) :]] = file.path
    return Placed({path: found[path] for path in sorted(found)}, tuple(left))


def differs(file: BakedFile, data: bytes) -> bool:
    """Whether the image holds something else than the manifest says."""
    return bool(file.sha256) and hashlib.sha256(data).hexdigest() != file.sha256


def _roots(path: str) -> Iterator[str]:
    """What may stand before the path in the source: the folders above, from "" on."""
    yield ""
    at = path.find("/")
    while at >= 0:
        yield path[: at + 1]
        at = path.find("/", at + 1)


def _absolute(path: str, folder: str) -> str:
    if path.startswith("/"):
        return path.strip("/")
    joined = f"{folder}/{path}" if folder else path
    return "/".join(part for part in joined.split("/") if part not in ("", "."))


def _of_lines(text: str) -> Iterator[BakedFile]:
    for line in text.splitlines():
        words = line.strip()
        if not words or words.startswith("#"):
            continue
        match = _HASHED.fullmatch(words)
        yield BakedFile(match[2], match[1]) if match else BakedFile(words)


def _of_json(value: Any) -> Iterator[BakedFile]:
    if isinstance(value, list):
        for item in value:
            yield from _of_json(item) if not isinstance(item, str) else (BakedFile(item),)
    elif isinstance(value, dict):
        path = next((value[k] for k in _PATH_KEYS if isinstance(value.get(k), str)), None)
        if path is not None:
            digest = next((value[k] for k in _HASH_KEYS if isinstance(value.get(k), str)), "")
            yield BakedFile(path, digest.removeprefix("sha256:"))
            return
        for key, item in value.items():
            if isinstance(item, str) and (match := _HASHED.fullmatch(f"{item} {key}")):
                yield BakedFile(match[2], match[1])
            elif isinstance(item, list | dict):
                yield from _of_json(item)
