"""Options and arguments that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from builder.cli.text import clean_json
from builder.errors import ImgbuildError

PLATFORM = click.Choice(("linux/amd64", "linux/arm64"))


class GivenPath(click.Path):
    """A path on the command line: from the folder that -C names, absolute or not there."""

    def __init__(self, **conditions: bool) -> None:
        super().__init__(path_type=Path, **conditions)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        top = ctx.obj if ctx is not None and isinstance(ctx.obj, Path) else Path()
        return super().convert(top / value, param, ctx)


F = TypeVar("F", bound=Callable[..., Any])


def lane_argument(function: F) -> F:
    return click.argument("lane")(function)


def platform_option(function: F) -> F:
    return click.option(
        "--platform", metavar="linux/ARCH", type=PLATFORM,
        help="Whose packages; default: this machine's.",
    )(function)  # fmt: skip


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Report on stdout as JSON.")(
        function
    )


def junit_option(function: F) -> F:
    return click.option(
        "--junit", metavar="FILE", type=GivenPath(dir_okay=False),
        help="Write the verdicts as JUnit XML too.",
    )(function)  # fmt: skip


def emit(report: Any) -> None:
    """A report as JSON on stdout: UTF-8, whatever the terminal's encoding is."""
    click.echo(clean_json(report).encode("utf-8", "backslashreplace"))


@contextmanager
def lane_named() -> Iterator[None]:
    """Hints of an error name the lane that the command was given."""
    try:
        yield
    except ImgbuildError as error:
        if lane := click.get_current_context().params.get("lane"):
            error.findings = tuple(found.named(lane) for found in error.findings)
        raise


def result(extra: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"ok": True, "exit": 0, "findings": [], **extra}
