"""Everything that can be known before a container starts, all findings at once."""

from __future__ import annotations

from builder.steps.preflight.contexts import Contexts, contexts
from builder.steps.preflight.dockerfile import device_code, dockerfile
from builder.steps.preflight.machine import OLDEST_ENGINE, machine
from builder.steps.preflight.packaging import Plain
from builder.steps.preflight.report import Preflight, PreflightFailed
from builder.steps.preflight.sources import sources

__all__ = [
    "OLDEST_ENGINE",
    "Contexts",
    "Plain",
    "Preflight",
    "PreflightFailed",
    "contexts",
    "device_code",
    "dockerfile",
    "machine",
    "sources",
]
