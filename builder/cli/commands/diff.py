"""imgbuild diff"""

from __future__ import annotations

from pathlib import Path

import click

from builder.cli import diff_text, wiring
from builder.cli.options import emit, json_option, lane_named, result
from builder.cli.text import clean
from builder.pipeline.compare import compare


@click.command()
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.option("--markdown", is_flag=True, help="Report as Markdown, for a pull request.")
@json_option
@click.pass_obj
def command(folder: Path, before: str, after: str, markdown: bool, as_json: bool) -> None:
    """Compare two lanes, or one lane at two revisions, by what they mean.

    A and B are LANE, or LANE@REVISION of the project's own git repository: imgbuild diff
    demo@HEAD~1 demo. A lane without a lock is compared by what it says itself.
    """
    with lane_named():
        project = wiring.project(folder)
        found = compare(before, after, project=project, at=wiring.revisions(project))
    if as_json:
        emit(result(diff_text.as_json(found)))
        return
    lines = diff_text.markdown(found) if markdown else diff_text.text(found)
    for line in lines:
        click.echo(clean(line))
