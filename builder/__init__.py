"""imgbuild: from a source lock to a fleet of GPU nodes."""

__version__ = "0.1.0"
