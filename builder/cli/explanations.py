"""What each finding means and how others got into it: the texts of `check --explain`.

They stand in explanations.toml beside this file, one table for each code.
"""

from __future__ import annotations

import difflib
import textwrap
import tomllib
from collections.abc import Mapping
from pathlib import Path

_FILE = Path(__file__).with_name("explanations.toml")
_WIDTH = 88
_PARTS = (("How others got here", "others"), ("What to do", "do"))


def every() -> Mapping[str, Mapping[str, str]]:
    """All texts by code: `means`, and where there is something to tell, `others` and `do`."""
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


def of(code: str) -> str | None:
    """The text for a code, as it is shown."""
    text = every().get(code)
    if text is None:
        return None
    lines = [f"{code}", *_wrapped(text["means"])]
    for title, key in _PARTS:
        if key in text:
            lines += ["", title, *_wrapped(text[key])]
    return "\n".join(lines)


def near(code: str) -> list[str]:
    return difflib.get_close_matches(code, every(), n=3, cutoff=0.5)


def _wrapped(text: str) -> list[str]:
    flat = " ".join(text.split())
    return textwrap.wrap(flat, _WIDTH, initial_indent="  ", subsequent_indent="  ")
