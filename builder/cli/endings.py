"""How a command ends that failed: its exit code, its text on stderr, its report under --json."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from builder.cli import findings, wiring
from builder.cli.options import emit
from builder.errors import Finding, ImgbuildError, Place, ToolFailed, UsageError

_BUG, _INTERRUPTED = ImgbuildError.exit_code, 130


def asks_json(words: Sequence[str]) -> bool:
    """Whether --json is among the words of a command line, also of one that does not read."""
    return "--json" in (words[: words.index("--")] if "--" in words else words)


def end(error: BaseException, *, as_json: bool) -> int:
    """Tell what went wrong; the exit code. The report is the only one: no command that raises
    has written its own."""
    code, found = _of(error)
    if as_json:
        _report(code, found)
    if isinstance(error, click.UsageError):
        error.show()
    elif code == _INTERRUPTED:
        sys.stderr.write(f"{found[0].what}; {found[0].hint}\n")
    else:
        sys.stderr.write("\n".join(findings.lines(found)) + "\n")
    return code


def _of(error: BaseException) -> tuple[int, Sequence[Finding]]:
    match error:
        case ImgbuildError():
            return error.exit_code, error.findings
        case click.UsageError():
            return UsageError.exit_code, [_wrong_words(error)]
        case KeyboardInterrupt() | click.Abort():
            hint = "the same command goes on from here"
            return _INTERRUPTED, [Finding("interrupted", "interrupted", hint)]
        case OSError() if error.errno is not None:
            return ToolFailed.exit_code, [refused(error)]
        case _:
            from builder.cli.bug import kept

            return _BUG, [kept(error)]


def _report(code: int, found: Sequence[Finding]) -> None:
    try:
        emit(findings.failure_json(code, found))
    except OSError:  # nobody reads it, or its disk is full: what is left of it goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _wrong_words(error: click.UsageError) -> Finding:
    hint = f"{error.ctx.command_path} --help" if error.ctx else ""
    return Finding(UsageError.code, error.format_message(), hint)


def refused(error: OSError) -> Finding:
    """What the system refused: a full disk, a folder that may not be written."""
    at = Path(str(error.filename or wiring.cache())).absolute()
    if any(at.is_relative_to(own) for own in (wiring.cache(), wiring.state())):
        hint = "free space, or name other folders: IMGBUILD_CACHE, IMGBUILD_STATE"
    elif error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "free space on its disk, then run the same command again"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        hint = "see who may read and write it (ls -ld), then run the same command again"
    else:
        hint = "see what lies there, then run the same command again"
    place = Place(Path(str(error.filename))) if error.filename else None
    return Finding("system", str(error.strerror), hint, place=place)
