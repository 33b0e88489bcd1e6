"""A bug of ours: keep what is needed to mend it, say where."""

from __future__ import annotations

import platform
import sys
import time
import traceback

from builder import __version__
from builder.cli import wiring
from builder.errors import Finding, Place
from builder.model.schema import without_secrets
from builder.model.urls import without_userinfo

_HINT = "this is a fault of imgbuild, not of your lane; {} is what to report"


def kept(error: BaseException) -> Finding:
    """Write the trace to a file; what tells the user of it."""
    what = f"{type(error).__name__}: {error}"
    trace = "".join(traceback.format_exception(error))
    head = f"imgbuild {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
    folder = wiring.state() / "bugs"
    path = folder / time.strftime("%Y%m%d-%H%M%S.txt", time.gmtime())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        words = [without_secrets(word) for word in sys.argv]
        path.write_text(without_userinfo(f"{head}{words}\n\n{trace}"))
    except OSError:
        return Finding("bug", what, _HINT.format("this"), detail=f"{head}{trace}")
    return Finding("bug", what, _HINT.format("the file above"), place=Place(path))
