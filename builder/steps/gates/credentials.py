"""What looks like a credential: the one table, for gates and for preflight."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

PATTERNS: Mapping[str, re.Pattern[bytes]] = {
    "a private key": re.compile(
        rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----\s*[A-Za-z0-9+/=]{16}"
    ),
    "a GitHub token": re.compile(rb"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{22,})"),
    "a GitLab token": re.compile(rb"\bgl(?:pat|dt|ptt|rt)-[A-Za-z0-9_-]{20,}"),
    "a Hugging Face token": re.compile(rb"\bhf_[A-Za-z0-9]{20,}"),
    "an AWS key id": re.compile(rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a Slack token": re.compile(rb"\bxox[abpros]-[A-Za-z0-9-]{10,}"),
    "an API key": re.compile(rb"\bsk-(?:ant-|proj-|svcacct-)?[A-Za-z0-9_-]{32,}"),
    "an NVIDIA API key": re.compile(rb"\bnvapi-[A-Za-z0-9_-]{40,}"),
    "a PyPI token": re.compile(rb"\bpypi-AgE[A-Za-z0-9_-]{40,}"),
    "a login of Docker": re.compile(rb'"auth"\s*:\s*"[A-Za-z0-9+/]{12,}={0,2}"'),
    "a login of netrc": re.compile(rb"\bmachine\s+\S+\s+login\s+\S+\s+password\s+\S+"),
    "a password in a URL": re.compile(
        rb"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@$<{*]+:(?!(?:pass(?:word|wd)?|secret|token|x+)@)"
        rb"[^\s/:@$<{*]{3,}@[A-Za-z0-9]",
        re.IGNORECASE,
    ),
}
"""Words (what it looks like) and its form; a form must be one that nothing harmless has."""

_NAME = re.compile(
    r"(?:^|_)(?:(?:API|ACCESS|PRIVATE|SECRET|AUTH|SIGNING)_?KEYS?|[A-Z]*TOKEN|PASSWORD|PASSWD|"
    r"SECRET|CREDENTIALS?)$",
    re.IGNORECASE,
)
_HARMLESS = re.compile(
    r"\s*|[0-9.]+|true|false|yes|no|none|null|on|off|(?:file|https?)://[^@]*|[./~].*|"
    r"[$<{].*|(?:x+|\*+|changeme|dummy|empty|example|todo|placeholder|not-needed|anonymous)",
    re.IGNORECASE,
)


class Credential(NamedTuple):
    what: str  # "a GitHub token"
    shown: str  # its beginning: never the whole
    layer: int | None = None  # of an image, where no other place shows it


def find(data: bytes) -> Iterator[Credential]:
    """Everything in the data that has the form of a credential, one of a kind."""
    for what, pattern in PATTERNS.items():
        if match := pattern.search(data):
            yield Credential(what, _masked(match[0].decode("utf-8", "replace")))


def find_named(name: str, value: str) -> Iterator[Credential]:
    """The same for a variable: its value, and a name that says what it is."""
    found = list(find(value.encode()))
    yield from found
    if not found and is_secret_name(name) and not _HARMLESS.fullmatch(value):
        yield Credential(f"a secret, by its name {name}", _masked(value))


def is_secret_name(name: str) -> bool:
    return _NAME.search(name) is not None and "_NO_" not in f"_{name.upper()}"


def _masked(text: str) -> str:
    start = " ".join(text.split())[:8]
    return f"{start[: max(2, min(len(start), len(text) // 3))]}…"
