"""Failures of a build step that may be gone at the next try, known by what it printed."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Transient:
    """A failure that may be gone at the next try."""

    reason: str
    pattern: re.Pattern[str]
    only_with_network: bool = False  # without, it is the rule


def says(*patterns: str) -> re.Pattern[str]:
    """A pattern that finds any of these."""
    return re.compile("|".join(patterns))


TRANSIENT = (
    Transient(
        "a server answered 5xx",
        says(
            r"\b50[0234] +(?:Internal Server Error|Bad Gateway|Gateway Time-?out)",
            r"\b503 +Service (?:Temporarily )?Unavailable",
            r"HTTP Error 50[0234]",
            r"(?:returned error|status(?: code)?|unexpected status[^:]*): ?50[0234]\b",
        ),
    ),
    Transient(
        "a server asked to slow down",
        says(
            r"429 Too Many Requests", r"HTTP Error 429", r"toomanyrequests",
            r"(?:returned error|status(?: code)?): ?429\b",
        ),
    ),
    Transient(
        "a name did not resolve",
        says(
            r"Temporary failure in name resolution", r"Temporary failure resolving",
            r"Could not resolve host", r"server misbehaving",
        ),
        only_with_network=True,
    ),
    Transient(
        "a connection broke",
        says(
            r"[Cc]onnection reset by peer", r"[Cc]onnection timed out", r"Read timed out",
            r"(?:Read|Connect)TimeoutError", r"i/o timeout", r"IncompleteRead",
            r"RPC failed; curl", r"fetch-pack: unexpected disconnect",
        ),
    ),
    Transient(
        "a TLS handshake did not end",
        says(r"TLS handshake timeout", r"gnutls_handshake\(\) failed", r"SSL_ERROR_SYSCALL"),
    ),
)  # fmt: skip
