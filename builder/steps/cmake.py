"""What CMake files would fetch while they are configured, derived without running CMake.

Each statement that fetches becomes a Fetch, or a finding with its file and line: a kind of
statement that is not known here must be noticed, not skipped. A statement in a branch that may
be taken counts; one that only an environment variable brings about does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from builder.model.ids import shown_url
from builder.steps.cmake_content import Fetch, Reading, Unclassified, declare
from builder.steps.cmake_files import Tree
from builder.steps.cmake_run import Run
from builder.steps.cmake_scope import Scope

__all__ = ["Fetch", "Tree", "Unclassified", "read"]


def read(
    files: Mapping[str, str], given: Mapping[str, str] | None = None, tree: Tree | None = None
) -> tuple[tuple[Fetch, ...], tuple[Unclassified, ...]]:
    """Read CMake files in their order, so that variables of earlier ones are known in later; one
    that another includes is read there.

    `given` are variables that are taken as set (`cmake -D`).
    """
    reading = Reading(Scope.of(given or {}))
    run = Run(reading, tree or Tree(files.keys(), files.get))
    for path in files:
        if path not in run.seen:
            run.whole(path)
    run.uncalled()
    return _settled(reading), tuple(reading.unclassified)


def _settled(reading: Reading) -> tuple[Fetch, ...]:
    """One Fetch a name, with the variable that stands for it; two that differ are reported."""
    found: dict[str, Fetch] = {}
    for fetch in reading.fetches:
        known = found.setdefault(fetch.name, fetch)
        if (known.url, known.tag) != (fetch.url, fetch.tag):
            what = (
                f"{fetch.name} is fetched from {shown_url(known.url)} at {known.tag} ({known.file}:"
            )
            what += f"{known.line}), and from {shown_url(fetch.url)} at {fetch.tag}"
            hint = f"say which branch is taken: define = {{ … }}, or {declare(fetch.name)}"
            twice = Unclassified(fetch.name, what, hint, fetch.file, fetch.line)
            if twice not in reading.unclassified:
                reading.unclassified.append(twice)
        elif known.submodules != fetch.submodules:
            both = None
            if known.submodules is not None and fetch.submodules is not None:
                both = tuple(sorted({*known.submodules, *fetch.submodules}))
            found[fetch.name] = replace(known, submodules=both)
    return tuple(
        replace(fetch, variable=reading.local.get(name)) for name, fetch in sorted(found.items())
    )
