"""`python`: a distribution with a version, or a module that imports without a GPU."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion

from builder.model.schema import Check
from builder.model.values import Verdict
from builder.steps.gates.gate import Answer, CouldNotLook, Evidence, Fault, Gate, Probe, last_line

_MODULE = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_DISTRIBUTION = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_PROGRAM = re.compile(r"[A-Za-z0-9._/+-]+")

ModuleName = Annotated[
    str, Check(lambda t: _MODULE.fullmatch(t) is not None, 'a module, such as "vllm._C"')
]
Distribution = Annotated[
    str, Check(lambda t: _DISTRIBUTION.fullmatch(t) is not None, "a distribution's name")
]
Program = Annotated[
    str,
    Check(lambda t: _PROGRAM.fullmatch(t) is not None and t[0] != "-", "a program or its path"),
]

_SAYS = "imgbuild:"  # begins our line among what imports print
_ASK = """
import difflib, importlib.metadata as m, json, re, sys
wanted = sys.argv[1]
try:
    found = {"version": m.version(wanted)}
except m.PackageNotFoundError:
    names = sorted({d.metadata["Name"] or "" for d in m.distributions()})
    found = {"near": difflib.get_close_matches(wanted, names, 3, 0.6)}
print("\\nimgbuild:" + json.dumps(found))
"""
_IMPORT = """
import importlib, json, sys
module = importlib.import_module(sys.argv[1])
spec = getattr(module, "__spec__", None)
empty = spec is not None and spec.origin is None and getattr(module, "__file__", None) is None
folders = list(map(str, getattr(module, "__path__", ()))) if empty else []
print("\\nimgbuild:" + json.dumps({"folders": folders}))
"""


@dataclass(frozen=True, slots=True)
class Python(Gate):
    """`version` is a specifier of the distribution's version, as in requirements."""

    kind: ClassVar[str] = "python"
    distribution: Distribution | None = None
    import_: ModuleName | None = None
    version: str = ""
    python: Program = "python3"
    timeout_s: int = 60  # an import may load gigabytes

    @property
    def about(self) -> str:
        return f"{self.distribution or self.import_}{self.version}"

    def faults(self) -> Iterator[Fault]:
        if self.distribution is None and self.import_ is None:
            yield Fault("distribution", "is missing", "name a distribution, an import, or both")
        if self.version and self.distribution is None:
            yield Fault("version", "needs a distribution", "a module has no version of its own")
        if self.timeout_s < 1:
            yield Fault("timeout-s", "must be 1 or more")
        try:
            SpecifierSet(self.version)
        except InvalidSpecifier:
            yield Fault("version", f"{self.version!r} is no specifier", 'such as "==2.9.0+cu130"')

    def probes(self) -> tuple[Probe, ...]:
        asked = (("distribution", _ASK, self.distribution), ("import", _IMPORT, self.import_))
        return tuple(
            Probe(name, self._script(code, wanted), self.timeout_s)
            for name, code, wanted in asked
            if wanted is not None
        )

    def _script(self, code: str, wanted: str) -> str:
        """In an empty folder, so that nothing is imported from the image's working directory."""
        command = shlex.join((self.python, "-c", code, wanted))
        return f'command -v {shlex.quote(self.python)} >/dev/null || exit 127; cd "$1"; {command}'

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        verdicts = []
        for probe in self.probes():
            answer = evidence.answer(probe.name)
            if answer.code == 127:
                hint = "name the interpreter by `python`, such as /opt/venv/bin/python"
                raise CouldNotLook(f"the image has no {self.python}", hint=hint)
            judged = self._version if probe.name == "distribution" else self._import
            verdicts.append(judged(answer))
        return tuple(verdicts)

    def _version(self, answer: Answer) -> Verdict:
        lines = [line for line in answer.stdout.splitlines() if line.startswith(_SAYS)]
        if answer.code or not lines:
            raise CouldNotLook(
                f"{self.python} ended with code {answer.code}: {last_line(answer.stderr)}",
                detail=answer.stderr,
            )
        try:
            said = json.loads(lines[-1].removeprefix(_SAYS))
        except (ValueError, RecursionError) as error:
            raise CouldNotLook(f"{self.python} printed what is no JSON: {error}") from error
        version = said.get("version")
        if version is None:
            near = f" (it has {', '.join(said['near'])})" if said.get("near") else ""
            hint = f"pip install it in the last stage, for this interpreter ({self.python})"
            return self.failed(f"the image has no such distribution{near}", hint)
        if not _fits(version, self.version):
            return self.failed(
                f"has version {version}",
                "was it replaced by another package's requirement? A local part (+cpu, +cu130) "
                "counts only if the gate's version has one",
            )
        return self.passed(version)

    def _import(self, answer: Answer) -> Verdict:
        about = f"import {self.import_}"
        lines = [line for line in answer.stdout.splitlines() if line.startswith(_SAYS)]
        if not lines and not answer.code:
            seen = "ends the process when it is imported, with code 0"
            hint = "sys.exit() or os._exit() at module level: what follows the import never runs"
            return self.failed(seen, hint, about=about, detail=answer.stdout)
        if lines and (folders := json.loads(lines[-1].removeprefix(_SAYS))["folders"]):
            return self.failed(
                f"is a folder without __init__.py, in which nothing runs: {', '.join(folders)}",
                "was it left behind, or is the distribution not installed? Of a namespace package "
                "name a module in it",
                about=about,
            )
        if not answer.code:
            return self.passed(f"imports in {answer.seconds:.1f} s", about=about)
        hint = "what it needs is missing in the last stage, or not found by its loader"
        if "libcuda.so.1" in answer.stderr:
            hint = (
                "it loads the driver when it is imported, which only a GPU machine has: "
                "gate the distribution, or a module that does not"
            )
        error = last_line(answer.stderr or f"ended with code {answer.code}")
        return self.failed(error, hint, about=about, detail=answer.stderr)


def _fits(version: str, wanted: str) -> bool:
    try:
        return SpecifierSet(wanted).contains(version, prereleases=True)
    except InvalidVersion:
        return not wanted
