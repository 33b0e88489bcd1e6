"""before-build and after-build: in order, with what they are told, and what stops what."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import pytest

from builder.cli.progress import PlainProgress
from builder.errors import GateError, ImgbuildError
from builder.model.lane import Lane
from builder.model.nodes import Hooks
from builder.model.schema import Reader
from builder.pipeline.build_hooks import hooked
from builder.pipeline.timeline import Timeline
from builder.tools import hooks as tool
from builder.tools.hooks import BuildHookFailed, HookFailed
from tests.unit.locks import lane_table

ID = "ab" * 32


def lane() -> Lane:
    read = Reader(Path("x"), "x").read(Lane, lane_table())
    assert read is not None
    return dataclasses.replace(read, name="demo")


def shell(text: str) -> tuple[str, ...]:
    return ("sh", "-c", text)


class Case:
    """Hooks that write what they were told into a file, around a block that fails or does not."""

    def __init__(self, said: Path, before: str = "", after: str = "") -> None:
        told = f'echo "$IMGBUILD_LANE $IMGBUILD_BUILD_ID $IMGBUILD_IMAGE $IMGBUILD_RESULT" >>{said}'
        self.said = said
        self.hooks = Hooks(
            before_build=(
                shell(f"echo before >>{said}; {told}; {before}"),
                shell(f"echo 2 >>{said}"),
            ),
            after_build=(shell(f"echo after >>{said}; {told}; {after}"),),
        )
        self.timeline = Timeline(PlainProgress(io.StringIO()))

    def run(self, error: BaseException | None = None) -> list[str]:
        with hooked(self.hooks, lane(), ID, self.timeline):
            with self.said.open("a") as out:
                out.write("block\n")
            if error:
                raise error
        return self.lines()

    def lines(self) -> list[str]:
        return self.said.read_text().splitlines()


ABOUT = f"demo {ID} x-demo:{ID[:12]}"


def test_in_order_with_what_they_are_told(tmp_path: Path) -> None:
    case = Case(tmp_path / "said")
    assert case.run() == ["before", f"{ABOUT} ", "2", "block", "after", f"{ABOUT} ok"]
    assert [(s.name, s.said) for s in case.timeline.stages] == [
        ("before-build", "sh, sh"), ("after-build", "sh"),
    ]  # fmt: skip


def test_a_failing_one_before_stops_the_build_and_what_it_stopped_starts_again(
    tmp_path: Path,
) -> None:
    case = Case(tmp_path / "said", before="echo out; echo err >&2; exit 3")
    with pytest.raises(BuildHookFailed, match="before-build: sh ended with code 3") as failed:
        case.run()
    assert case.lines() == ["before", f"{ABOUT} ", "after", f"{ABOUT} failed"]
    assert failed.value.findings[0].detail == "out\nerr"
    assert failed.value.exit_code == 6


@pytest.mark.parametrize("error", [GateError("a gate"), KeyboardInterrupt()])
def test_after_a_failed_build_too(tmp_path: Path, error: BaseException) -> None:
    case = Case(tmp_path / "said")
    with pytest.raises(type(error)):
        case.run(error)
    assert case.lines()[-1] == f"{ABOUT} failed"


def test_the_builds_own_error_stays_the_first(tmp_path: Path) -> None:
    with pytest.raises(GateError) as failed:
        Case(tmp_path / "said", after="exit 1").run(GateError("a gate"))
    assert [f.code for f in failed.value.findings] == ["gate", "build-hook-failed"]
    with pytest.raises(BuildHookFailed, match="after-build"):
        Case(tmp_path / "said", after="exit 1").run()


@pytest.mark.parametrize(
    ("words", "what"),
    [(("imgbuild-no-such",), "imgbuild-no-such is not installed"), (("sleep", "9"), "no end")],
)  # fmt: skip
def test_a_program_that_is_not_there_or_does_not_end(
    words: tuple[str, ...], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "_HOOK_S", 0.2)
    with pytest.raises(HookFailed, match=f"before-push: .*{what}") as failed:
        tool.run_all([words], "before-push", {})
    assert isinstance(failed.value, ImgbuildError)
    assert "nodes.toml" in failed.value.findings[0].hint


@pytest.mark.parametrize("words", [("",), (), ("/",), ("a\0b",), ("/etc/hostname",)])
def test_a_command_that_cannot_be_started(words: tuple[str, ...]) -> None:
    with pytest.raises(HookFailed, match="before-push: "):
        tool.run_all([words], "before-push", {})
    with pytest.raises(BuildHookFailed, match="after-build: "):
        tool.run_all([words], "after-build", {})
