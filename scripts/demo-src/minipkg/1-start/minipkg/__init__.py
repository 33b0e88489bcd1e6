"""kern's functions, for Python."""

from minipkg.library import describe, load, runtime_version

__all__ = ["describe", "load", "runtime_version"]
