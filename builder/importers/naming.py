"""The name of a source in a lane, and where sources live that a format names without a URL."""

from __future__ import annotations

import re
from collections.abc import Mapping

KNOWN_REPOSITORIES: Mapping[str, str] = {
    "flashinfer": "https://github.com/flashinfer-ai/flashinfer.git",
    "flashkda": "https://github.com/MoonshotAI/FlashKDA.git",
}
"""Components that published locks pin without saying where they are."""


def source_name(url: str) -> str:
    """`https://github.com/local-inference-lab/LMCache.git` is `lmcache`."""
    last = re.split(r"[/:]", url.rstrip("/"))[-1].removesuffix(".git").lower()
    return re.sub(r"[^a-z0-9._-]", "-", last).strip("._-")[:64].strip("._-") or "source"


def branch(ref: str) -> str:
    return ref.removeprefix("refs/heads/")
