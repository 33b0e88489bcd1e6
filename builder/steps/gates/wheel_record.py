"""`wheel-record`: what is installed is what was built, file by file.

The installed RECORD names a sha256 for each file. It is compared with the files, and, where the
gate names one, with the wheel that the lane locks or with the source that the lane patches: an
image that runs another build of the same version passes every question about versions.
"""

from __future__ import annotations

import base64
import csv
import fnmatch
import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from builder.model.counts import plural
from builder.model.ids import Name, RelPath
from builder.model.values import Verdict
from builder.steps.gates import in_python
from builder.steps.gates.gate import CouldNotLook, Evidence, Fault, Gate, Probe
from builder.steps.gates.python import Distribution, Program

_DIGITS = 20  # of a sha256 in hex, as the probe prints it
_OF_INSTALLING = re.compile(
    r"\.dist-info/(?:RECORD|INSTALLER|REQUESTED|direct_url\.json)$|\.pyc$|\.data/(?!purelib|platlib)"
)
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
        files: dict[str, str] = json.loads(zlib.decompress(base64.b64decode(told["files"])))
        installed = {path: digest for path, digest in files.items() if self._counts(path)}
        wrong = [
            *self._differs(told["changed"], "differs from its RECORD", _HINT),
            *self._differs(told["missing"], "is in its RECORD and not in the image", _HINT),
            *(self._wheel(installed, evidence) if self.wheel else ()),
            *(self._source(installed, evidence) if self.source else ()),
        ]
        return tuple(wrong) or (
            self.passed(f"{told['version']}, {plural(len(installed), 'file')}{self._as}"),
        )

    @property
    def _as(self) -> str:
        parts = [f"the locked wheel {self.wheel}"] if self.wheel else []
        parts += [f"source {self.source}"] if self.source else []
        return f" as in {' and '.join(parts or ['its RECORD'])}"

    def _counts(self, path: str) -> bool:
        return not _OF_INSTALLING.search(path) and not self._excluded(path)

    def _excluded(self, path: str) -> bool:
        return any(fnmatch.fnmatchcase(path, pattern) for pattern in self.exclude)

    def _differs(self, paths: list[str], what: str, hint: str) -> Iterator[Verdict]:
        counted = sorted(path for path in paths if not self._excluded(path))
        if counted:
            more = f", and {len(counted) - 1} more" if len(counted) > 1 else ""
            yield self.failed(f"{counted[0]}{more} {what}", hint, detail="\n".join(counted[:30]))

    def _wheel(self, installed: Mapping[str, str], evidence: Evidence) -> Iterator[Verdict]:
        path = evidence.facts.wheels.get(self.wheel or "")
        if path is None:
            raise CouldNotLook(
                f"the locked wheel {self.wheel} is not on this machine",
                hint="imgbuild fetch LANE brings it",
            )
        built = {name: d for name, d in wheel_files(path).items() if self._counts(name)}
        differ = [name for name, digest in built.items() if installed.get(name) != digest]
        hint = f"another build of it is installed than {path.name}: see what pip was given"
        yield from self._differs(differ, "is not as in the locked wheel", hint)

    def _source(self, installed: Mapping[str, str], evidence: Evidence) -> Iterator[Verdict]:
        lookup = evidence.facts.sources
        known = lookup(self.source or "") if lookup else None
        if known is None:
            raise CouldNotLook(
                f"source {self.source} is not in this machine's store",
                hint="imgbuild fetch LANE brings it",
            )
        prefix = f"{self.folder}/" if self.folder else ""
        pairs = {p: known[prefix + p][:_DIGITS] for p in installed if prefix + p in known}
        if not pairs:
            hint = 'name the folder of the source that holds its packages: folder = "python"'
            yield self.failed(f"none of its files has that path in source {self.source}", hint)
        differ = [path for path, digest in pairs.items() if installed[path] != digest]
        hint = f"the image does not run the {self.source} of the lane: was a wheel of it installed?"
        yield from self._differs(differ, f"is not as in source {self.source}", hint)


def wheel_files(wheel: Path) -> Mapping[str, str]:
    """Installed path and the first digits of the sha256 of each file, as the RECORD has them."""
    with zipfile.ZipFile(wheel) as archive:
        record = next(n for n in archive.namelist() if n.endswith(".dist-info/RECORD"))
        rows = list(csv.reader(io.StringIO(archive.read(record).decode("utf-8"))))
    found = {}
    for path, digest, *_ in rows:
        if digest.startswith("sha256="):
            raw = base64.urlsafe_b64decode(digest[7:] + "=" * (-len(digest[7:]) % 4))
            name = re.sub(r"^[^/]+\.data/(?:purelib|platlib)/", "", path)
            found[name] = raw.hex()[:_DIGITS]
    return found
