"""What the two package indexes have in common: their error, and the check of a download."""

from __future__ import annotations

import hashlib
from pathlib import Path

from builder.errors import SourceError
from builder.model.lock import LockedFile


class PackageUnavailable(SourceError):
    """The index does not give this package, or gives another file than the locked one."""

    code = "package-unavailable"


def check(path: Path, name: str, version: str, file: LockedFile) -> Path:
    """The file under its locked name, if it is the locked one. Raises: PackageUnavailable."""
    size, sha256 = path.stat().st_size, digest(path)
    if (size, sha256) != (file.size, file.sha256):
        raise PackageUnavailable(
            f"{name} {version}: the index gives another file than the locked one",
            hint=again(),
            detail=f"locked {file.sha256}, {file.size} bytes\nfound  {sha256}, {size} bytes",
        )
    target = path.with_name(file.filename)
    return path if path == target else path.replace(target)


def digest(path: Path) -> str:
    with path.open("rb") as stream:
        return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"


def again() -> str:
    """A hint; who knows the lane and its entry says which they are."""
    return (
        "if git diff locks/LANE.lock shows an edit: git checkout -- locks/LANE.lock; otherwise, if "
        "another version is wanted: imgbuild lock LANE --update NAME"
    )
