"""imgbuild export"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from builder.cli import wiring
from builder.cli.options import GivenPath, emit, json_option, lane_argument, lane_named, result
from builder.cli.text import clean
from builder.errors import UsageError
from builder.importers.kinds import FORMATS
from builder.pipeline.exports import Exported, export


@click.command()
@lane_argument
@click.option("--format", "format_", required=True, type=click.Choice(FORMATS))
@click.option("--source", metavar="NAME", help="Only the document that speaks of this source.")
@click.option(
    "-o", "--output", metavar="FOLDER", type=GivenPath(file_okay=False),
    help="Write the documents there, under the names they were imported by.",
)  # fmt: skip
@json_option
@click.pass_obj
def command(
    folder: Path, lane: str, format_: str, source: str | None, output: Path | None, as_json: bool
) -> None:
    """Write LANE in the format of another project's locks, on stdout.

    What the lane was imported from comes back as it was, byte for byte, while the lane says
    the same; what changed since is written anew, or refused when the format needs a value that
    no lane holds.
    """
    with lane_named():
        documents = export(lane, format_, source=source, project=wiring.project(folder))
        if output is None and len(documents) > 1 and not as_json:
            names = ", ".join(sorted(d.name for d in documents))
            raise UsageError(
                f"{lane} has {len(documents)} documents of that format: {names}",
                hint="-o FOLDER for all of them, or --source NAME for one",
            )
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        for document in documents:
            (output / document.name).write_bytes(document.text.encode())
    _show(documents, output, as_json=as_json)


def _show(documents: tuple[Exported, ...], output: Path | None, *, as_json: bool) -> None:
    if as_json:
        rows = [
            {"name": d.name, "format": d.format, "text": d.text, "notes": d.notes}
            for d in documents
        ]
        emit(result({"documents": rows}))
        return
    for document in documents:
        for note in document.notes:
            sys.stderr.write(f"note: {clean(note)}\n")
        if output is not None:
            click.echo(clean(f"wrote {output / document.name}"))
        else:
            sys.stdout.buffer.write(document.text.encode())
