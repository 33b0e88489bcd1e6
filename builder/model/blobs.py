"""The ids that git gives to contents."""

from __future__ import annotations

import hashlib

_HASHES = {40: hashlib.sha1, 64: hashlib.sha256}


def blob_id(data: bytes, digits: int) -> str:
    """In hex; `digits` says in which of git's formats: 40 for SHA-1, 64 for SHA-256."""
    digest = _HASHES[digits](b"blob %d\0" % len(data), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()
