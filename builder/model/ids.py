"""The words that files may hold: object ids, digests, names, paths, URLs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated
from urllib.parse import urlsplit

from builder.model.schema import Check, without_secrets

_OBJECT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SHA256 = re.compile(r"sha256:[0-9a-f]{64}")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
_REPOSITORY = re.compile(
    r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*(?::[0-9]+(?:/[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)+)?"
)
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_PLATFORM = re.compile(r"linux/(?:amd64|arm64)")
_ARCH_LIST = re.compile(
    r"[0-9]{1,2}\.[0-9][af]?(?:\+PTX)?(?:[ ;][0-9]{1,2}\.[0-9][af]?(?:\+PTX)?)*"
)
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_IMAGE_REF = re.compile(
    r"(?!sha256:)[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]+)?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(  # github.com/distribution/reference, and a digest alone
    rf"(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]+)?/|\[[0-9A-Fa-f:]+\](?::[0-9]+)?/)?{_COMPONENT}"
    rf"(?:/{_COMPONENT})*(?::{_TAG.pattern})?(?:@sha256:[0-9a-f]{{64}})?"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
NAME_RULE = (
    "a name of a-z, 0-9, '.', '_', '-', at most 64 characters, the first and the last a letter or "
    "a digit"
)
MAX_URL = 2000  # characters: a longer one is no address, and no argument of a program
_SCP = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^-].*")


def is_name(text: str) -> bool:
    """The name of a lane, a source or a set: no path, and no pattern."""
    return _NAME.fullmatch(text) is not None


def is_image(text: str) -> bool:
    """What an engine takes as the name or id of an image."""
    return _IMAGE.fullmatch(text) is not None


def is_relative_path(text: str) -> bool:
    """A clean path below a root: no `..`, no `.git`, no empty part, nothing absolute."""
    parts = text.split("/")
    return not _CONTROL.search(text) and all(
        p not in ("", ".", "..") and p.lower() != ".git" for p in parts
    )


def is_absolute_path(text: str) -> bool:
    """A clean absolute path at least two folders below `/`."""
    return text.count("/") > 1 and text[0] == "/" and is_relative_path(text[1:])


def is_ref(text: str) -> bool:
    """What `git check-ref-format --allow-onelevel` accepts, and never an option, also not as the
    short name of a branch or tag."""
    for kind in ("refs/heads/", "refs/tags/"):
        if text.startswith(kind):
            return is_ref(text.removeprefix(kind))
    if text.startswith(("-", "/", ".")) or text.endswith(("/", ".", ".lock")):
        return False
    if re.search(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock/", text):
        return False
    return text not in ("", "@")


def is_local_url(url: str) -> bool:
    """A repository on this machine: a path from the project's root, absolute, or file://."""
    return url.startswith(("./", "../", "/", "file:///"))


def is_url(text: str) -> bool:
    """https, ssh (also as user@host:path) or a local path; nowhere in it is room for a secret."""
    if len(text) > MAX_URL or _CONTROL.search(text) or any(sign in text for sign in " \\?#"):
        return False
    if is_local_url(text) or _SCP.fullmatch(text):
        return "::" not in text
    try:
        parts = urlsplit(text)
        valid = bool(parts.hostname) and not (parts.hostname or "-").startswith("-")
        valid = valid and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
    if parts.scheme == "https":
        return valid and "@" not in parts.netloc
    return parts.scheme == "ssh" and valid and parts.password is None


def shown_url(url: str) -> str:
    """A URL from outside, fit to show: no secret in it, and not longer than a line."""
    plain = without_secrets(url)
    return plain if len(plain) <= 200 else f"{plain[:199]}…"


def _full(pattern: re.Pattern[str], says: str, cure: Callable[[str], str] = lambda _: "") -> Check:
    return Check(lambda text: pattern.fullmatch(text) is not None, says, cure)


def _whole_id(text: str) -> str:
    if not re.fullmatch(r"[0-9A-Fa-f]{4,63}", text):
        return ""
    return (
        f"git rev-parse {text.lower()} prints it, in a clone of that repository; or name a branch "
        'or tag instead (track = { branch = "…" }), and imgbuild lock LANE finds its commit'
    )


ObjectId = Annotated[
    str, _full(_OBJECT, "a full object id, 40 or 64 lower-case hex digits", _whole_id)
]
Sha256 = Annotated[str, _full(_SHA256, "sha256: and 64 lower-case hex digits")]
Name = Annotated[str, _full(_NAME, NAME_RULE)]
Repository = Annotated[str, _full(_REPOSITORY, "an image name in lower case, without a tag")]
Tag = Annotated[str, _full(_TAG, "an image tag")]
LanePlatform = Annotated[
    str,
    Check(
        lambda text: text == "host" or _PLATFORM.fullmatch(text) is not None,
        "linux/amd64, linux/arm64, or host for the machine that locks",
    ),
]
Platform = Annotated[str, _full(_PLATFORM, "linux/amd64 or linux/arm64")]
ArchList = Annotated[str, _full(_ARCH_LIST, 'a CUDA architecture list such as "12.1a"')]
DebName = Annotated[str, _full(_PACKAGE, "the name of a Debian package")]
EnvName = Annotated[str, _full(_ENV_NAME, "the name of an environment variable")]
ImageRef = Annotated[
    str, _full(_IMAGE_REF, "an image reference; a digest stands behind a name: name@sha256:…")
]
RelPath = Annotated[
    str, Check(is_relative_path, "a path below the root, without '..', '.git' and empty parts")
]
AbsolutePath = Annotated[
    str,
    Check(is_absolute_path, "an absolute path, two folders or more below /, without '..'"),
]
Ref = Annotated[str, Check(is_ref, "a git ref name")]
Url = Annotated[
    str,
    Check(
        is_url,
        "an https or ssh URL or a local path, without '?' and '#' and without a password or "
        "token in it (git's credential helpers hold those)",
    ),
]
