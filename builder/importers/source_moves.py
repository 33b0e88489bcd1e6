"""A `*.source.lock` whose components moved: what follows is written anew, or left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from builder.importers import source_keys
from builder.importers.moving import ExportImpossible
from builder.importers.naming import KNOWN_REPOSITORIES
from builder.importers.source_checks import FINGERPRINT, fingerprint, version_commit
from builder.model.counts import plural
from builder.model.lane import Source

if TYPE_CHECKING:
    from builder.importers.source_lock import SourceLock


def moved(
    lock: SourceLock, sources: Mapping[str, Source]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The values of the new lock, and a note for each that had to be left out."""
    values = dict(lock.values)
    notes: list[str] = []
    for name in lock.components:
        if name in sources:
            notes += _move(lock, name, sources[name], values)
    if values != lock.values and FINGERPRINT in values:
        words = values[FINGERPRINT].split("-")
        follows = fingerprint(values)
        if None in follows.values():
            del values[FINGERPRINT]
            notes.append(f"{FINGERPRINT}: its parts are not all known any more")
        else:
            new = [str(word) for word in follows.values()]
            values[FINGERPRINT] = "-".join([*new[:2], words[2], *new[2:]])
    return values, tuple(notes)


def _move(lock: SourceLock, name: str, table: Source, values: dict[str, str]) -> Iterator[str]:
    """Change the values of one component in place; yields what was left out."""
    if table.compose:
        raise ExportImpossible(
            f"{name} is composed of {plural(len(table.compose), 'pull request')}: a source-lock "
            "names the one commit that holds them",
            hint="push the composed commit, and name it in the lane",
        )
    if table.patches and f"{name}.patch.sha256" not in values:
        yield f"{name}: the lane's patches ({', '.join(table.patches)}) are not in this format"
    repository, commit = f"{name}.repository", lock.commit_key(name) or f"{name}.commit"
    if repository in values or table.url != KNOWN_REPOSITORIES.get(name, ""):
        values[repository] = table.url
    ref = f"{name}.ref"
    if ref in values and table.track.ref and values[ref].startswith("refs/heads/"):
        values[ref] = table.track.ref
    has_moved = table.commit is not None and table.commit != values[commit]
    if has_moved:
        values[commit] = str(table.commit)
        yield from _version(name, str(table.commit), values)
    known = {commit.removesuffix("commit") + "tree": table.tree}
    known |= {f"{name}.{k}": table.parts.get(p) for k, p in source_keys.NATIVE_PARTS.items()}
    known[f"{name}.package.tree"] = table.parts.get(name)
    native_moved = has_moved and any(
        known[f"{name}.{key}"] != values.get(f"{name}.{key}") for key in source_keys.NATIVE_PARTS
    )
    for key, value in known.items():
        if value is not None:
            values[key] = value
        elif has_moved and values.pop(key, ""):
            yield f"{key}: not known for the commit {table.commit!s:.12}"
    if has_moved:
        yield from _artifacts(name, values, native_moved=native_moved)


def _version(name: str, commit: str, values: dict[str, str]) -> Iterator[str]:
    key = f"{name}.version"
    prefix = version_commit(name, values[key]) if key in values else None
    if prefix is not None:
        values[key] = values[key].removesuffix(prefix) + commit[: len(prefix)]
    elif key in values:
        del values[key]
        yield f"{key}: not known for the commit {commit:.12}"


def _artifacts(name: str, values: dict[str, str], *, native_moved: bool) -> Iterator[str]:
    """Digests of what was made from the former commit."""
    for key in [k for k in values if source_keys.component(k) == name and k.endswith(".sha256")]:
        if key.startswith(f"{name}.native.") and not native_moved:
            continue
        if key == f"{name}.patch.sha256":
            continue
        del values[key]
        yield f"{key}: it was made from the former commit"
