"""A bug of ours: keep what is needed to mend it, say where."""

from __future__ import annotations

import platform
import sys
import time
import traceback

from builder import __version__
from builder.cli import wiring
from builder.model.ids import redacted
from builder.model.schema import without_secrets


def keep(error: Exception) -> str:
    """Write the trace to a file; the text that tells the user of it."""
    trace = "".join(traceback.format_exception(error))
    head = f"imgbuild {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
    folder = wiring.state() / "bugs"
    path = folder / time.strftime("%Y%m%d-%H%M%S.txt", time.gmtime())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        words = [without_secrets(word) for word in sys.argv]
        path.write_text(redacted(f"{head}{words}\n\n{trace}"))
    except OSError:
        return f"error[bug]: {redacted(head + trace)}"
    return (
        f"error[bug]: {type(error).__name__}: {redacted(str(error))}\n  --> {path}\n"
        "  hint: this is a fault of imgbuild, not of your lane; the file above is what to report\n"
    )
