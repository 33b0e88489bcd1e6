"""The command line. Nothing that a command needs is imported before it runs."""

from __future__ import annotations

import importlib
import io
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from builder import __version__

COMMANDS: Mapping[str, tuple[str, str]] = {
    "build": ("builder.cli.commands.build", "Build a lane: from its lock to a proven image."),
    "lock": ("builder.cli.commands.lock", "Resolve a lane and write its lock."),
    "verify-lock": ("builder.cli.commands.verify_lock", "Prove locks, without Docker; for CI."),
    "import": ("builder.cli.commands.import_", "Make a lane from other projects' lock files."),
    "export": ("builder.cli.commands.export", "Write a lane in another project's lock format."),
    "patch": ("builder.cli.commands.patch", "Check, refresh and extract patch sets."),
    "deps": ("builder.cli.commands.deps", "List the third-party sources that a build stages."),
    "fetch": ("builder.cli.commands.fetch", "Bring all that a build needs, and stop."),
    "stage": ("builder.cli.commands.stage", "Lay out a build's context, and stop."),
    "diff": ("builder.cli.commands.diff", "Compare two lanes, or one at two revisions."),
    "explain": ("builder.cli.commands.explain", "Say what a change of lanes builds again."),
    "plan": ("builder.cli.commands.plan", "Say what a build would do now, and why."),
    "lock-merge": ("builder.cli.commands.lock_merge", "Merge locks, as git's merge driver."),
    "push": ("builder.cli.commands.push", "Bring an image to all nodes of a group, proved."),
    "nodes": ("builder.cli.commands.nodes", "Look at nodes, roll back, prune, copy JIT caches."),
    "check": ("builder.cli.commands.check", "Find what is wrong before anything is built."),
    "gate": ("builder.cli.commands.gate", "Run a lane's gates on any image."),
    "inspect": ("builder.cli.commands.inspect", "Show what an image says of its sources."),
    "history": ("builder.cli.commands.history", "List the builds on this machine."),
    "doctor": ("builder.cli.commands.doctor", "Say what this machine lacks."),
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name][0]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean {near[0]}?" if near else "imgbuild --help lists them"
            ctx.fail(f"No such command {args[0]!r}: {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])


@click.group(
    cls=_Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 2 usage, 3 lane or lock, 4 source, 5 patch, 6 build, 7 gate, "
    "8 distribution, 9 a tool failed, 10 a tool is missing, 130 interrupted.",
)
@click.version_option(__version__, prog_name="imgbuild")
@click.option(
    "-C", "folder", metavar="FOLDER", default=".", type=click.Path(path_type=Path),
    help="Run as if started in FOLDER; paths are read from there too.",
)  # fmt: skip
@click.pass_context
def cli(ctx: click.Context, folder: Path) -> None:
    """From a source lock to a fleet of GPU nodes.

    The same lock gives the same sources, the same build, a proven image; whatever can fail
    fails before the compiler starts.
    """
    if not folder.is_dir():
        raise click.BadParameter(f"{folder} is no folder", param_hint="-C")
    ctx.obj = folder


def main() -> None:
    """Run the command line; every error ends in one of the documented exit codes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what a terminal cannot show is written out
            stream.reconfigure(errors="backslashreplace")
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        signal.signal(signal.SIGHUP, _interrupt)
    try:
        code = cli.main(standalone_mode=False) or 0
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except (Exception, KeyboardInterrupt) as error:
        from builder.cli import endings

        code = endings.end(error, as_json=endings.asks_json(sys.argv[1:]))
    sys.exit(code)


def _interrupt(number: int, frame: object) -> None:  # noqa: ARG001
    raise KeyboardInterrupt
