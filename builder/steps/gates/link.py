"""`link`: the image's own compiler links with a library and the loader then finds it.

The program really needs the library, whatever a linker script says of it.

Two verdicts for each library, since two different things mend them: LIBRARY_PATH (or an
unversioned .so in a default folder) only the link, ld.so.conf.d with ldconfig only the load.
The probe gives no -L and sets no variable: it sees what a compiler at run time would see.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from builder.model.values import Verdict
from builder.steps.gates.compiler import (
    FIND_COMPILER,
    NO_COMPILER_HINT,
    Header,
    Library,
    first_error,
    told,
)
from builder.steps.gates.gate import Answer, CouldNotLook, Evidence, Fault, Gate, Probe, last_line

_OF_THE_DRIVER = ("cuda", "nvidia-ml", "nvcuvid", "nvidia-encode")
"""Come into a container from the host's driver: they can be linked here, not loaded."""

_OF_CUDA = re.compile(r"cu[a-z]+|nv[a-z0-9-]+|nccl|accinj64|npp[a-z]+")

_CUDART = """\
#ifdef __cplusplus
extern "C"
#endif
int cudaRuntimeGetVersion(int *);
int main(void) { int version = 0; return cudaRuntimeGetVersion(&version) || version <= 0; }
"""
_EMPTY = "int main(void) { return 0; }\n"

_STEPS = """
printf %s {source} >m.c
if $compiler m.c -Wl,--no-as-needed -l{library} -o m >link.out 2>&1; then echo "link: ok"
else echo "link: failed"; cat link.out >&2; exit 0; fi
{load}
"""
_LOAD = r"""
# What the linker took for it: a program that calls nothing of a library may not need it
# (AS_NEEDED in a linker script), and one of an archive never does.
echo "int main(void) {{ return 0; }}" >e.c
$compiler e.c -Wl,-t -o e >base.out 2>&1 && $compiler m.c -Wl,--no-as-needed -Wl,-t -l{library} \
    -o m >trace.out 2>&1 || {{ echo "load: no trace"; exit 0; }}
newline='
'
before=$newline$(cat base.out)$newline
set --
archive=
while IFS= read -r file; do
    case ${{file##*/}} in
    lib{library}.so*) ;;
    *) case $before in *"$newline$file$newline"*) continue ;; esac ;;
    esac
    case $file in
    *.o|*"("*) ;;
    *.a) archive=$file ;;
    /*) [ "$(head -c 4 "$file" 2>/dev/null)" = "$(printf '\177ELF')" ] &&
        set -- "$@" "-L${{file%/*}}" "-l:${{file##*/}}" ;;
    esac
done <trace.out
if [ $# = 0 ] && [ -n "$archive" ]; then
    echo "archive: $(($(wc -c <"$archive"))) $archive"
    exit 0
fi
[ $# != 0 ] && $compiler m.c -Wl,--no-as-needed "$@" -o m >need.out 2>&1 ||
    {{ cat need.out >&2; echo "load: no trace"; exit 0; }}
./m; code=$?
echo "load: $code"
"""
_EMPTY_ARCHIVE = 8  # bytes: its magic word


@dataclass(frozen=True, slots=True)
class Link(Gate):
    """With `headers`, the program includes them too."""

    kind: ClassVar[str] = "link"
    libraries: tuple[Library, ...]
    headers: tuple[Header, ...] = ()

    @property
    def about(self) -> str:
        return ", ".join(self.libraries)

    def faults(self) -> Iterator[Fault]:
        if not self.libraries:
            yield Fault("libraries", "must name at least one library")

    def probes(self) -> tuple[Probe, ...]:
        return tuple(Probe(library, self._script(library)) for library in self.libraries)

    def _script(self, library: str) -> str:
        includes = "".join(f"#include <{header}>\n" for header in self.headers)
        main = _CUDART if library == "cudart" and not self.headers else _EMPTY
        load = "" if library in _OF_THE_DRIVER else _LOAD.format(library=library)
        steps = _STEPS.format(source=shlex.quote(includes + main), library=library, load=load)
        return FIND_COMPILER + steps

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        return tuple(
            verdict
            for library in self.libraries
            for verdict in self._verdicts(library, evidence.answer(library))
        )

    def _verdicts(self, library: str, answer: Answer) -> Iterator[Verdict]:
        if answer.stdout.strip() == "no compiler":
            yield self.failed("the image has no C compiler", NO_COMPILER_HINT, about=library)
            return
        said = told(answer.stdout)
        if "link" not in said:
            why = f"the probe ended with code {answer.code}: {last_line(answer.stderr)}"
            raise CouldNotLook(why, detail=answer.stderr)
        if said["link"] != "ok":
            seen, hint = first_error(answer.stderr), _link_hint(library, answer.stderr)
            yield self.failed(seen, hint, about=library, detail=answer.stderr)
            return
        yield self.passed("links without -L", about=library)
        if library not in _OF_THE_DRIVER:
            yield self._load(library, said, answer)

    def _load(self, library: str, said: Mapping[str, str], answer: Answer) -> Verdict:
        size, _, archive = said.get("archive", "").partition(" ")
        code = said.get("load", "it did not start")
        if archive and int(size) <= _EMPTY_ARCHIVE:
            seen = f"{archive} is empty: it is a part of libc"
            return self.passed(seen, gate="load", about=library)
        if archive:
            hint = (
                f"install lib{library}.so in the last stage; that an archive is there, a gate of "
                "the kind file says"
            )
            seen = f"nothing to load: there is only an archive, {archive}"
            return self.failed(seen, hint, gate="load", about=library)
        if code == "no trace":
            seen = f"cannot tell: the linker does not say which file it takes for -l{library}"
            return self.failed(seen, gate="load", about=library, detail=answer.stderr)
        if code == "0":
            return self.passed("loads and runs", gate="load", about=library)
        hint = (
            "the loader does not know its folder: a file in /etc/ld.so.conf.d that names it, then "
            "ldconfig, in the last stage. LIBRARY_PATH does not help here"
        )
        seen = f"code {code}: {last_line(answer.stderr or answer.stdout)}"
        return self.failed(seen, hint, gate="load", about=library, detail=answer.stderr)


def _link_hint(library: str, said: str) -> str:
    if f"-l{library}" in said and not _OF_CUDA.match(library):
        return (
            f"lock its -dev package ([debs.lib{library}-dev], or whatever has lib{library}.so) in "
            "the lane and install it in the last stage; if the library is there, the linker does "
            "not know its folder: ENV LIBRARY_PATH=… in the last stage"
        )
    if f"-l{library}" in said:
        return (
            "the linker does not know its folder (ENV LIBRARY_PATH=/usr/local/cuda/lib64 in the "
            "last stage), or there is only a versioned .so: add a link "
            f"lib{library}.so. ld.so.conf.d does not help here"
        )
    if "try using -rpath" in said:
        return (
            f"lib{library} needs another library, whose folder the linker does not know: a file in "
            "/etc/ld.so.conf.d that names it, then ldconfig, in the last stage"
        )
    if "undefined reference" in said or "undefined symbol" in said:
        return (
            f"lib{library} needs symbols that are in no library it names: another version of one "
            "of those is installed, or it was built without naming it. ldd -r shows which"
        )
    if "fatal error:" in said:
        return "a header is missing: install its -dev package in the last stage, or set CPATH"
    return "the compiler itself is not complete: gcc and libc6-dev belong in the last stage"
