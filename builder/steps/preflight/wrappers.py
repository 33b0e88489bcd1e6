"""What stands before a program: variables, keywords, and programs that only start another one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

SHELLS = ("sh", "bash", "dash", "ash", "zsh", "ksh")
_KEYWORDS = frozenset(
    ("if", "then", "else", "elif", "fi", "do", "done", "while", "until", "esac", "{", "}", "!",
     "$", "coproc", "builtin")
)  # fmt: skip
_LISTS = frozenset(("for", "select", "case"))  # what follows is no command
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=(.*)", re.DOTALL)
_WRAPPERS: Mapping[str, tuple[str, int]] = {  # options that take a value; operands before it
    "bear": ("-o --output", 0), "catchsegv": ("", 0), "ccache": ("", 0), "chronic": ("", 0),
    "chroot": ("", 1), "chrt": ("-T -P -D", 1), "command": ("", 0), "distcc": ("", 0),
    "doas": ("-u -C", 0), "dumb-init": ("-r", 0), "eatmydata": ("", 0), "exec": ("-a", 0),
    "fakeroot": ("-l -s -i -b", 0), "flock": ("-w -E", 1), "gosu": ("", 1),
    "ionice": ("-c -n --class --classdata", 0), "linux32": ("", 0), "linux64": ("", 0),
    "mold": ("", 0), "nice": ("-n --adjustment", 0), "nocache": ("", 0), "nohup": ("", 0),
    "numactl": ("-N -m -C -i -p", 0), "parallel": ("-j -P --jobs -n -a --arg-file", 0),
    "prlimit": ("", 0), "runuser": ("-u -g -G", 0), "scan-build": ("-o", 0), "sccache": ("", 0),
    "setarch": ("", 1), "setpriv": ("", 0), "setsid": ("", 0), "stdbuf": ("-i -o -e", 0),
    "strace": ("-o -e -p -s", 0), "su-exec": ("", 1),
    "sudo": ("-u -g -h -p -C -D -R -T -U -r -t --user --group --chdir", 0),
    "taskset": ("", 1), "time": ("-f -o --format --output", 0),
    "timeout": ("-k -s --kill-after --signal", 1), "tini": ("-p", 0), "unbuffer": ("", 0),
    "unshare": ("", 0), "valgrind": ("", 0),
    "xargs": ("-a -d -E -I -L -n -P -s --max-args --max-procs --delimiter --arg-file", 0),
    "xvfb-run": ("-e -f -n -p -s -w --server-args --server-num --error-file", 0),
}  # fmt: skip
_RUNNERS = frozenset(("conda", "mamba", "micromamba", "pipenv", "pixi", "poetry", "uv"))
_OF_RUN = (
    "-n -p -e --name --prefix --cwd --directory --env-file --extra --group --package --project "
    "--python --with --with-editable --with-requirements"
)
_WITH_TEXT = {  # -c TEXT, as a shell has: options that take a value
    **dict.fromkeys(SHELLS, "-o +o -O +O --rcfile --init-file"), "flock": "-w -E", "sg": "",
    "runuser": "-u -g -G -s", "script": "-E -I -O -B -m -T", "su": "-g -G -s",
}  # fmt: skip
_SEEN = frozenset(("xargs", "parallel", "eatmydata"))  # a program of its own, too


@dataclass(frozen=True, slots=True)
class Started:
    """A program with its operands, and what its environment differs in."""

    words: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)  # "" for what is taken out of it
    clean: bool = False  # nothing of the surrounding environment is left

    @property
    def text(self) -> str | None:
        """What it has a shell run: of `sh -c TEXT`, `eval`, `su -c`."""
        program = self.words[0].rpartition("/")[2]
        if program == "eval":
            return " ".join(self.words[1:])
        if program == "scl" and "--" not in self.words and self.words[1:2] == ("enable",):
            return self.words[-1]
        if program in _WITH_TEXT:
            return _text(self.words, _WITH_TEXT[program], operands=program not in SHELLS)
        return None

    @property
    def reads_script(self) -> bool:
        """Whether it is a shell that runs what it is given on its standard input."""
        if self.words[0].rpartition("/")[2] not in SHELLS or self.text is not None:
            return False
        rest = list(self.words[1:])
        while rest and rest[0].startswith(("-", "+")):
            option = rest.pop(0)
            if re.fullmatch(r"-[a-z]*s[a-z]*|-", option):
                return True
            if option.endswith("o") and not option.startswith("--"):
                del rest[:1]
        return not rest or rest[0] == "/dev/stdin"


def assigned(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The assignments that words begin with."""
    for word in words:
        match = _ASSIGNMENT.fullmatch(word)
        if match is None:
            return
        yield match[1], match[2]


def started(words: Sequence[str]) -> Iterator[Started]:
    """What is started by the words of a simple command: one, more where a program that is
    worth knowing starts another, none where nothing is."""
    env: dict[str, str] = {}
    rest, clean = tuple(words), False
    while rest:
        program = rest[0].rpartition("/")[2]
        if own := dict(assigned(rest[:1])):
            env |= own
            rest = rest[1:]
        elif rest[0] in _KEYWORDS:
            rest = rest[1:]
        elif rest[0] in _LISTS:
            rest = ()
        elif rest[0] == "function":
            rest = rest[2:]
        elif program == "env":
            rest, taken, empty = _env(rest)
            env, clean = {**({} if empty else env), **taken}, clean or empty
        elif Started(rest).text is not None:
            break
        else:
            behind = _behind(rest, program)
            if behind is None or not behind:
                break
            if program in _SEEN:
                yield Started(rest, dict(env), clean)
            clean = clean or (program == "exec" and "-c" in rest[: len(rest) - len(behind)])
            rest = behind
    if rest and rest[0] == "find":
        for i, word in enumerate(rest):
            if word in ("-exec", "-execdir", "-ok", "-okdir"):
                yield from (Started(s.words, {**env, **s.env}, clean or s.clean)
                            for s in started(rest[i + 1 :]) if s.words)  # fmt: skip
    if rest or env:
        yield Started(rest, env, clean)


def _text(words: tuple[str, ...], valued: str, *, operands: int) -> str | None:
    """What stands behind `-c`; `operands` may stand before it."""
    at = 1
    while at < len(words) - 1 and operands >= 0 and words[at] != "--":
        if re.fullmatch(r"-[a-z]*c|--command", words[at]):
            return words[at + 1]
        operands -= not words[at].startswith(("-", "+"))
        cluster = f"{words[at][:1]}{words[at][-1:]}"
        at += 1 + (words[at] in valued.split() or cluster in valued.split())
    return None


def _behind(words: tuple[str, ...], program: str) -> tuple[str, ...] | None:
    """The words that a wrapper starts, or None for what is none."""
    if program in _RUNNERS and words[1:2] == ("run",):
        return words[1 + _options(words[1:], _OF_RUN) :]
    if program == "scl" and "--" in words:
        return words[words.index("--") + 1 :]
    if program not in _WRAPPERS or (program == "command" and words[1:2] in (("-v",), ("-V",))):
        return None
    valued, operands = _WRAPPERS[program]
    at = _options(words, valued) + operands
    return words[at + 1 :] if words[at : at + 1] == ("--",) else words[at:]


def _options(words: tuple[str, ...], valued: str) -> int:
    """How many words the program and its options are."""
    at, with_value = 1, valued.split()
    while at < len(words) and words[at].startswith("-"):
        word = words[at]
        at += 1
        if word == "--":
            break
        short = not word.startswith("--") and len(word) > 2 and word[:2] not in with_value
        at += word in with_value or (short and f"-{word[-1]}" in with_value)
    return at


def _env(words: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, str], bool]:
    """`env`: what it starts, what it sets and takes out, whether it begins with nothing."""
    taken: dict[str, str] = {}
    at, empty = 1, False
    while at < len(words) and words[at].startswith("-"):
        word, value = words[at], words[at + 1 : at + 2]
        at += 1
        if word == "--":
            break
        if word in ("-", "-i", "--ignore-environment"):
            empty = True
        elif word in ("-u", "--unset", "-C", "--chdir", "-S", "--split-string"):
            at += 1
            if word in ("-u", "--unset"):
                taken |= dict.fromkeys(value, "")
            elif word in ("-S", "--split-string"):
                return (*_split("".join(value)), *words[at:]), taken, empty
        elif match := re.fullmatch(r"(?:-[iv0]*u|--unset=)(.+)", word):
            taken[match[1]] = ""
            empty = empty or word.startswith("-i")
        elif match := re.fullmatch(r"(?:-[iv0]*S|--split-string=)(.*)", word):
            return (*_split(match[1]), *words[at:]), taken, empty or word.startswith("-i")
        elif re.fullmatch(r"-[v0]*i[v0]*", word):
            empty = True
    return words[at:], taken, empty


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
