"""Checks that must hold before an image is labelled: `parse`, `examine`, `judge`."""

from __future__ import annotations

from builder.steps.gates.examine import examine
from builder.steps.gates.gate import Gate, LaneFacts
from builder.steps.gates.judge import GatesFailed, judge
from builder.steps.gates.table import GATES, parse

__all__ = ["GATES", "Gate", "GatesFailed", "LaneFacts", "examine", "judge", "parse"]
