"""Read what a machine answers of its caches. A node may be broken, or lie: no path of its own
choice, no other name than it was asked for, and no number without bound leaves this module."""

from __future__ import annotations

import contextlib
import re
import stat
from collections.abc import Iterator, Mapping, Sequence

from builder.model.caches import CacheFacts, CacheFile, Manifest
from builder.steps.distribution import probe
from builder.steps.distribution.caches import CacheUnsafe, changing

_KEY = re.compile(r"[0-9a-f]{12}")
_MACHINE = re.compile(r"[A-Za-z0-9_]{1,32}")
_CAPABILITY = re.compile(r"[0-9]{1,3}\.[0-9]{1,3}")
_ENTRY = re.compile(r"([0-9a-f]{1,4}) ([0-9]{1,15}) (.+)", re.DOTALL)
_SUM = re.compile(r"([0-9a-f]{64}) [ *](.+)", re.DOTALL)
_ODD = re.compile(r"[\x00-\x1f\x7f\\\ufffd]")
_INSIDE = re.compile(r"(?:\.\./)*(?!\.\.(?:/|$))[^/]+(?:/(?!\.\.(?:/|$))[^/]+)*|\.")
_PRIVILEGE = stat.S_ISUID | stat.S_ISGID
_MOST_GPUS = 64


def facts(name: str, answer: str, names: Sequence[str]) -> CacheFacts:
    """What a machine answered to LOOK, of the folders that were asked for. Raises: ProbeGarbled."""
    with _garbled(name, answer):
        said = _whole(answer)
        machine = said["machine"].strip()
        if not _MACHINE.fullmatch(machine):
            raise ValueError(f"machine: {machine[:80]!r}")
        gpu = [line for line in said["gpu"].split() if _CAPABILITY.fullmatch(line)]
        there = said["folders"].split("\n")
        return CacheFacts(
            architecture=probe.ARCHITECTURES.get(machine, machine),
            gpu="+".join(gpu[:_MOST_GPUS]),
            tools=frozenset(said["tools"].split()),
            home=said["home"].strip("\n"),
            root=said["root"].strip("\n"),
            free=probe.free(said["free"]),
            keys=tuple(key for key in said["keys"].splitlines() if _KEY.fullmatch(key)),
            folders=tuple(folder for folder in names if folder in there),
            links=tuple(line for line in said["links"].splitlines() if line),
        )


def manifest(name: str, answer: str, names: Sequence[str]) -> Manifest:
    """All that LIST saw in these folders. Raises: CacheUnsafe, CacheChanging, ProbeGarbled."""
    with _garbled(name, answer):
        said = _whole(answer)
        if odd := said["odd"].strip() or next(filter(_ODD.search, answer.split("\n")), ""):
            first = odd.partition("\n")[0]
            raise CacheUnsafe(
                f"{name}: {first!r} is no file, folder or link with a plain name",
                hint="remove it there",
            )
        links = said["links"].split("\n")
        targets = {path[1:]: to for path, to in zip(links[:-1:2], links[1::2], strict=False)}
        sums = {path: digest for digest, path in _rows(_SUM, said["sums"])}
        found: dict[str, CacheFile] = {}
        for raw, size, path in _rows(_ENTRY, said["entries"]):
            mode = int(raw, 16)
            if path in found:
                raise ValueError(f"{path!r} is listed twice")
            digest = targets.get(path, "") if stat.S_ISLNK(mode) else sums.get(path, "")
            found[path] = CacheFile(mode, int(size) if stat.S_ISREG(mode) else 0, digest)
        for path in sorted(found):
            if why := _unsafe(path, found, names):
                raise CacheUnsafe(
                    f"{name}: {path} {why}",
                    hint="remove it there: only plain files, folders and links within a declared "
                    "folder are copied",
                )
        files = {path for path, one in found.items() if stat.S_ISREG(one.mode)}
    if files != sums.keys():
        raise changing(name, "files came or went")
    return dict(sorted(found.items()))


def _unsafe(path: str, found: Mapping[str, CacheFile], names: Sequence[str]) -> str:
    """Why an entry is neither copied nor believed, or nothing."""
    one, (top, *below) = found[path], path.split("/")
    folder = path.rpartition("/")[0]
    if top not in names or any(part in ("", ".", "..") for part in below):
        return "lies in no folder that was asked for"
    if folder and not (folder in found and stat.S_ISDIR(found[folder].mode)):
        return "lies in what is no folder"
    if stat.S_ISLNK(one.mode):
        inside = below and _stays_inside(path, one.digest)
        return "" if inside else f"leads out: {one.digest[1:]}"
    if stat.S_ISREG(one.mode):
        return "has the rights of its owner (setuid or setgid)" if one.mode & _PRIVILEGE else ""
    return "" if stat.S_ISDIR(one.mode) else "is no file, folder or link"


def _stays_inside(path: str, digest: str) -> bool:
    """Whether a link's target lies below its cache. `..` only in front: behind a name it could
    lead through another link."""
    target = digest.removeprefix(">")
    return _INSIDE.fullmatch(target) is not None and target.count("../") < path.count("/")


def _whole(answer: str) -> Mapping[str, str]:
    """The sections of an answer that came to its end."""
    said = probe.parts(answer)
    if "end" not in said:
        raise ValueError("it has no end")
    return said


def _rows(pattern: re.Pattern[str], section: str) -> Iterator[tuple[str, ...]]:
    for line in filter(None, section.split("\n")):
        match = pattern.fullmatch(line)
        if match is None:
            raise ValueError(line[:200])
        yield match.groups()


@contextlib.contextmanager
def _garbled(name: str, answer: str) -> Iterator[None]:
    try:
        yield
    except probe.GARBLED as error:
        raise probe.ProbeGarbled(
            f"{name} gave an answer that cannot be read: {error!r}", detail=answer[-2000:],
            hint=f"does its login shell print something? run: ssh {name} true",
        ) from error  # fmt: skip
