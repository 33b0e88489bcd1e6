"""`layers`: an extension lane changes only what it declares, against the image it builds on.

Only the layers over those of the base are read, and of the base the paths that these touch and
that are not declared; the config is compared with the base's.
"""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import ClassVar, Literal

from builder.model.counts import plural
from builder.model.ids import Name
from builder.model.values import ImageFile, ImageInfo, Verdict
from builder.steps.gates.files import removed
from builder.steps.gates.gate import Evidence, Fault, Gate, Search, Seen
from builder.steps.gates.glob import Glob, ImageGlob

_OURS = ("opt/imgbuild", "opt/imgbuild/**")  # the lock that imgbuild puts in
_OWN = ("io.imgbuild.", "org.opencontainers.image.")  # labels
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""What a process gets where the config says nothing, and what a build then writes into it."""
_WORDS = (
    "CMD", "ENTRYPOINT", "ENV", "EXPOSE", "HEALTHCHECK", "LABEL", "ONBUILD", "SHELL", "STOPSIGNAL",
    "USER", "VOLUME", "WORKDIR",
)  # fmt: skip
_SHOWN = 20
_COMPARED = 500  # paths with the base's own; of more, all are taken as changes

Change = Literal["added", "changed", "removed"]


@dataclass(frozen=True, slots=True)
class Layers(Gate):
    """`base` is one of the lane's; `allow` holds the paths that may differ, `files` where to
    look, `config` what of the config may differ, such as `CMD` and `ENV PATH`."""

    kind: ClassVar[str] = "layers"
    wants: ClassVar[frozenset[Literal["config", "history"]]] = frozenset({"config"})
    base: Name
    allow: tuple[ImageGlob, ...]
    files: tuple[ImageGlob, ...] = ("**",)
    config: tuple[str, ...] = ()  # with * and ?

    @property
    def about(self) -> str:
        return f"against base {self.base}"

    def faults(self) -> Iterator[Fault]:
        if not self.files:
            yield Fault("files", "must name at least one pattern")
        for text in self.config:
            if text.split(" ")[0] not in _WORDS:
                yield Fault("config", f"{text!r} begins with none of {', '.join(_WORDS)}")

    def searches(self) -> tuple[Search, ...]:
        return tuple(Search(Glob(text), DigestReading, links=True, layers=True)
                     for text in self.files)  # fmt: skip

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        assert evidence.bases is not None
        base, image = evidence.bases(self.base), evidence.config
        count = len(base.config.layers)
        if image.layers[:count] != base.config.layers:
            return (
                self.failed(
                    f"is not built on base {self.base}: its lowest layers are others",
                    "the last stage begins FROM that base, and nothing squashes its layers",
                ),
            )
        final = _final(seen for search in evidence.files for seen in search if seen.layer >= count)
        suspect = {path: seen for path, seen in final.items() if not self._allowed(path)}
        asked = [*dict.fromkeys(path.removesuffix("/*") for path in suspect)][:_COMPARED]
        before = base.at(asked, DigestReading)
        unwanted = dict(_compared({path: before.get(path) for path in asked}, suspect))
        told = [f"changed: {word}" for word in _reworded(base.config, image)
                if not any(fnmatch.fnmatchcase(word, text) for text in self.config)]  # fmt: skip
        if not unwanted and not told:
            paths, over = plural(len(final), "path"), plural(len(image.layers) - count, "layer")
            return (self.passed(f"{paths} in {over} over it, all of them declared"),)
        lines = told + [f"{change}: {path}" for path, change in sorted(unwanted.items())]
        more = [f"… and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        return (
            self.failed(
                f"{plural(len(lines), 'undeclared difference')}, such as {lines[0]}",
                "leave them as they are, or name them in `allow`"
                + (", what is of the config in `config`" if told else ""),
                detail="\n".join([*lines[:_SHOWN], *more]),
            ),
        )

    def _allowed(self, path: str) -> bool:
        return any(Glob(text).matches(path) for text in (*self.allow, *_OURS))


def _final(found: Iterable[Seen]) -> Mapping[str, Seen | None]:
    """What the layers leave at each path that they touch, None where they remove it."""
    state: dict[str, Seen | None] = {}
    for _, layer in groupby(sorted(found, key=lambda seen: seen.layer), lambda seen: seen.layer):
        entries = [(removed(seen.file.path), seen) for seen in layer]
        gone = [path.removesuffix("/*") for path, _ in entries if path]
        for below in [old for old in state if any(old.startswith(f"{p}/") for p in gone)]:
            del state[below]
        state.update({path: None for path, _ in entries if path})
        state.update({seen.file.path: seen for path, seen in entries if not path})
    return state


def _compared(
    before: Mapping[str, Seen | None], now: Mapping[str, Seen | None]
) -> Iterator[tuple[str, Change]]:
    """What differs; of a path that is not in `before` it is taken for granted."""
    for path, seen in sorted(now.items()):
        former = before.get(path)
        if path.endswith("/*"):
            folder = path.removesuffix("/*")  # a new one hides nothing of the base
            if folder not in before or before[folder] is not None:
                yield path, "removed"
        elif path not in before:
            yield path, "removed" if seen is None else "changed"
        elif seen is None or former is None:
            if seen is not former:
                yield path, "removed" if seen is None else "added"
        elif _what(seen) != _what(former):
            yield path, "changed"


def _what(seen: Seen) -> tuple[object, ...]:
    file = seen.file
    kind = file.kind.replace("hardlink", "file")
    held = (kind, file.mode, file.owner, file.xattrs)
    return (*held, file.target) if kind == "link" else (*held, seen.value)


def _reworded(before: ImageInfo, now: ImageInfo) -> list[str]:
    """What of the config differs, as a Dockerfile says it; what imgbuild writes is left out."""
    was, has = _said(before), _said(now)
    return sorted(word for word in was.keys() | has.keys() if was.get(word) != has.get(word))


def _said(info: ImageInfo) -> Mapping[str, object]:
    words = {"USER": info.user, "ENTRYPOINT": info.entrypoint, "CMD": info.command,
             "WORKDIR": info.workdir.rstrip("/"), **info.more}  # fmt: skip
    env = {"PATH": _PATH, **info.env}
    labels = {name: value for name, value in info.labels.items() if not name.startswith(_OWN)}
    return {
        **{word: value for word, value in words.items() if value},
        **{f"ENV {name}": value for name, value in env.items()},
        **{f"LABEL {name}": value for name, value in labels.items()},
    }


@dataclass(slots=True)
class DigestReading:
    file: ImageFile
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)

    def feed(self, chunk: bytes) -> bool:
        self.digest.update(chunk)
        return True

    def result(self) -> str:
        return self.digest.hexdigest()
