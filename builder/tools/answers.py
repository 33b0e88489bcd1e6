"""Whole answers of HTTP servers, limited in size and time; every failure in words of ours."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import requests

T = TypeVar("T")
WHOLE_S = 60.0  # for one whole answer, from the name's look-up to its last byte; s
_LIMITS_S = (5.0, 15.0)  # to connect, between two bytes
_CHUNK = 1 << 16
_WORDS: tuple[tuple[type[Exception], str], ...] = (
    (requests.exceptions.ChunkedEncodingError, "its answer breaks off, or is badly framed"),
    (requests.exceptions.ContentDecodingError, "its answer is badly compressed"),
    (requests.exceptions.TooManyRedirects, "it redirects too often"),
    (requests.exceptions.SSLError, "TLS with it fails"),
    (requests.exceptions.ProxyError, "the proxy before it fails"),
    (requests.exceptions.Timeout, "nothing came in time"),
    (requests.exceptions.ConnectionError, "the connection fails"),
)


class NoAnswer(ValueError):
    """A server gives no answer that can be read; its text says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer that arrived whole; the body of a 200 only."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Anonymous(requests.Session):
    """Reads no credentials: neither ~/.netrc nor an address; the environment's proxies hold."""

    def __init__(self) -> None:
        super().__init__()
        self.max_redirects = 5
        self.auth = lambda request: request  # none is looked for where one is set

    def rebuild_auth(
        self, prepared_request: requests.PreparedRequest, response: requests.Response
    ) -> None:
        """After a redirect: a token goes to no other host, and ~/.netrc is not asked either."""
        before, now = str(response.request.url), str(prepared_request.url)
        if self.should_strip_auth(before, now):  # type: ignore[no-untyped-call]
            prepared_request.headers.pop("Authorization", None)


def asked(
    session: requests.Session, method: str, url: str, *, most: int, **more: Any
) -> Answer:  # fmt: skip
    """One request and its whole answer, of at most `most` bytes. Raises: NoAnswer."""
    return _within(WHOLE_S, lambda: _whole(session, method, url, most, more))


def json_of(body: bytes) -> Any:
    """Raises: NoAnswer."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise NoAnswer("its answer is no JSON that can be read") from error


def _whole(
    session: requests.Session, method: str, url: str, most: int, more: Mapping[str, Any]
) -> Answer:
    body = bytearray()
    try:
        with session.request(method, url, timeout=_LIMITS_S, stream=True, **more) as answer:
            if answer.status_code == 200:
                for chunk in answer.iter_content(_CHUNK):
                    body += chunk
                    if len(body) > most:
                        raise NoAnswer(f"its answer has more than {most} bytes")
            return Answer(answer.status_code, answer.headers, bytes(body))
    except requests.RequestException as error:
        words = (said for kind, said in _WORDS if isinstance(error, kind))
        raise NoAnswer(next(words, type(error).__name__)) from error


def _within(limit_s: float, call: Callable[[], T]) -> T:
    """What `call` gives. Its thread is left behind when the time is up: a socket's own limit
    starts again with each byte, and a name's look-up has none. Raises: NoAnswer."""
    got: list[T] = []
    wrong: list[BaseException] = []

    def run() -> None:
        try:
            got.append(call())
        except BaseException as error:
            wrong.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit_s)
    if wrong:
        raise wrong[0]
    if not got:
        raise NoAnswer(f"its answer is not whole after {limit_s:g} s")
    return got[0]
