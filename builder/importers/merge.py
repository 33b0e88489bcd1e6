"""Several foreign files as one: what they say of a source must not differ."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from builder.errors import Finding, Place
from builder.importers.text import ImportInvalid
from builder.model.foreign import ForeignPatch, Read, SourceClaim
from builder.model.lane import Pull, Source
from builder.model.schema import quoted


@dataclass(frozen=True, slots=True)
class Gathered:
    """One source as all files together have it."""

    table: Source
    said: Mapping[str, str] = field(default_factory=dict)  # lane key -> where it was said
    patches: tuple[tuple[ForeignPatch, Read], ...] = ()


@dataclass(frozen=True, slots=True)
class Merged:
    """All that the files say of a lane."""

    sources: Mapping[str, Gathered]
    bases: Mapping[str, tuple[str, str]]  # name -> (ref, where it was said)
    description: tuple[str, str]


def merge(reads: Sequence[Read], urls: Mapping[str, str]) -> Merged:
    """What the files say together; `urls` are given for sources whose file names none.

    Raises: ImportInvalid with every contradiction between files.
    """
    findings: list[Finding] = []
    sources: dict[str, Gathered] = {}
    bases: dict[str, tuple[str, str]] = {}
    texts: list[tuple[str, str]] = []
    for read in reads:
        claims = read.document.claims()
        for claim in claims.sources:
            former = sources.get(claim.name)
            sources[claim.name] = _joined(former, claim, read, len(reads) > 1, findings)
        for name, (ref, key) in claims.bases.items():
            known = bases.setdefault(name, (ref, _where(key, read, len(reads) > 1)))
            if known[0] != ref:
                findings.append(_conflict(read, f"base {name}", ref, known[0], known[1]))
        texts.append(claims.description)
    sources = {k: _with_url(k, g, urls) for k, g in sources.items()}
    findings += [*_without_url(sources, reads), *_without_source(sources, urls)]
    if findings:
        raise ImportInvalid.of(findings)
    said = "; ".join(dict.fromkeys(text for text, _ in texts if text))
    return Merged(sources, bases, (said, next((key for text, key in texts if text), "")))


def _joined(
    former: Gathered | None, claim: SourceClaim, read: Read, several: bool, out: list[Finding]
) -> Gathered:
    said = {key: _where(at, read, several) for key, at in claim.said.items()}
    patches = tuple((patch, read) for patch in claim.patches)
    if former is None:
        return Gathered(claim.table, said, patches)
    table = former.table
    for spec in fields(Source):
        old, new = getattr(table, spec.name), getattr(claim.table, spec.name)
        if spec.name == "parts":
            out += _part_conflicts(claim.name, old, new, read)
            table = replace(table, parts={**new, **old})
        elif spec.name == "compose" and _heads(old) != _heads(new):
            what = "one file composes pull requests that the other does not"
            hint = "import one of the two: a lane has one composition a source"
            place = Place(read.file)
            out.append(Finding(ImportInvalid.code, f"{claim.name}: {what}", hint, place=place))
        elif _is_set(spec.name, new) and not _is_set(spec.name, old):
            table = replace(table, **{spec.name: new})
        elif _is_set(spec.name, new) and old != new and spec.name not in ("compose", "native"):
            key = spec.name.replace("_", "-")
            where = former.said.get(key, "another file")
            out.append(_conflict(read, f"{claim.name}.{key}", _shown(new), _shown(old), where))
    return Gathered(table, {**said, **former.said}, (*former.patches, *patches))


def _part_conflicts(
    name: str, old: Mapping[str, str], new: Mapping[str, str], read: Read
) -> Iterator[Finding]:
    for path in sorted(old.keys() & new.keys()):
        if old[path] != new[path]:
            what = f"{name}, object of {path}"
            yield _conflict(read, what, new[path], old[path], "another file")


def _conflict(read: Read, what: str, new: str, old: str, where: str) -> Finding:
    text = f"{what}: {read.label} says {new}, {where} says {old}"
    hint = "import files of one release together; which of them is meant?"
    return Finding(ImportInvalid.code, text, hint, place=Place(read.file))


def _with_url(name: str, gathered: Gathered, urls: Mapping[str, str]) -> Gathered:
    if name not in urls:
        return gathered
    said = {**gathered.said, "url": "--url"}
    return replace(gathered, table=replace(gathered.table, url=urls[name]), said=said)


def _without_url(sources: Mapping[str, Gathered], reads: Sequence[Read]) -> Iterator[Finding]:
    for name, gathered in sources.items():
        if not gathered.table.url:
            files = [
                r.file for r in reads if any(c.name == name for c in r.document.claims().sources)
            ]
            yield Finding(
                ImportInvalid.code,
                f"{name}: the file names no repository",
                f"say where it is: --url {name}=https://…",
                place=Place(files[0]),
            )


def _without_source(sources: Mapping[str, Gathered], urls: Mapping[str, str]) -> Iterator[Finding]:
    for name in sorted(urls.keys() - sources.keys()):
        near = difflib.get_close_matches(name, sources, n=1)
        known = f"sources of these files: {', '.join(sorted(sources))}"
        yield Finding(
            ImportInvalid.code,
            f"--url: no file speaks of a source {quoted(name)}",
            f"did you mean {near[0]}?" if near else known,
        )


def _is_set(name: str, value: object) -> bool:
    default = {"compose_strategy": "merge", "submodules": "all", "url": ""}
    if name == "track":
        return bool(getattr(value, "ref", None))
    return bool(value) and value != default.get(name)


def _heads(pulls: tuple[Pull, ...]) -> list[tuple[int, str | None, tuple[str, ...]]]:
    return [(p.pull, p.head, p.commits) for p in pulls]


def _where(key: str, read: Read, several: bool) -> str:
    return f"{key} of {read.label}" if several else key


def _shown(value: object) -> str:
    return str(getattr(value, "ref", value))
