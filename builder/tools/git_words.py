"""What git says: why a transfer failed, how far it is, and its words made fit to show."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from enum import Enum
from typing import IO

from builder.model.urls import without_userinfo
from builder.model.values import GitPin


class Why(Enum):
    """Why a transfer failed, as far as git's words tell."""

    REFUSED = "the server has no such commit, or does not give it by its id"
    DAMAGED = "the repository there is damaged or lacks objects"
    AUTH = "access was denied"
    HOST_KEY = "the server's host key is not known"
    NOT_FOUND = "there is no such repository or ref"
    FORBIDDEN = "this kind of address is not allowed"
    OWNER = "the repository belongs to another user"
    TRANSIENT = "the connection broke"
    UNREACHABLE = "the server cannot be reached"
    FULL = "there is no room for it on this machine"
    OTHER = "git failed"


_SIGNS: tuple[tuple[Why, str], ...] = (
    (Why.FULL, r"No space left on device|Disk quota exceeded"),
    (Why.DAMAGED, r"repository corruption|bad object|missing blob|did not send all|"
                  r"unable to read [0-9a-f]{40}|object file .* is empty|inflate|not whole"),
    (Why.REFUSED, r"not our ref|unadvertised object|couldn't find remote ref|"
                  r"no such remote ref|no matching remote"),
    (Why.OWNER, r"dubious ownership"),
    (Why.FORBIDDEN, r"transport '.*' not allowed|protocol '.*' not (?:allowed|supported)|"
                    r"Protocol .* (?:not supported|disabled)|strange (?:host|port)name"),
    (Why.HOST_KEY, r"Host key verification failed|REMOTE HOST IDENTIFICATION"),
    (Why.AUTH, r"Authentication failed|could not read (?:Username|Password)|"
               r"Permission denied|terminal prompts disabled|error: 40[13]\b|Access denied"),
    (Why.TRANSIENT, r"error: (?:5\d\d|429)\b|timed? ?out|Timeout|[Cc]onnection (?:was )?reset|"
                    r"early EOF|hung up|unexpected disconnect|RPC failed|too slow|"
                    r"Empty reply|HTTP/2 stream|TLS connection was non-properly|no end after"),
    (Why.NOT_FOUND, r"not found|error: 404|does not exist|not appear to be a git repository|"
                    r"No such file|could not open bundle"),
    (Why.UNREACHABLE, r"Could not resolve|unable to look up|Connection refused|"
                      r"Failed to connect|No route to host|Network is unreachable|"
                      r"Name or service not known|Temporary failure in name resolution"),
)  # fmt: skip
_COMPILED = tuple((why, re.compile(pattern)) for why, pattern in _SIGNS)
_HINTS: tuple[tuple[Why, str], ...] = (
    (Why.FULL, "free space, or name another folder: IMGBUILD_CACHE"),
    (Why.AUTH, "log in with a git credential helper (git config --global credential.helper …) "
               "or load your key into the ssh agent (ssh-add), then try again"),
    (Why.HOST_KEY, "connect once by hand (ssh <host>), compare the key, then try again"),
    (Why.FORBIDDEN, "use an https or ssh address for {name}"),
    (Why.OWNER, "git config --global --add safe.directory <the repository>, if you trust it"),
    (Why.REFUSED, "the ref may have been force-pushed or the fork deleted: {mirror}{move}"),
    (Why.DAMAGED, "what that server holds is not whole: {mirror}"),
    (Why.NOT_FOUND, "check the address of {name} in {where} (a private repository looks like "
                    "this too: then log in with a git credential helper or ssh agent){instead}"),
    (Why.UNREACHABLE, "check the network, the proxy settings and the host's name, or {mirror}"),
    (Why.TRANSIENT, "the server or the network is in trouble: try again later, or {mirror}"),
)  # fmt: skip
_MIRROR = (
    "add a repository or a bundle file that has the commit to the mirrors of {name} in the lane"
)
_INSTEAD = (
    'tell git where else it lies: git config --global url."<another address>".insteadOf "{url}"'
)
_EDITED = (
    "if git diff locks/{lane}.lock shows an edit: git checkout -- locks/{lane}.lock; otherwise "
)
_ELSE = "run the git command by hand to see more"
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_ADVICE = re.compile(r"^(?:Please make sure you have the correct|and the repository exists)")
_SAYS_LITTLE = re.compile(r"^(?:fatal: Could not read from remote|fatal: the remote end hung up)")
_AMOUNT = re.compile(r"([\d.]+) (bytes|KiB|MiB|GiB)(?: \||,|$)")
_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def why(words: str) -> Why:
    """Why git failed; what cannot be cured by trying again comes first."""
    for reason, pattern in _COMPILED:
        if pattern.search(words):
            return reason
    return Why.OTHER


def cure(pin: GitPin, reasons: Set[Why]) -> str:
    """What to do: for the first reason that a person can do something about.

    A lane's mirrors are not asked for submodules, except for those beside their parent.
    """
    why, text = next(((why, text) for why, text in _HINTS if why in reasons), (Why.OTHER, _ELSE))
    if why is Why.REFUSED and pin.place is not None and pin.place.file.suffix == ".lock":
        text = _EDITED + text
    name, lane = pin.entry, pin.place.file.stem if pin.place else "LANE"
    if pin.is_submodule:
        mirror = _INSTEAD.format(url=shown(pin.urls[0]))
        return text.format(
            name=pin.name, lane=lane, where="its parent's .gitmodules", mirror=mirror, move="",
            instead=f"; or {mirror}",
        )  # fmt: skip
    tracked = f"move the pin: imgbuild lock {lane} --update {name}"
    return text.format(
        name=name, lane=lane, where="the lane", mirror=_MIRROR.format(name=name), instead="",
        move=f", or {tracked if pin.ref else 'name another commit there'}",
    )  # fmt: skip


def last_words(stderr: str) -> str:
    """The lines of git's stderr that say something, at most four, fit to show."""
    lines = [line.strip("\0 \t") for line in re.split(r"[\r\n]+", stderr)]
    lines = [line for line in lines if line and not _is_progress(line) and not _ADVICE.match(line)]
    telling = [line for line in lines if not _SAYS_LITTLE.match(line)] or lines
    return shown("\n".join(telling[-4:])) or "no output"


def shown(text: str) -> str:
    """Text from outside: no secret of a URL, no control character but the end of line."""
    plain = without_userinfo(text)
    return _CONTROL.sub(lambda m: f"\\x{ord(m[0]):02x}", plain)


def amount(line: str) -> int | None:
    """The bytes received so far, from a line of `git fetch --progress`."""
    match = _AMOUNT.search(line) if "eceiving objects" in line else None
    return round(float(match[1]) * _UNITS[match[2]]) if match else None


def lines(pipe: IO[bytes]) -> Iterator[str]:
    """The lines of a pipe as they come, those that end in a carriage return too."""
    rest = b""
    while chunk := pipe.read1(65536):  # type: ignore[attr-defined]
        *whole, rest = re.split(rb"[\r\n]", rest + chunk)
        yield from (line.decode("utf-8", "replace") for line in whole if line)
    if rest:
        yield rest.decode("utf-8", "replace")


def _is_progress(line: str) -> bool:
    return re.search(r"(?:objects|deltas|references): +\d+|^remote: Total \d", line) is not None
