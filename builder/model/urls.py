"""Hide the passwords and tokens of URLs in a text."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ROOT = re.compile(r":(?:\\*/){2,}")  # JSON may write a slash as \/
_SCHEME = re.compile(r"[A-Za-z0-9+.-]*\Z")
_SCHEME_MOST, _HOST_MOST, _URL_MOST = 40, 300, 2000  # characters
# Up to the end of the authority, and of the word; in quotation marks not beyond them.
_PLAIN = re.compile(r"[^\s/?#]*"), re.compile(r"\S*")
_QUOTED = re.compile(r'(?:\\[^\s/]|[^\s/?#"\\])*'), re.compile(r'(?:\\\S|[^\s"\\])*')
_HOST = re.compile(r"(?:\[[^\]]*\]?|[^:]*)(?::[0-9]*)?[\"'`)\]}>.,;:\\]*")
_LOGIN = re.compile(r"[\w.+~-]+")
_SSH = re.compile(r"(?:.*\+)?(?:ssh|sftp)(?:\+git)?", re.IGNORECASE)


def without_userinfo(text: str) -> str:
    """The text with `…` for the userinfo of every URL in it, of whatever scheme. Only the plain
    login of an ssh URL stays, and `git@host:path`, which has room for no more.

    It ends as for git and curl: at the last `@` before `/`, `?`, `#` or white space. Where a
    password holds one of these, no host can be read, and all is hidden to the last `@` there.
    """
    parts, at = [], 0
    for start, end in _userinfo(text):
        parts += [text[at:start], "…"]
        at = end
    return "".join(parts) + text[at:] if parts else text


def _userinfo(text: str) -> Iterator[tuple[int, int]]:
    """Where each one begins that is hidden, and where the `@` behind it lies."""
    end = 0
    for root in _ROOT.finditer(text):
        start = root.end()
        scheme = _SCHEME.search(text, max(0, root.start() - _SCHEME_MOST), root.start())
        assert scheme is not None
        if start < end or scheme[0].lower() == "file":
            continue
        is_quoted = text.startswith('"', scheme.start() - 1) and scheme.start() > 0
        end = _end(text, start, *(_QUOTED if is_quoted else _PLAIN))
        is_login = _SSH.fullmatch(scheme[0]) and _LOGIN.fullmatch(text, start, end)
        if end > start and not is_login:
            yield start, end


def _end(text: str, start: int, authority: re.Pattern[str], word: re.Pattern[str]) -> int:
    """Where the last `@` lies that ends a userinfo; `start` when there is none."""
    found = authority.match(text, start)
    assert found is not None
    is_host = len(found[0]) <= _HOST_MOST and _HOST.fullmatch(found[0])
    if "@" not in found[0] and not is_host:
        found = word.match(text, start, start + _URL_MOST)
        assert found is not None
    return start + max(0, found[0].rfind("@"))
