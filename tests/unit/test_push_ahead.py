"""What moves while gates run: nothing that a hook must come before."""

from __future__ import annotations

from typing import Any

import pytest

from builder.model.nodes import Hooks
from builder.pipeline.push_ahead import Ahead
from builder.pipeline.push_bring import Options


class NoSource:
    """An engine without the image: to ask it is what counts."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def find(self, name: str) -> None:
        self.asked.append(name)


@pytest.mark.parametrize(
    ("hooks", "starts"),
    [
        (Hooks(), True),
        (Hooks(after_push=(("true",),), after_node=(("true",),)), True),
        (Hooks(before_push=(("true",),)), False),
        (Hooks(before_node=(("true",),)), False),
    ],
)
def test_no_hook_is_overtaken(hooks: Hooks, starts: bool) -> None:
    source: Any = NoSource()
    connections: Any = None
    with Ahead("demo", (), Options(hooks=hooks), source, connections) as ahead:
        ahead.start("sha256:0")
        assert ahead.sent() == {}
        assert (ahead.is_started, source.asked == ["sha256:0"]) == (starts, starts)
