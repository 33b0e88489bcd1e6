"""What looks like a credential: the one table, for gates and for preflight."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple


class Form(NamedTuple):
    signs: tuple[bytes, ...]  # one of these stands in each, in any case of letters
    pattern: re.Pattern[bytes]


FORMS: Mapping[str, Form] = {
    "a private key": Form(
        (b"private key-----",),
        re.compile(rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----\s*[A-Za-z0-9+/=]{16}"),
    ),
    "a GitHub token": Form(
        (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat_"),
        re.compile(rb"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{22,})"),
    ),
    "a GitLab token": Form(
        (b"glpat-", b"gldt-", b"glptt-", b"glrt-"),
        re.compile(rb"\bgl(?:pat|dt|ptt|rt)-[A-Za-z0-9_-]{20,}"),
    ),
    "a Hugging Face token": Form((b"hf_",), re.compile(rb"\bhf_[A-Za-z0-9]{20,}")),
    "an npm token": Form((b"npm_",), re.compile(rb"\bnpm_[A-Za-z0-9]{36}\b")),
    "an AWS key id": Form(
        (b"akia", b"asia"), re.compile(rb"\b(?:AKIA|ASIA)(?![0-9A-Z]*EXAMPLE\b)[0-9A-Z]{16}\b")
    ),
    "an AWS secret key": Form(
        (b"aws_secret_access_key", b"aws_session_token"),
        re.compile(
            rb"aws_(?:secret_access_key|session_token)\s*[=:]\s*[\"']?"
            rb"(?![A-Za-z0-9/+]*EXAMPLE)[A-Za-z0-9/+]{40,}",
            re.IGNORECASE,
        ),
    ),
    "a Slack token": Form((b"xox",), re.compile(rb"\bxox[abpros]-[A-Za-z0-9-]{10,}")),
    "an API key": Form((b"sk-",), re.compile(rb"\bsk-(?:ant-|proj-|svcacct-)?[A-Za-z0-9_-]{32,}")),
    "an NVIDIA API key": Form((b"nvapi-",), re.compile(rb"\bnvapi-[A-Za-z0-9_-]{40,}")),
    "a PyPI token": Form((b"pypi-age",), re.compile(rb"\bpypi-AgE[A-Za-z0-9_-]{40,}")),
    "a login of Docker": Form(
        (b'"auth"',), re.compile(rb'"auth"\s*:\s*"[A-Za-z0-9+/]{12,}={0,2}"')
    ),
    "a login of npm": Form(
        (b"_auth", b"_password"),
        re.compile(
            rb"(?m)(?:^|:)_(?:authToken|auth|password)\s*=\s*[\"']?(?=\S*[0-9])"
            rb"[A-Za-z0-9+/_.~-]{8,}={0,2}[\"']?\s*$"
        ),
    ),
    "a login of netrc": Form(
        (b"machine",), re.compile(rb"\bmachine\s+\S+\s+login\s+\S+\s+password\s+\S+")
    ),
    "a password in a URL": Form(
        (b"://",),
        re.compile(
            rb"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@$<{*]+:"
            rb"(?!(?:pass(?:word|wd)?|secret|token|x+)@)[^\s/:@$<{*][^\s/:@<{*]{2,}@[A-Za-z0-9]",
            re.IGNORECASE,
        ),
    ),
    "a token in a URL": Form(
        (b"://",),
        re.compile(
            rb"\bhttps?://(?=[^@/\s]*[0-9])(?=[^@/\s]*[A-Za-z])[A-Za-z0-9_.~%-]{16,}"
            rb"@[A-Za-z0-9]",
            re.IGNORECASE,
        ),
    ),
}
"""Words (what it looks like) and its form; a form must be one that nothing harmless has. Of what
two forms fit, the first is said."""

_NAME = re.compile(
    r"(?:^|_)(?:(?:API|ACCESS|PRIVATE|SECRET|AUTH|SIGNING)_?KEYS?|[A-Z]*TOKEN|PASSWORD|PASSWD|"
    r"PASSPHRASE|PASS|PWD|PAT|SECRET|CREDENTIALS?)$",
    re.IGNORECASE,
)
_KEY = re.compile(  # of a service: OPENAI_KEY; not what a key is looked up, sorted or checked by
    r"(?:^|_)(?!(?:GPG|PGP|PUBLIC|PUB|CACHE|SORT|PRIMARY|FOREIGN|PARTITION|GROUP|INDEX|LOOKUP|HASH|"
    r"STATE|DICT|CONFIG|TRUSTED|HOST)_)[A-Z0-9]+_KEY$",
    re.IGNORECASE,
)
_HARMLESS = re.compile(
    r"\s*|[0-9.]+|true|false|yes|no|none|null|on|off|(?:file|https?)://[^@]*|[./~].*|"
    r"[$<{].*|[^ ]*\*\.[a-z*]+|"
    r"(?:x+|\*+|changeme|dummy|empty|example|todo|placeholder|not-needed|anonymous)",
    re.IGNORECASE,
)
_SHORTEST_KEY = 16  # of what is a secret only by the name of a service


class Credential(NamedTuple):
    what: str  # "a GitHub token"
    shown: str  # its beginning: never the whole
    layer: int | None = None  # of an image, where no other place shows it


def find(data: bytes) -> Iterator[Credential]:
    """Everything in the data that has the form of a credential, one of a kind."""
    lower = data.lower()
    taken: list[tuple[int, int]] = []
    for what, form in FORMS.items():
        if not any(sign in lower for sign in form.signs):
            continue
        for match in form.pattern.finditer(data):
            start, end = match.span()
            if not any(start < other_end and other < end for other, other_end in taken):
                taken.append((start, end))
                yield Credential(what, _masked(match[0].decode("utf-8", "replace")))
                break


def find_named(name: str, value: str) -> Iterator[Credential]:
    """The same for a variable: its value, and a name that says what it is."""
    found = list(find(f"{name}={value}".encode()))
    yield from found
    if found or _HARMLESS.fullmatch(value):
        return
    if is_secret_name(name) or (_KEY.search(name) and len(value) >= _SHORTEST_KEY):
        yield Credential(f"a secret, by its name {name}", _masked(value))


def is_secret_name(name: str) -> bool:
    return _NAME.search(name) is not None and "_NO_" not in f"_{name.upper()}"


def _masked(text: str) -> str:
    start = " ".join(text.split())[:8]
    return f"{start[: max(2, min(len(start), len(text) // 3))]}…"
