"""A bug of ours: keep what is needed to mend it, say where."""

from __future__ import annotations

import platform
import sys
import time
import traceback

from builder import __version__
from builder.cli import wiring


def keep(error: Exception) -> str:
    """Write the trace to a file; the text that tells the user of it."""
    trace = "".join(traceback.format_exception(error))
    head = f"imgbuild {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
    folder = wiring.state() / "bugs"
    path = folder / time.strftime("%Y%m%d-%H%M%S.txt", time.gmtime())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{head}{sys.argv}\n\n{trace}")
    except OSError:
        return f"error[bug]: {head}{trace}"
    return (
        f"error[bug]: {type(error).__name__}: {error}\n  --> {path}\n"
        "  hint: this is a fault of imgbuild, not of your lane; the file above is what to report\n"
    )
