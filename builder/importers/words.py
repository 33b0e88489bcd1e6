"""The words of foreign locks. Their sha256 stand bare, their object ids are SHA-1."""

from __future__ import annotations

import re
from typing import Annotated

from builder.model.ids import is_ref, is_relative_path, is_url
from builder.model.schema import Check

_OID = re.compile(r"[0-9a-f]{40}")
_HEX64 = re.compile(r"[0-9a-f]{64}")
_PREFIXED = re.compile(r"sha256:[0-9a-f]{64}")
_IMAGE = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]+)?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?@sha256:[0-9a-f]{64}"
)
_LOCAL_VERSION = re.compile(
    r"(?:[0-9]+!)?[0-9]+(?:\.[0-9]+)*(?:(?:a|b|rc)[0-9]+)?(?:\.post[0-9]+)?(?:\.dev[0-9]+)?"
    r"\+[a-z0-9]+(?:[._-][a-z0-9]+)*"
)
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")

EMPTY_PATCH = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
"""The sha256 of no bytes: a composition that changes nothing."""


def _full(pattern: re.Pattern[str], says: str) -> Check:
    return Check(lambda text: pattern.fullmatch(text) is not None, says)


def _is_branch(text: str) -> bool:
    return text.startswith("refs/heads/") and is_ref(text)


OID = _full(_OID, "a full object id of 40 lower-case hex digits")
HEX64 = _full(_HEX64, "a sha256: 64 lower-case hex digits")
PREFIXED = _full(_PREFIXED, "sha256: and 64 lower-case hex digits")
IMAGE = _full(_IMAGE, "an image by digest: repository@sha256:…")
VERSION = _full(_LOCAL_VERSION, "a PEP 440 version with a local part, normalized: 0.26.1+x.1")
URL = Check(is_url, "an https or ssh URL without '?' and '#' and without a password or token in it")
REF = Check(is_ref, "a git ref name")
BRANCH = Check(_is_branch, "a full branch name: refs/heads/…")
PATH = Check(is_relative_path, "a path below the file's folder, without '..'")
TEXT = Check(lambda text: text.strip() == text and text != "", "text, not empty")
ANY = Check(lambda _: True, "text")
NAME = _full(_NAME, "a name of a-z, 0-9, '.', '_', '-'")

Oid = Annotated[str, OID]
Hex64 = Annotated[str, HEX64]
Prefixed = Annotated[str, PREFIXED]
Image = Annotated[str, IMAGE]
Url = Annotated[str, URL]
Ref = Annotated[str, REF]
Branch = Annotated[str, BRANCH]
Path = Annotated[str, PATH]
Text = Annotated[str, TEXT]
Name = Annotated[str, NAME]
