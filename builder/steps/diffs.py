"""Read a patch as git apply reads it, as far as is needed to judge and to explain it.

Hunks are counted: a patch edited by hand, whose counts no longer hold, is found here, with
its line, before any tree is there to apply it to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_FILE = re.compile(r"diff --git (\"?)[a-z12]/(.*?)\1 (\"?)[a-z12]/(.*?)\3$")
_IDS = re.compile(r"index ([0-9a-f]+)\.\.([0-9a-f]+)")
_NAME = re.compile(r"(?:---|\+\+\+) (?:\"(.*)\"|([^\t]*))")
_MOVE = re.compile(r"(?:rename|copy) (?:from|to) (.*)")
_NO_CONTENT = re.compile(r"Binary files .* and .* differ")
_FULL_INDEX = re.compile(r"index [0-9a-f]{40}(?:[0-9a-f]{24})?\.\.[0-9a-f]{40}")
_OCTAL = re.compile(r"\\([0-7]{3}|.)")
_CONTEXT = (" ", "", "\r")  # what a line of context begins with
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


@dataclass(frozen=True, slots=True)
class Hunk:
    file: str  # the old name, as git names it in "patch failed: <file>:<start>"
    start: int  # first line in the old file
    length: int  # lines of the old file
    line: int  # of its header in the patch, from 1
    to: str = ""  # the new name
    to_start: int = 0
    heading: str = ""  # what stands behind the second @@: the function, as git found it
    ids: tuple[str, str] = ("", "")  # of the file before and after, as the patch says (shortened)
    body: tuple[str, ...] = ()  # its lines, with their signs


@dataclass(slots=True)
class Patch:
    """What a patch touches, and the first thing that is wrong with its form."""

    files: set[str] = field(default_factory=set)
    hunks: list[Hunk] = field(default_factory=list)
    wrong: str = ""
    wrong_line: int = 0  # from 1
    crlf_headers: bool = False  # the patch itself was converted to CRLF
    modes: list[str] = field(default_factory=list)  # "csrc/x.sh: 100644 -> 100755"


def read(data: bytes, *, strip: int = 1) -> Patch:
    """Read a patch; never raises, see `wrong`."""
    patch = Patch()
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    patch.crlf_headers = any(
        line.endswith("\r") for line in lines if line.startswith(("diff --git ", "@@ -", "+++ "))
    )
    at, old, new, ids, mode = 0, "", "", ("", ""), ""
    while at < len(lines) and not patch.wrong:
        line = lines[at].rstrip("\r")
        if name := _file_named(line, strip, lines, at):
            old = name if line.startswith("--- ") or not old else old
            new = name if line.startswith("+++ ") or not new else new
            patch.files |= {name} - {"/dev/null"}
        if line.startswith("diff --git "):
            (old, new), ids = _of_header(line, strip, patch), ("", "")
        elif found := _IDS.match(line):
            ids = (found[1], found[2])
        elif line.startswith("old mode "):
            mode = line.split()[-1]
        elif line.startswith("new mode "):
            patch.modes.append(f"{old}: {mode} -> {line.split()[-1]}")
        if hunk := _HUNK.match(line):
            at = _hunk(hunk, lines, at, Hunk(old, 0, 0, 0, new, ids=ids), patch)
        else:
            at += 1
    if not patch.wrong:
        patch.wrong, patch.wrong_line = _binary(lines)
    if not patch.files and not patch.wrong:
        patch.wrong, patch.wrong_line = "there is no diff in it", 1
    return patch


def _binary(lines: list[str]) -> tuple[str, int]:
    """What is wrong with the binary parts, and where; git needs the content and full ids."""
    index = ""
    for number, line in enumerate(lines, 1):
        if line.startswith("index "):
            index = line
        elif _NO_CONTENT.fullmatch(line.rstrip("\r")):
            return "a binary file without its content (git diff --binary writes it)", number
        elif line.rstrip("\r") == "GIT binary patch" and not _FULL_INDEX.match(index):
            return "a binary file without full ids (git diff --binary --full-index)", number
    return "", 0


def _hunk(header: re.Match[str], lines: list[str], at: int, of: Hunk, patch: Patch) -> int:
    """Count one hunk of the files of `of`; the index of the line behind it."""
    first = at + 1
    old, new = (int(count) if count else 1 for count in (header[2], header[4]))
    end = _counted(header, lines, first, old, new, patch)
    patch.hunks.append(
        replace(
            of, start=int(header[1]), length=old, line=first, to_start=int(header[3]),
            heading=lines[at][header.end() :].strip(), body=tuple(lines[first:end]),
        )
    )  # fmt: skip
    return end


def _counted(
    header: re.Match[str], lines: list[str], first: int, old: int, new: int, patch: Patch
) -> int:
    at = first
    while old > 0 or new > 0:
        if at >= len(lines) or (at == len(lines) - 1 and not lines[at]):
            patch.wrong = f"the hunk ends before its {header[0]!r} is filled"
            patch.wrong_line = first
            return at
        kind = lines[at][:1]
        if kind in _CONTEXT:
            old, new = old - 1, new - 1
        elif kind == "-" and not _is_signature(lines, at):
            old -= 1
        elif kind == "+":
            new -= 1
        elif kind != "\\":
            patch.wrong = f"a line that is no part of the hunk {header[0]!r}, which lacks lines"
            patch.wrong_line = at + 1
            return at
        at += 1
    if old or new:
        patch.wrong, patch.wrong_line = f"the counts of {header[0]!r} do not hold", first
    elif at < len(lines) and lines[at][:1] in ("+", " ") and not lines[at].startswith("+++ "):
        patch.wrong = f"more lines than {header[0]!r} says"
        patch.wrong_line = at + 1
    elif int(header[1]) > 1 and not any(line[:1] in _CONTEXT for line in lines[first:at]):
        patch.wrong = "a hunk without context (diff -U0), of which git cannot tell the place"
        patch.wrong_line = first
    return at


def _is_signature(lines: list[str], at: int) -> bool:
    """Whether the `-- ` is the end of a mail, as git format-patch writes it."""
    return lines[at].rstrip() == "--" and not any(lines[at + 2 :])


def _file_named(line: str, strip: int, lines: list[str], at: int) -> str:
    """The file that a `---`, `+++` or rename line names, without its first `strip` parts."""
    if move := _MOVE.fullmatch(line):
        return _unquoted(move[1])
    pair = (
        line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")
    ) or (line.startswith("+++ ") and at > 0 and lines[at - 1].startswith("--- "))
    match = _NAME.match(line) if pair else None
    if not match:
        return ""
    name = _unescaped(match[1]) if match[1] is not None else match[2].rstrip("\r")
    return name if name == "/dev/null" else _stripped(name, strip)


def _of_header(line: str, strip: int, patch: Patch) -> tuple[str, str]:
    """The names of a `diff --git` line; also for files without hunks (mode, binary)."""
    text = line.removeprefix("diff --git ")
    half = len(text) // 2
    halves = [_stripped(_unquoted(side), strip) for side in (text[:half], text[half + 1 :])]
    if halves[0] != halves[1] or not halves[0]:  # renamed, or no names as git writes them
        match = _FILE.match(line)
        if not match:
            return "", ""
        halves = [_unescaped(match[i + 1]) if match[i] else match[i + 1] for i in (1, 3)]
    patch.files |= set(halves)
    return halves[0], halves[1]


def _stripped(name: str, strip: int) -> str:
    return "/".join(name.split("/")[strip:])


def _unquoted(name: str) -> str:
    return _unescaped(name[1:-1]) if name.startswith('"') else name


def _unescaped(name: str) -> str:
    """Undo git's C-style quoting of bytes."""

    def byte(match: re.Match[str]) -> bytes:
        word = match[1]
        return bytes([int(word, 8)]) if len(word) == 3 else _ESCAPES.get(word, word).encode()

    parts, last = [], 0
    for match in _OCTAL.finditer(name):
        parts += [name[last : match.start()].encode("utf-8", "surrogateescape"), byte(match)]
        last = match.end()
    parts.append(name[last:].encode("utf-8", "surrogateescape"))
    return b"".join(parts).decode("utf-8", "surrogateescape")
