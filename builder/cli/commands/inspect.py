"""imgbuild inspect"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from builder.cli import wiring
from builder.cli.options import emit, json_option, lane_named
from builder.cli.text import clean, size, table
from builder.model.counts import plural
from builder.model.proven import digest_of, is_derived
from builder.model.values import ImageInfo
from builder.pipeline.inspect import MadeOf, find, made_of

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
    engine = wiring.engine()
    with lane_named():
        found = find(image, engine=engine, project=wiring.project(folder))
        inside = None if env_file else made_of(found, engine=engine)
    if env_file:
        for name, value in profile(found):
            click.echo(f"{name}={value}".encode())  # for a file: UTF-8
        return
    if as_json:
        report = asdict(found)
        emit({**report, "derived": _is_derived(found), "made-of": inside and asdict(inside)})
        return
    for line in _lines(found, inside):
        click.echo(clean(line))


def profile(found: ImageInfo) -> list[tuple[str, str]]:
    """The variables that the lane gives the image; all but PATH of one that is not ours."""
    names = found.labels.get(f"{_OURS}env")
    if names is None and any(key.startswith(_OURS) for key in found.labels):
        return []
    held = names.split() if names is not None else sorted(found.env.keys() - {"PATH"})
    return [(name, found.env[name]) for name in held if name in found.env]


def _lines(found: ImageInfo, inside: MadeOf | None) -> list[str]:
    ours = {k.removeprefix(_OURS): v for k, v in found.labels.items() if k.startswith(_OURS)}
    ours.pop("env", None)
    rows = [("id", found.id), ("tags", ", ".join(found.tags))]
    rows += [
        ("size", f"{size(found.size)}, {plural(len(found.layers), 'layer')}, {found.architecture}")
    ]
    if _is_derived(found):
        gates = f"not proven: they saw what it was built on ({ours.pop('gates', 'none')})"
        build = f"derived from build {ours.pop('build-id')}, not proven"
        rows += [("build-id", build), ("gates", gates)]
    plain = sorted((k, v) for k, v in ours.items() if not k.startswith("source."))
    lines = table([*rows, *plain])
    if not ours:
        return [*lines, "not built by imgbuild: it carries no lock"]
    if environment := profile(found):
        lines += ["environment", *table(environment, indent="  ")]
    lines.append("sources")
    names = sorted({k.split(".")[1] for k in ours if k.startswith("source.")})
    lines += table(
        [
            (name, ours.get(f"source.{name}.commit", ""), ours.get(f"source.{name}.tree", ""))
            for name in names
        ],
        indent="  ",
    )
    return [*lines, *(_made_of(inside) if inside else ())]


def _made_of(inside: MadeOf) -> Iterator[str]:
    pulls = [
        (name, f"#{pull['pull']}", pull["head"], pull["disposition"].replace("-", " "))
        for name, held in inside.sources.items()
        for pull in held.get("compose", ())
    ]
    patches = [
        (name, patch["path"], patch["state"].replace("-", " "))
        for name, held in inside.sources.items()
        for patch in held.get("patches", ())
    ]
    deps = [(name, held["commit"], held["into"]) for name, held in inside.deps.items()]
    for title, rows in (("pull requests", pulls), ("patches", patches), ("deps", deps)):
        if rows:
            yield title
            yield from table(rows, indent="  ")


def _is_derived(found: ImageInfo) -> bool:
    return is_derived(found.labels, digest_of(found), found.created)
