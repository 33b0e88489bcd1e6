"""`wheel-record`: what is installed is what was built, file by file.

The installed RECORD names a hash for each file. It is compared with the files, and these, where
the gate names one, with the wheel that the lane locks or with the source that the lane patches: an
image that runs another build of the same version passes every question about versions.
"""

from __future__ import annotations

import base64
import fnmatch
import hashlib
import json
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import ClassVar, cast

from builder.model.counts import plural
from builder.model.ids import Name, RelPath
from builder.model.values import Verdict
from builder.steps.gates import in_python
from builder.steps.gates.gate import CouldNotLook, Evidence, Fault, Gate, Probe
from builder.steps.gates.python import Distribution, Program

_DIGITS = 20  # of a sha256 in hex, as the probe prints it
_OF_INSTALLING = re.compile(
    r"\.dist-info/(?:RECORD|INSTALLER|REQUESTED|direct_url\.json|uv_\w+\.json)$|\.pyc$|\.data/(?!purelib|platlib)"
)
_OUTSIDE = re.compile(
    r"^\.\./|^[^/]+\.dist-info/"
)  # of the folder that packages lie in, or no code
_HINT = "was it changed after pip installed it, or did another wheel write over it?"


@dataclass(frozen=True, slots=True)
class WheelRecord(Gate):
    """`wheel` is a [python.NAME] of the lane; `source` one of its sources, with its `folder`."""

    kind: ClassVar[str] = "wheel-record"
    distribution: Distribution
    wheel: Name | None = None
    source: Name | None = None
    folder: RelPath | None = None  # of the source, below which packages lie; None: its root
    exclude: tuple[str, ...] = ()  # installed paths that may differ, with * and ?
    python: Program = "python3"
    timeout_s: int = 60

    @property
    def about(self) -> str:
        return self.distribution

    def faults(self) -> Iterator[Fault]:
        if self.folder is not None and self.source is None:
            yield Fault("folder", "needs a source", "it is a folder of that source")
        if self.timeout_s < 1:
            yield Fault("timeout-s", "must be 1 or more")

    def probes(self) -> tuple[Probe, ...]:
        script = in_python.script(self.python, in_python.RECORD, self.distribution)
        return (Probe("record", script, self.timeout_s),)

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        told = in_python.told(evidence.answer("record"), self.python)
        if "version" not in told:
            near = f" (it has {', '.join(told['near'])})" if told["near"] else ""
            return (self.failed(f"the image has no such distribution{near}", "pip install it"),)
        if told["copies"] > 1:
            hint = "one of them is found first: leave one, in one folder of sys.path"
            return (self.failed(f"is installed {told['copies']} times", hint),)
        if not told["record"]:
            raise CouldNotLook("it was installed without a RECORD", hint="install it from a wheel")
        whole = json.loads(zlib.decompress(base64.b64decode(told["whole"])))
        files: dict[str, str] = whole["files"]
        installed = {path: digest for path, digest in files.items() if self._counts(path)}
        missing = [path for path in whole["missing"] if not _OF_INSTALLING.search(path)]
        wrong = [
            *self._differs(whole["changed"], "differs from its RECORD", _HINT),
            *self._differs(missing, "is in its RECORD and not in the image", _HINT),
            *self._compared(installed, whole["unknown"]),
        ]
        held = [f"{plural(len(installed), 'file')} as in its RECORD"]
        if self.wheel or self.source:
            parts = [self._wheel(installed, evidence)] if self.wheel else []
            parts += [self._source(installed, evidence)] if self.source else []
            held = [said for said in parts if isinstance(said, str)]
            wrong += [said for said in parts if isinstance(said, Verdict)]
        return tuple(wrong) or (self.passed(f"{told['version']}, {' and '.join(held)}"),)

    def _compared(self, installed: Mapping[str, str], unknown: list[str]) -> Iterator[Verdict]:
        """Whether there is anything that can be compared."""
        if not installed:
            hint = "is it an empty distribution, or does `exclude` take all of it?"
            yield self.failed("cannot tell: no file of it counts", hint)
        elif not self.wheel and not self.source:
            counted = [path for path in unknown if self._counts(path)]
            hint = "an installer that writes no hash: compare with a `wheel` or a `source`"
            yield from self._differs(
                counted, "has no known hash in its RECORD", hint, "cannot tell: "
            )

    def _counts(self, path: str) -> bool:
        return not _OF_INSTALLING.search(path) and not self._excluded(path)

    def _excluded(self, path: str) -> bool:
        return any(fnmatch.fnmatchcase(path, pattern) for pattern in self.exclude)

    def _differs(
        self, paths: Iterable[str], what: str, hint: str, before: str = ""
    ) -> Iterator[Verdict]:
        counted = sorted(path for path in paths if not self._excluded(path))
        if counted:
            more = f", and {len(counted) - 1} more" if len(counted) > 1 else ""
            seen = f"{before}{counted[0]}{more} {what}"
            yield self.failed(seen, hint, detail="\n".join(counted[:30]))

    def _wheel(self, installed: Mapping[str, str], evidence: Evidence) -> Verdict | str:
        """What was compared, or what is wrong."""
        path = evidence.facts.wheels.get(self.wheel or "")
        if path is None:
            raise CouldNotLook(
                f"the locked wheel {self.wheel} is not on this machine",
                hint="imgbuild fetch LANE brings it",
            )
        built = {name: d for name, d in wheel_files(path).items() if self._counts(name)}
        own = {name for name in installed if not name.startswith("../")}  # scripts are made
        differ = [name for name in built.keys() | own if installed.get(name) != built.get(name)]
        hint = f"another build of it is installed than {path.name}: see what pip was given"
        wrong = next(self._differs(differ, "is not as in the locked wheel", hint), None)
        return wrong or f"{plural(len(built), 'file')} as in the locked wheel {self.wheel}"

    def _source(self, installed: Mapping[str, str], evidence: Evidence) -> Verdict | str:
        """What was compared, or what is wrong."""
        lookup = evidence.facts.sources
        known = lookup(self.source or "") if lookup else None
        if known is None:
            raise CouldNotLook(
                f"source {self.source} is not in this machine's store",
                hint="imgbuild fetch LANE brings it",
            )
        own = [path for path in installed if not _OUTSIDE.search(path)]
        folders = {"": f"{self.folder}/"} if self.folder else _folders(own, known)
        pairs = {
            path: known[at][:_DIGITS]
            for path in own
            if (at := folders.get(_top(path), folders.get("", "")) + path) in known
        }
        differ = [path for path, digest in pairs.items() if installed[path] != digest]
        hint = f"the image does not run the {self.source} of the lane: was a wheel of it installed?"
        wrong = next(self._differs(differ, f"is not as in source {self.source}", hint), None)
        return wrong or self._enough(own, pairs)

    def _enough(self, own: Collection[str], pairs: Collection[str]) -> Verdict | str:
        """Half of the code must have been compared: the rest may be made by a build."""
        others = sorted(set(own) - set(pairs))
        code = [path for path in own if path.endswith(".py")] or list(own)
        known = sum(path in pairs for path in code)
        if not pairs or 2 * known < len(code):
            hint = (
                'name the folder of the source that holds its packages: folder = "python"; what a '
                "build makes goes into `exclude`"
            )
            what = f"{known} of its {plural(len(code), 'file')} of code"
            seen = f"cannot tell: {what} can be compared with source {self.source}"
            return self.failed(seen, hint, detail="\n".join(others[:30]))
        if not others:
            return f"{plural(len(pairs), 'file')} as in source {self.source}"
        rest = f"{others[0]}, and {len(others) - 1} more" if others[1:] else others[0]
        of = f"{len(pairs)} of {plural(len(own), 'file')} as in source {self.source}"
        return f"{of} (not in it: {rest})"


def _top(path: str) -> str:
    return path.partition("/")[0]


def _folders(own: Iterable[str], known: Mapping[str, str]) -> Mapping[str, str]:
    """The folder of a source in which each top-level package lies ("" or src/): where most
    of its files have their path; of several, the one that comes first."""
    wanted, tops = set(own), {_top(path) for path in own}
    counts: Counter[tuple[str, str]] = Counter()
    for path in known:
        parts = path.split("/")
        for i, part in enumerate(parts):
            if part in tops and "/".join(parts[i:]) in wanted:
                counts[part, "".join(f"{name}/" for name in parts[:i])] += 1
    best: dict[str, str] = {}
    for (top, folder), _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        best.setdefault(top, folder)
    return best


def wheel_files(wheel: Path) -> Mapping[str, str]:
    """Installed path and the first digits of the sha256 of each file."""
    found = {}
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            if not info.is_dir():
                name = re.sub(r"^[^/]+\.data/(?:purelib|platlib)/", "", info.filename)
                with archive.open(info) as file:
                    digest = hashlib.file_digest(cast("BufferedIOBase", file), "sha256")
                found[name] = digest.hexdigest()[:_DIGITS]
    return found
