"""`entrypoint`: what the image starts, and that the program is there."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from builder.model.values import ImageInfo, Verdict
from builder.steps.gates.gate import Answer, Evidence, Fault, Gate, Probe, one_line

_FIND = r"""
LC_ALL=C
fail() { echo "$1"; exit 0; }
search() { # as what starts a program does: PATH alone, and no word of the shell
    rest=$PATH:
    while [ -n "$rest" ]; do
        found=${rest%%:*} rest=${rest#*:}
        found=${found:-.}/$1
        [ -f "$found" ] && [ -x "$found" ] && return 0
    done
    return 1
}
look() {
    depth=$((depth + 1))
    [ $depth -lt 6 ] || fail "too many #! after one another"
    case $1 in
    */*) found=$1
        [ -e "$found" ] || fail "$2no such file"
        [ ! -d "$found" ] || fail "$2is a folder"
        [ -f "$found" ] || fail "$2is no regular file"
        [ -x "$found" ] || fail "$2not executable" ;;
    *) search "$1" || fail "$2not in PATH" ;;
    esac
    [ -r "$found" ] || fail "cannot tell: $2it cannot be read"
    head=$(head -c 20 "$found" 2>/dev/null)
    case $head in
    "$(printf '\177ELF')"*) binary "$2" ;;
    "#!"*) script "$2" ;;
    *) fail "$2neither a program nor a script with #! in its first line" ;;
    esac
}
binary() {
    case $head in *">") machine=amd64 ;; *"$(printf '\267')") machine=arm64 ;; *) machine= ;; esac
    [ -z "$machine" ] || echo "machine: $machine"
    start=$(head -c 1024 "$found" 2>/dev/null)
    for loader in /lib/ld-linux-aarch64.so.1 /lib64/ld-linux-x86-64.so.2 \
        /lib/ld-musl-aarch64.so.1 /lib/ld-musl-x86_64.so.1; do
        case $start in *"$loader"*) [ -e "$loader" ] || fail "$1its loader $loader is not there" ;;
        esac
    done
}
script() {
    line=$(head -c 256 "$found" 2>/dev/null | head -n 1)
    line=${line#"#!"}
    line=${line#"${line%%[! 	]*}"}
    program=${line%%[ 	]*} rest=${line#"${line%%[ 	]*}"}
    rest=${rest#"${rest%%[! 	]*}"}
    [ -n "$program" ] || fail "$1its first line names no program behind #!"
    case $program in
    */*) ;;
    *) program=./$program ;; # from where it is started
    esac
    set -- "$1its first line is #!$line: " "$program" "$rest" # its own, whatever look sets
    look "$2" "$1"
    case $2 in */env) ;; *) return 0 ;; esac
    rest=$3
    case $rest in
    "-S"*|"--split-string="*)
        rest=${rest#-S} rest=${rest#--split-string=}
        set -f
        word=
        for word in $rest; do case $word in *=*) ;; *) break ;; esac; done
        rest=$word ;;
    -*) fail "cannot tell: $1""options of env that are not known here" ;;
    esac
    case $rest in -*|*=*) fail "cannot tell: $1""env with more than a program" ;; esac
    [ -n "$rest" ] || fail "$1""env is not told what to start"
    look "$rest" "$1$rest is "
}
depth=0
look {program} ""
echo found
"""
_HINT = (
    "which stage makes it, and is it copied, and executable, in the last one? A script needs what "
    'its #! names in the image, and a word of the shell (exec, cd) needs a shell: ["sh", "-c", …]'
)


@dataclass(frozen=True, slots=True)
class Entrypoint(Gate):
    """`entrypoint` and `cmd` as in the JSON forms of ENTRYPOINT and CMD; `[]` is none.

    `program` is one that must be startable in the image: by a path, or found by its PATH. It is
    looked for as a kernel does, with the program that its `#!` names; nothing is started.
    """

    kind: ClassVar[str] = "entrypoint"
    wants: ClassVar[frozenset[Literal["config", "history"]]] = frozenset({"config"})
    entrypoint: tuple[str, ...] | None = None
    cmd: tuple[str, ...] | None = None
    program: str | None = None

    @property
    def about(self) -> str:
        words = self.entrypoint or self.cmd or ((self.program,) if self.program else ())
        return one_line(shlex.join(words))[:60] or "none"

    def faults(self) -> Iterator[Fault]:
        if self.entrypoint is None and self.cmd is None and self.program is None:
            yield Fault("entrypoint", "is missing", "name entrypoint, cmd or program")
        if self._started() is not None and not self._started():
            yield Fault("program", "must name a program")

    def probes(self) -> tuple[Probe, ...]:
        program = self._started()
        if not program:
            return ()
        return (Probe("find", _FIND.replace("{program}", shlex.quote(program)), 5),)

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        has = evidence.config
        wrong = [
            self.failed(f"{word} is {_shown(found)}, not {_shown(wanted)}", hint)
            for word, wanted, found, hint in (
                ("ENTRYPOINT", self.entrypoint, has.entrypoint,
                 "the last stage's ENTRYPOINT, in its JSON form, or its base's"),
                ("CMD", self.cmd, has.command,
                 "an ENTRYPOINT in the last stage takes away the CMD of its base"),
            )
            if wanted is not None and wanted != found
        ]  # fmt: skip
        program = None if self._is_argument(has) else self._started()
        if program and (said := _unfit(evidence.answer("find"), has.architecture)):
            wrong.append(self.failed(f"{program}: {said}", _HINT))
        return tuple(wrong) or (self.passed("is what the image starts"),)

    def _started(self) -> str | None:
        if self.program is not None:
            return self.program
        words = self.entrypoint or self.cmd
        return words[0] if words else None

    def _is_argument(self, has: ImageInfo) -> bool:
        """Whether the first word is one of `cmd`, which the image's ENTRYPOINT gets."""
        return self.program is None and self.entrypoint is None and bool(has.entrypoint)


def _unfit(answer: Answer, architecture: str) -> str:
    """Why the program cannot be started; "" if it can."""
    lines = answer.stdout.splitlines()
    for line in lines[:-1]:
        machine = line.removeprefix("machine: ")
        if machine != architecture:
            return f"is for {machine}, the image for {architecture}"
    if not lines:
        return f"cannot tell: the probe ended with code {answer.code}"
    return "" if lines[-1] == "found" else lines[-1]


def _shown(words: tuple[str, ...]) -> str:
    return "none" if not words else f"[{', '.join(map(repr, words))}]"
