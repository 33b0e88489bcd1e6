"""What people hang before and after a build: `[hooks]` of nodes.toml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from builder.model.lane import Lane
from builder.model.nodes import Hooks
from builder.pipeline.timeline import Timeline
from builder.steps.labels import references
from builder.tools import hooks as tool


@contextmanager
def hooked(hooks: Hooks, lane: Lane, build_id: str, timeline: Timeline) -> Iterator[None]:
    """before-build, the block, after-build; that one also when what came before it fails or is
    interrupted, since it puts right what the first one changed. Raises: BuildHookFailed."""
    about = tool.variables(lane.name, build_id, references(lane, build_id)[0])

    def after(result: str) -> None:
        _run("after-build", hooks.after_build, tool.told(about, result), timeline)

    with tool.righted(after):
        _run("before-build", hooks.before_build, about, timeline)
        yield
    after("ok")


def _run(
    when: str, commands: Sequence[Sequence[str]], about: Mapping[str, str], timeline: Timeline
) -> None:
    if commands:
        with timeline.stage(when) as line:
            tool.run_all(commands, when, about)
            line.done(", ".join(words[0] for words in commands))
