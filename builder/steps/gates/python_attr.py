"""`python-attr`: a name that a module defines, found without importing anything.

Importing would load CUDA, which a build host has no driver for, and takes many seconds. So the
module is located as the import system would (each package by its search path, none executed) and
its source is read as a syntax tree: definitions, assignments and imports at module level, also
within if, try, with and for; not what never runs (`if TYPE_CHECKING:`), has no value (`x: int`) or
is deleted again. What only exists when the module runs (a star import, `__getattr__`, a
compiled module) cannot be seen this way: such a gate has to say `import = true`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from builder.model.values import Verdict
from builder.steps.gates import in_python
from builder.steps.gates.gate import CouldNotLook, Evidence, Fault, Gate, Probe, last_line
from builder.steps.gates.python import ModuleName, Program

_IMPORT = (
    "import functools, importlib, sys; "
    "functools.reduce(getattr, sys.argv[2].split('.'), importlib.import_module(sys.argv[1])); "
    "print('\\nimgbuild:{}')"
)


@dataclass(frozen=True, slots=True)
class PythonAttr(Gate):
    """`attr` may lead into a class: `Registry.register`."""

    kind: ClassVar[str] = "python-attr"
    module: ModuleName
    attr: ModuleName
    import_: bool = False
    python: Program = "python3"
    timeout_s: int = 60

    @property
    def about(self) -> str:
        return f"{self.module}.{self.attr}"

    def faults(self) -> Iterator[Fault]:
        if self.timeout_s < 1:
            yield Fault("timeout-s", "must be 1 or more")

    def probes(self) -> tuple[Probe, ...]:
        program = _IMPORT if self.import_ else in_python.ATTRIBUTE
        script = in_python.script(self.python, program, self.module, self.attr)
        return (Probe("look", script, self.timeout_s),)

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        answer = evidence.answer("look")
        if self.import_:
            if answer.code in (0, 127):
                in_python.told(answer, self.python)
                return (self.passed(f"imports, and is there, in {answer.seconds:.1f} s"),)
            seen = last_line(answer.stderr)
            hint = "see the python gate for what stops imports on a machine without a GPU"
            return (self.failed(seen, hint, detail=answer.stderr),)
        return (self._verdict(in_python.told(answer, self.python)),)

    def _verdict(self, told: Mapping[str, Any]) -> Verdict:
        if "line" in told:
            return self.passed(f"{told['file']}, line {told['line']}")
        if "missing" in told:
            hint = "is the distribution installed, for this interpreter, and new enough?"
            return self.failed(f"there is no module {told['missing']}", hint)
        if "syntax" in told:
            return self.failed(f"its source does not parse: {told['syntax']}")
        if "lacks" in told:
            near = difflib.get_close_matches(self.attr.split(".")[-1], told["names"], 3, 0.5)
            there = f" (it has {', '.join(near)})" if near else ""
            hint = "another version than the gate was written for, or it was renamed upstream"
            return self.failed(f"{told['file']} does not define {told['lacks']}{there}", hint)
        why = told.get("opaque") or f"{', '.join(told['dynamic'])} in {told['file']}"
        raise CouldNotLook(
            f"the name is not in the source, and may come from {why}",
            hint="name the module that defines it, or say import = true",
        )
