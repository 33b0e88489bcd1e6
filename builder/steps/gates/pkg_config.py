"""`pkg-config`: a module that pkg-config knows, and code that compiles with its flags.

Loaders that are compiled at run time ask pkg-config first, and leave a feature out without a
word when it does not answer; so the question is asked apart from whether the code compiles.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion

from builder.model.schema import Check
from builder.model.values import Verdict
from builder.steps.gates.compiler import FIND_COMPILER, NO_COMPILER_HINT, first_error, told
from builder.steps.gates.gate import Answer, CouldNotLook, Evidence, Fault, Gate, Probe, last_line

_HEADER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./+-]*\.(?:h|hh|hpp)")
_DEFINE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:=.*)?")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_SOME_CODE = "int imgbuild_probe(void);\nint imgbuild_probe(void) { return 0; }\n"

_ASK = """
command -v pkg-config >/dev/null 2>&1 || { echo "exists: no pkg-config"; exit 0; }
if ! pkg-config --print-errors --exists @M@; then echo "exists: no"; exit 0; fi
echo "exists: yes"
echo "version: $(pkg-config --modversion @M@)"
"""
_COMPILE = """
printf %s @SOURCE@ >m.c
echo "int main(void) { return 0; }" >main.c
if $compiler -O2 -std=c99 -shared -fPIC -Wall -Wextra -Werror @DEFINES@ m.c -Wl,--no-as-needed \\
    $(pkg-config --cflags --libs @M@) -o ./m.so >cc.out 2>&1; then echo "compile: ok"
else echo "compile: failed"; cat cc.out >&2; exit 0; fi
if command -v readelf >/dev/null 2>&1; then
    echo "needed: $(readelf -d m.so | sed -n 's/.*(NEEDED).*\\[\\(.*\\)\\].*/\\1/p' | tr '\\n' ' ')"
fi
$compiler main.c -Wl,--no-as-needed ./m.so -o m >&2 && ./m; code=$?
echo "load: $code"
"""

ModuleName = Annotated[
    str, Check(lambda t: _NAME.fullmatch(t) is not None, 'a module, such as "liburing"')
]
Define = Annotated[
    str, Check(lambda t: _DEFINE.fullmatch(t) is not None, "NAME or NAME=VALUE, as behind -D")
]


@dataclass(frozen=True, slots=True)
class PkgConfig(Gate):
    """`compile` lists headers to include, or C text; `version` is a specifier (">=2.3")."""

    kind: ClassVar[str] = "pkg-config"
    module: ModuleName
    version: str = ""
    compile: str | tuple[str, ...] = ()
    define: tuple[Define, ...] = ()

    @property
    def about(self) -> str:
        return self.module

    @property
    def code(self) -> str:
        """The C file of the probe; empty when nothing is to be compiled."""
        items = (self.compile,) if isinstance(self.compile, str) else self.compile
        lines = [f"#include <{i}>" if _HEADER.fullmatch(i) else i for i in items]
        return "\n".join([*lines, _SOME_CODE]) if lines else ""

    def faults(self) -> Iterator[Fault]:
        if self.define and not self.code:
            yield Fault("define", "is of no use without compile")
        try:
            SpecifierSet(self.version)
        except InvalidSpecifier:
            yield Fault("version", f"{self.version!r} is no specifier", 'such as ">=2.3"')

    def probes(self) -> tuple[Probe, ...]:
        script = _ASK
        if self.code:
            script += FIND_COMPILER + _COMPILE
        defines = " ".join(shlex.quote(f"-D{define}") for define in self.define)
        filled = {"@M@": self.module, "@SOURCE@": shlex.quote(self.code), "@DEFINES@": defines}
        script = re.sub("|".join(filled), lambda found: filled[found[0]], script)
        return (Probe("ask", script),)

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        answer = evidence.answer("ask")
        said = told(answer.stdout)
        if "exists" not in said:
            why = f"the probe ended with code {answer.code}: {last_line(answer.stderr)}"
            raise CouldNotLook(why, detail=answer.stderr)
        module = self._module(said, answer)
        if said["exists"] != "yes" or not self.code:
            return (module,)
        return (module, self._compiled(said, answer))

    def _module(self, said: Mapping[str, str], answer: Answer) -> Verdict:
        hint = (
            "lock its -dev package (for liburing: [debs.liburing-dev]) in the lane and install it "
            "in the last stage"
        )
        if said["exists"] == "no pkg-config":
            return self.failed(
                "the image has no pkg-config", f"lock and install pkg-config too; and {hint}"
            )
        if said["exists"] != "yes":
            seen = f"unknown to pkg-config: {first_error(answer.stderr)}"
            return self.failed(seen, hint, detail=answer.stderr)
        version = said.get("version", "")
        try:
            fits = not self.version or SpecifierSet(self.version).contains(version, True)
        except InvalidVersion:
            return self.failed(f"version {version!r} cannot be compared with {self.version}")
        if not fits:
            return self.failed(f"has version {version}, not {self.version}", hint)
        return self.passed(version)

    def _compiled(self, said: Mapping[str, str], answer: Answer) -> Verdict:
        if "no compiler" in answer.stdout.splitlines():
            seen = "the image has no C compiler"
            return self.failed(seen, NO_COMPILER_HINT, gate="compile")
        if said.get("compile") != "ok":
            hint = "a header or library behind the module's flags is missing or does not fit"
            seen = first_error(answer.stderr)
            return self.failed(seen, hint, gate="compile", detail=answer.stderr)
        if said.get("load") != "0":
            hint = "its folder is unknown to the loader: /etc/ld.so.conf.d and ldconfig"
            seen = f"compiles, but does not load: {last_line(answer.stderr)}"
            return self.failed(seen, hint, gate="compile", detail=answer.stderr)
        needed = said.get("needed", "").strip()
        return self.passed(f"compiles and loads{needed and f', needs {needed}'}", gate="compile")
