"""imgbuild inspect"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from builder.cli import wiring
from builder.cli.options import emit, json_option, lane_named
from builder.cli.text import clean, size, table
from builder.model.counts import plural
from builder.model.values import ImageInfo
from builder.pipeline.inspect import find

_OURS = "io.imgbuild."


@click.command()
@click.argument("image")
@click.option(
    "--env-file", is_flag=True,
    help="Print the lane's environment as docker's --env-file takes it, and nothing else.",
)  # fmt: skip
@json_option
@click.pass_obj
def command(folder: Path, image: str, env_file: bool, as_json: bool) -> None:
    """Show what IMAGE says of itself: lane, build id, sources, environment, gates."""
    with lane_named():
        found = find(image, engine=wiring.engine(), project=wiring.project(folder))
    if env_file:
        for name, value in profile(found):
            click.echo(f"{name}={value}".encode())  # for a file: UTF-8
        return
    if as_json:
        emit(asdict(found))
        return
    for line in _lines(found):
        click.echo(clean(line))


def profile(found: ImageInfo) -> list[tuple[str, str]]:
    """The variables that the lane gives the image; all but PATH of one that is not ours."""
    names = found.labels.get(f"{_OURS}env")
    if names is None and any(key.startswith(_OURS) for key in found.labels):
        return []
    held = names.split() if names is not None else sorted(found.env.keys() - {"PATH"})
    return [(name, found.env[name]) for name in held if name in found.env]


def _lines(found: ImageInfo) -> list[str]:
    ours = {k.removeprefix(_OURS): v for k, v in found.labels.items() if k.startswith(_OURS)}
    ours.pop("env", None)
    rows = [("id", found.id), ("tags", ", ".join(found.tags))]
    rows += [
        ("size", f"{size(found.size)}, {plural(len(found.layers), 'layer')}, {found.architecture}")
    ]
    plain = sorted((k, v) for k, v in ours.items() if not k.startswith("source."))
    lines = table([*rows, *plain])
    if not ours:
        return [*lines, "not built by imgbuild: it carries no lock"]
    if environment := profile(found):
        lines += ["environment", *table(environment, indent="  ")]
    lines.append("sources")
    names = sorted({k.split(".")[1] for k in ours if k.startswith("source.")})
    return lines + table(
        [
            (name, ours.get(f"source.{name}.commit", ""), ours.get(f"source.{name}.tree", ""))
            for name in names
        ],
        indent="  ",
    )
