"""Shell that the compiling probes share."""

from __future__ import annotations

import re
from typing import Annotated

from builder.model.schema import Check

FIND_COMPILER = """
compiler=
for each in "${CC:-}" cc c++ gcc g++ clang; do
    command -v "${each%% *}" >/dev/null 2>&1 && { compiler=$each; break; }
done
[ -n "$compiler" ] || { echo "no compiler"; exit 0; }
cd "$1" || exit 97
"""
"""Sets `compiler` (CC of the image first, which may hold options); leaves the probe without one."""

NO_COMPILER_HINT = (
    "what is compiled at run time needs one: gcc and libc6-dev in the last stage, from the base or "
    "as [debs.NAME] of the lane"
)

_HEADER = re.compile(r"[A-Za-z0-9_+][A-Za-z0-9_./+-]*")
_LIBRARY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")

Header = Annotated[
    str, Check(lambda t: _HEADER.fullmatch(t) is not None, 'a header, such as "cuda_runtime.h"')
]
Library = Annotated[
    str,
    Check(
        lambda t: _LIBRARY.fullmatch(t) is not None and not t.startswith(("lib", "-")),
        'the name behind -l, such as "cudart"',
    ),
]


def told(stdout: str) -> dict[str, str]:
    """The `word: value` lines of a probe."""
    lines = (line.partition(": ") for line in stdout.splitlines())
    return {key: value for key, colon, value in lines if colon}


def first_error(text: str) -> str:
    """The line of a compiler or linker that says what is wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for sign in ("cannot find -l", "fatal error:", "undefined reference", "error:", "cannot find"):
        for line in lines:
            if sign in line:
                return line
    return lines[0] if lines else "no message"
