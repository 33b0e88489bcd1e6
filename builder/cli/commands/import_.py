"""imgbuild import"""

from __future__ import annotations

import stat
from pathlib import Path

import click

from builder.cli import findings, wiring
from builder.cli.options import GivenPath, emit, json_option, lane_named, result
from builder.cli.text import clean
from builder.errors import Place, UsageError
from builder.importers.draft import Wanted
from builder.importers.text import MOST_BYTES, ImportInvalid
from builder.model.schema import quoted
from builder.pipeline.imports import ImportReport, import_locks

_FILE = GivenPath(exists=True, dir_okay=False)
_SHOWN = 8  # kept keys that are named; --json has all


@click.command()
@click.argument("files", nargs=-1, required=True, type=_FILE)
@click.option("--lane", required=True, metavar="NAME", help="The lane to write: locks/NAME.toml.")
@click.option("--image", metavar="FOLDER", help="Below docker-images/; the default is NAME.")
@click.option("--cuda-arch-list", default="12.1a", show_default=True, metavar="LIST")
@click.option("--platform", default="linux/arm64", show_default=True)
@click.option(
    "--url", "urls", multiple=True, metavar="SOURCE=URL",
    help="The repository of a source for which the file names none.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Write a lane anew that is there already.")
@json_option
@click.pass_obj
def command(
    folder: Path,
    files: tuple[Path, ...],
    lane: str,
    image: str | None,
    cuda_arch_list: str,
    platform: str,
    urls: tuple[str, ...],
    force: bool,
    as_json: bool,
) -> None:
    """Make a lane from other projects' lock files.

    FILES of one release are given together: three integration locks make one lane. Their
    formats are told by their content: source-lock, integration-lock, merge-stack, manifest,
    sparkring-pins, sparkring-inputs. They are kept below locks/imported/.
    """
    with lane_named():
        report = import_locks(
            {file: _content(file) for file in files},
            Wanted(lane, image or lane, cuda_arch_list, (platform,)),
            _pairs(urls),
            force=force,
            project=wiring.project(folder),
            beside=_beside,
        )
    if as_json:
        emit(result(_json(report)))
    else:
        _text(report)


def _pairs(texts: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, url = text.partition("=")
        if not equals:
            raise UsageError(f"--url {quoted(text)}: SOURCE=URL is expected")
        if found.setdefault(name, url) != url:
            raise UsageError(f"--url names {quoted(name)} twice, with two addresses")
    return found


def _content(file: Path) -> bytes:
    """A file that cannot be without end: no pipe, no device, and no more than a lock has."""
    about = file.stat()
    if not stat.S_ISREG(about.st_mode) or about.st_size > MOST_BYTES:
        raise ImportInvalid(
            f"is no regular file of at most {MOST_BYTES // 1_000_000} MB",
            hint="write it to a file, and import that", place=Place(file),
        )  # fmt: skip
    return file.read_bytes()


def _beside(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _text(report: ImportReport) -> None:
    for file, format_ in report.formats.items():
        click.echo(f"{clean(file)}: {format_}")
        keys = report.kept[file]
        if keys:
            more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
            shown = ", ".join(keys[:_SHOWN])
            click.echo(f"  in its kept copy only: {clean(shown)}{more}")
    if report.diff:
        click.echo(clean(report.diff), nl=False)
    for path in report.written:
        click.echo(f"wrote {clean(path)}")
    for path in report.removed:
        click.echo(f"removed {clean(path)}")
    if not report.written:
        click.echo("nothing changed")
    for line in findings.lines(report.warnings):
        click.echo(line, err=True)
    if report.open:
        click.echo("still to be resolved:")
    for found in report.open:
        click.echo(f"  {clean(found.what)}\n    {clean(found.hint)}")


def _json(report: ImportReport) -> dict[str, object]:
    return {
        "lane": report.lane,
        "formats": report.formats,
        "written": report.written,
        "removed": report.removed,
        "diff": report.diff,
        "kept": report.kept,
        "warnings": [findings.finding_json(found) for found in report.warnings],
        "open": [findings.finding_json(found) for found in report.open],
    }
