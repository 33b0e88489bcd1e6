"""ADD of a URL or a git repository: pinned by its checksum or commit, or another one tomorrow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from builder.errors import Finding, Place
from builder.model.urls import without_userinfo
from builder.steps.dockerfile_words import expand, is_remote
from builder.steps.preflight.values import At, Valued

_CHECKSUM = re.compile(r"sha(?:256:[0-9a-f]{64}|384:[0-9a-f]{96}|512:[0-9a-f]{128})")
_COMMIT = r"(?:[0-9a-f]{64}|[0-9a-f]{40})"
_AT_COMMIT = re.compile(
    rf"[^#]*#{_COMMIT}(?::.*)?|.*[?&#,](?:ref|commit|checksum)={_COMMIT}(?:[&#,].*)?"
)


def remotes(stage: Valued, file: Path, *, needed: bool) -> Iterator[Finding]:
    """What a stage adds from the network that its instruction does not pin.

    `needed`: the image is made of this stage.
    """
    for at in stage.steps:
        for url in _unpinned(at) if at.instruction.name == "ADD" else ():
            is_git = _is_git(url)
            yield Finding(
                "add-unpinned",
                f"ADD fetches {without_userinfo(url)[:200]}: another content tomorrow, "
                "with the same lock and the same build id",
                "a source or dep of the lane, which is locked; or write the commit behind it: "
                "#<all 40 digits>" if is_git
                else "ADD --checksum=sha256:…, or put the file into the image folder",
                place=Place(file, at.instruction.line), level="error" if needed else "warning",
            )  # fmt: skip


def _unpinned(at: At) -> Iterator[str]:
    checksum = expand(at.instruction.flag("checksum") or "", at.values)
    for source in at.instruction.sources:
        url = expand(source, at.values)
        if _is_git(url):
            if not (re.fullmatch(_COMMIT, checksum) or _AT_COMMIT.fullmatch(url)):
                yield url
        elif is_remote(url) and not _CHECKSUM.fullmatch(checksum):
            yield url


def _is_git(url: str) -> bool:
    if not url.lower().startswith(("http://", "https://")):
        return is_remote(url)
    return re.split(r"[?#]", url, maxsplit=1)[0].endswith(".git")
