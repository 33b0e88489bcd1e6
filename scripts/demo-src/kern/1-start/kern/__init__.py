"""Finds libkern.so: beside this file, or where KERN_LIBRARY says."""

import os
from pathlib import Path

__version__ = "0.1.0"


def library_path() -> Path:
    return Path(os.environ.get("KERN_LIBRARY", Path(__file__).with_name("libkern.so")))
