"""`cuda-arch`: each file with device code has it for the GPUs that the image is for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from builder.model.counts import plural
from builder.model.schema import Check
from builder.model.values import ImageFile, Verdict
from builder.steps.gates.elf import ELF_MAGIC
from builder.steps.gates.fatbin import Architecture, DeviceObject, FatbinError, objects
from builder.steps.gates.gate import Evidence, Fault, Gate, LaneFacts, Search
from builder.steps.gates.glob import Glob, ImageGlob

_ARCH = re.compile(r"(sm|compute)_([1-9][0-9]{1,2})([af]?)")
_INTERESTING = (ELF_MAGIC, b"\x50\xed\x55\xba", b"!<ar")

ArchName = Annotated[
    str,
    Check(
        lambda text: _ARCH.fullmatch(text) is not None,
        "sm_ (or compute_, for PTX), digits and maybe a or f, such as sm_121a",
    ),
]

_LARGEST = 2 << 30  # bytes of a file that are held in memory

Held = tuple[DeviceObject, ...] | str  # or why it cannot be said


@dataclass(frozen=True, slots=True)
class CudaArch(Gate):
    """`require` holds for every object with kernels of every file; `exclude` names files that
    others built. An object that has one of `instead` may lack what is required, the file may not.

    With `allow-ptx`, PTX that the driver can compile for a required architecture will do.
    """

    kind: ClassVar[str] = "cuda-arch"
    files: ImageGlob | tuple[ImageGlob, ...]
    require: tuple[ArchName, ...]
    forbid: tuple[ArchName, ...] = ()
    instead: tuple[ArchName, ...] = ()
    exclude: tuple[ImageGlob, ...] = ()
    allow_ptx: bool = False
    min_files: int = 1  # with device code

    @property
    def globs(self) -> tuple[str, ...]:
        return (self.files,) if isinstance(self.files, str) else self.files

    @property
    def about(self) -> str:
        return ", ".join(self.globs)

    def faults(self) -> Iterator[Fault]:
        if not self.globs:
            yield Fault("files", "must name at least one pattern")
        if not self.require and not self.forbid:
            yield Fault("require", "must name at least one architecture", 'such as "sm_121a"')
        if self.min_files < 1:
            yield Fault("min-files", "must be 1 or more: a gate that finds nothing proves nothing")
        if both := sorted(set(self.require) & set(self.forbid)):
            yield Fault("forbid", f"{both[0]} is required as well")

    def searches(self) -> tuple[Search, ...]:
        return tuple(Search(Glob(text), self._reading) for text in self.globs)

    def _reading(self, file: ImageFile) -> DeviceCodeReading:
        return DeviceCodeReading(file, wanted=not self._excluded(file.path))

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        seen = {
            s.file.path: s.value for found in evidence.files for s in found if s.value is not None
        }
        held: dict[str, Held] = dict(sorted(seen.items()))
        with_code = {path: value for path, value in held.items() if value}
        failed = tuple(
            verdict
            for path, value in with_code.items()
            for verdict in self._file(path, value, evidence.facts)
        )
        if len(with_code) < self.min_files:
            return (*failed, self._too_few(held, with_code))
        return failed or (self._summary(held, with_code),)

    def _excluded(self, path: str) -> bool:
        return any(Glob(text).matches(path) for text in self.exclude)

    def _file(self, path: str, held: Held, facts: LaneFacts) -> Iterator[Verdict]:
        if isinstance(held, str):
            hint = "it is not passed unread: if it is known to be right, exclude it by name"
            yield self.failed(f"cannot be read: {held}", hint, about=path)
            return
        every = _union(held)
        missing = [name for name in self.require if not self._satisfied(name, every)]
        if missing:
            seen = f"has {_listed(every)}, not {', '.join(missing)}"
            yield self.failed(seen, _cause(missing, every, facts), about=path)
        elif lacking := [each for each in held if not self._holds(each.architectures)]:
            has = _listed(_union(lacking))
            seen = f"{len(lacking)} of {plural(len(held), 'object')} in it has"
            seen = seen.replace(" has", " have") if len(lacking) > 1 else seen
            yield self.failed(
                f"{seen} {has}, not {', '.join(self.require)}, such as that of {lacking[0].kernel}",
                _SOME_OBJECTS, about=path,
                detail="\n".join(f"{_listed(o.architectures)}: {o.kernel}" for o in lacking[:30]),
            )  # fmt: skip
        if unwanted := sorted({str(arch) for arch in every} & set(self.forbid)):
            hint = "that stage was built for more than the image is for"
            yield self.failed(f"has {', '.join(unwanted)}, which is forbidden", hint, about=path)

    def _holds(self, held: frozenset[Architecture]) -> bool:
        return bool({str(arch) for arch in held} & set(self.instead)) or all(
            self._satisfied(name, held) for name in self.require
        )

    def _satisfied(self, name: str, held: frozenset[Architecture]) -> bool:
        wanted = parsed(name)
        if wanted in held:
            return True
        return self.allow_ptx and any(_compiles_for(arch, wanted) for arch in held if arch.ptx)

    def _too_few(self, held: Mapping[str, Held], with_code: Mapping[str, Held]) -> Verdict:
        if not held:
            seen, hint = "no file matches", "the pattern is from the image's root; ** is any folder"
        else:
            seen = f"device code in {len(with_code)} of {len(held)} files that match"
            hint = "were the kernels compiled at all? Look for skipped ones in the configure log"
        if self.min_files > 1:
            seen += f"; at least {self.min_files} must have some"
        return self.failed(seen, hint)

    def _summary(self, held: Mapping[str, Held], with_code: Mapping[str, Held]) -> Verdict:
        every = [value for value in with_code.values() if not isinstance(value, str)]
        rest = len(held) - len(with_code)
        without = f", and {_files(rest)} without device code" if rest else ""
        listed = _listed(frozenset().union(*map(_union, every)))
        return self.passed(f"{_files(len(every))}: {listed}{without}")


@dataclass(slots=True)
class DeviceCodeReading:
    """Holds one file in memory, if it is wanted and begins like one that can have device code."""

    file: ImageFile
    wanted: bool = True
    data: bytearray = field(default_factory=bytearray)

    def feed(self, chunk: bytes) -> bool:
        if not self.wanted:
            return False
        self.data += chunk
        interesting = len(self.data) < 4 or bytes(self.data[:4]) in _INTERESTING
        return interesting and self.file.size <= _LARGEST

    def result(self) -> Held | None:
        if not self.wanted:
            return None
        if bytes(self.data[:4]) not in _INTERESTING:
            return ()
        if self.file.size > _LARGEST:
            return f"{self.file.size} bytes are more than the {_LARGEST} that are held in memory"
        try:
            return objects(self.data)
        except FatbinError as error:
            return str(error)


_SOME_OBJECTS = (
    "sources of one file were compiled for different targets: look at the gencode flags of that "
    "source. Is it meant to be so, name what such an object has in `instead`"
)


def _union(held: Iterable[DeviceObject]) -> frozenset[Architecture]:
    return frozenset().union(*(each.architectures for each in held))


def parsed(name: str) -> Architecture:
    """An ArchName as what it names."""
    match = _ARCH.fullmatch(name)
    assert match is not None  # ArchName
    return Architecture(int(match[2]), match[3], match[1] == "compute")


def _compiles_for(ptx: Architecture, wanted: Architecture) -> bool:
    """Plain PTX serves this and later GPUs, `f` its family from there on, `a` one GPU only."""
    if wanted.ptx or ptx.number > wanted.number:
        return False
    same_family = ptx.number // 10 == wanted.number // 10
    return {"": True, "f": same_family, "a": ptx.number == wanted.number}[ptx.suffix]


def _cause(missing: Sequence[str], held: frozenset[Architecture], facts: LaneFacts) -> str:
    asked = f" ({facts.cuda_arch_list} in the lane)" if facts.cuda_arch_list else ""
    wanted = [parsed(name) for name in missing]
    if all(arch.ptx for arch in held):
        return "it has PTX only: TORCH_CUDA_ARCH_LIST of its stage names no machine code"
    near = sorted({str(a) for a in held for w in wanted if _family(a) == _family(w) and not a.ptx})
    if near:
        return (
            f"{', '.join(near)} is near, but another target: a build that does not know the wanted "
            f"one falls back to it. Look at TORCH_CUDA_ARCH_LIST{asked} in the stage that builds "
            "the file, and at the architectures in its configure log"
        )
    return (
        f"TORCH_CUDA_ARCH_LIST{asked} does not reach the stage that builds it: ARG and ENV must "
        "stand in that stage itself. A file from a wheel goes into `exclude`"
    )


def _family(arch: Architecture) -> int:
    return arch.number // 10


def _listed(held: Iterable[Architecture]) -> str:
    return ", ".join(str(arch) for arch in sorted(held))


def _files(count: int) -> str:
    return plural(count, "file")
