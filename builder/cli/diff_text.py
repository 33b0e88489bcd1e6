"""A comparison of lanes as text, Markdown and JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from builder.cli.text import one_line, table
from builder.steps.lockdiff import Entry, Fact, LaneDiff, State

_KINDS = {
    "sources": "sources", "deps": "deps", "base": "bases", "python": "wheels", "debs": "debs",
    "args": "build arguments", "env": "environment", "build": "build",
    "image": "image folder", "gates": "gates", "lane": "lane",
}  # fmt: skip
_WORDS: Sequence[State] = ("moved", "changed", "added", "removed", "unknown")
_TOLD_ELSEWHERE = ("tree", "content", "files")  # follow from what is shown
_HEX = re.compile(r"\b(?:sha256:)?([0-9a-f]{12})[0-9a-f]{28,}\b")


def headline(diff: LaneDiff) -> str:
    """ "vllm, b12x moved; flashinfer and all native parts the same; deps identical"."""
    sources = diff.of("sources")
    parts = [
        f"{', '.join(names)} {'not comparable' if word == 'unknown' else word}"
        for word in _WORDS
        if (names := [e.name for e in sources if e.state == word])
    ]
    same = [e.name for e in sources if e.state == "same"]
    kept, natives = _natives(sources)
    if kept:
        same.append(kept)
    if same:
        parts.append(f"{_joined(same)} the same")
    if natives:
        parts.append(natives)
    parts.append(_set("deps", diff.of("deps")))
    parts += [
        said
        for kind in ("base", "python", "debs", "args", "env", "build", "image", "gates", "lane")
        if "identical" not in (said := _set(_KINDS[kind], diff.of(kind)))
        and (kind != "lane" or diff.before.lane.name == diff.after.lane.name)
    ]
    return "; ".join(parts)


def text(diff: LaneDiff) -> Iterator[str]:
    """For a terminal: the headline, then every entry that differs."""
    yield f"{diff.before.title} → {diff.after.title}"
    yield headline(diff)
    for kind, title in _KINDS.items():
        rows = [row for entry in diff.of(kind) for row in _rows(entry)]
        if rows:
            yield ""
            yield title
            yield from table(rows, indent="  ")
    yield from _footer(diff)


def markdown(diff: LaneDiff) -> Iterator[str]:
    """For a pull request."""
    yield f"### `{diff.before.title}` → `{diff.after.title}`"
    yield ""
    yield f"**{_escaped(headline(diff))}**"
    for kind, title in _KINDS.items():
        rows = [row for entry in diff.of(kind) for row in _rows(entry)]
        if rows:
            yield ""
            yield f"| {title} | | |"
            yield "|---|---|---|"
            yield from (f"| {' | '.join(map(_escaped, row))} |" for row in rows)
    if footer := list(_footer(diff)):
        yield from footer


def as_json(diff: LaneDiff) -> Mapping[str, Any]:
    return {
        "before": _side(diff, "before"),
        "after": _side(diff, "after"),
        "same": diff.same,
        "headline": headline(diff),
        "entries": [
            {
                "kind": entry.kind,
                "name": entry.name,
                "state": entry.state,
                "facts": {
                    f.name: {"state": f.state, "before": f.before, "after": f.after}
                    for f in entry.facts
                },
            }
            for entry in diff.entries
        ],
        "unknown": {name: list(facts) for name, facts in diff.unknown.items()},
    }


def _side(diff: LaneDiff, which: str) -> Mapping[str, Any]:
    side = getattr(diff, which)
    return {
        "lane": side.lane.name,
        "title": side.title,
        "locked": side.lock is not None,
        "build-id": side.build_id or None,
    }


def _natives(sources: Sequence[Entry]) -> tuple[str, str]:
    """Which native parts are the same, and words on those that changed or are not known: of a
    source that differs and declares none, nobody knows what a compiler sees of it."""
    found = {e.name: fact.state for e in sources if (fact := e.fact("native"))}
    changed = [name for name, state in found.items() if state == "changed"]
    unknown = [name for name, state in found.items() if state == "unknown"]
    undeclared = [e.name for e in sources if not e.fact("native") and _has_other_files(e)]
    parts = [f"native part of {', '.join(changed)} changed"] if changed else []
    parts += [f"native part of {', '.join(unknown)} not known"] if unknown else []
    parts += [f"native of {', '.join(undeclared)} not declared"] if undeclared else []
    if found and not parts:
        return "all native parts", ""
    differing = {e.name for e in sources if e.state != "same"}
    kept = [name for name, state in found.items() if state == "same" and name in differing]
    return f"the native part of {', '.join(kept)}" if kept else "", ", ".join(parts)


def _has_other_files(source: Entry) -> bool:
    """Whether what is staged of it may differ; a source that is gone is not compiled."""
    followed = (source.fact("content"), source.fact("result-tree"))
    return source.state in ("moved", "changed", "added", "unknown") and not any(
        fact is not None and fact.state == "same" for fact in followed
    )


def _set(title: str, entries: Sequence[Entry]) -> str:
    """ "deps identical", "2 wheels changed: nvcc, crt", "gates: 1 added, 1 removed"."""
    differing = [e for e in entries if e.state not in ("same", "unknown")]
    unknown = [e for e in entries if e.state == "unknown"]
    if not entries:
        return f"{title} identical (none named)"
    if not differing:
        return f"{title} not comparable" if unknown else f"{title} identical"
    counts = [
        f"{len(names)} {word}: {', '.join(names[:4])}{'…' if len(names) > 4 else ''}"
        for word in _WORDS
        if (names := [e.name for e in differing if e.state == word])
    ]
    return f"{title}: {', '.join(counts)}"


def _rows(entry: Entry) -> Iterator[tuple[str, str, str]]:
    """An entry that differs: a row of its own, then one a fact."""
    if entry.state in ("same", "unknown"):
        return
    facts = [f for f in entry.differing() if f.name not in _TOLD_ELSEWHERE]
    if entry.state in ("added", "removed"):
        shown = next((s for f in facts if (s := _value(f.after or f.before))), "")
        yield entry.name, entry.state, shown
        return
    name: str = entry.name
    for fact in facts or entry.differing():
        for what in _change(fact):
            yield name, fact.name, what
            name = ""
    native = entry.fact("native")
    if entry.kind == "sources" and native is None and _has_other_files(entry):
        yield name, "native", "not declared"
    elif entry.kind == "sources" and native is not None and native.state == "same":
        yield name, "native", "the same"


def _change(fact: Fact) -> Iterator[str]:
    before, after = fact.before or {}, fact.after or {}
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys((*before, *after)):
            was, now = before.get(key, ""), after.get(key, "")
            if was != now:
                word = (
                    "added"
                    if not was
                    else "removed"
                    if not now
                    else f"{_value(was)} → {_value(now)}"
                )
                yield f"{_short(key)}: {word}" if key else word
    elif not isinstance(before, str) and not isinstance(after, str):
        for value in dict.fromkeys((*before, *after)):
            if (value in before) != (value in after):
                yield f"{'+' if value in after else '-'} {_short(value)}"
        if sorted(before) == sorted(after):
            yield "in another order"
    else:
        yield f"{_value(fact.before) or 'none'} → {_value(fact.after) or 'none'}"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{_short(k)} {_short(v)}".strip() for k, v in value.items())
    return _short(value) if isinstance(value, str) else ", ".join(map(_short, value or ()))


def _short(value: str) -> str:
    """Object ids and digests by their first twelve digits, in one line."""
    shown = _HEX.sub(r"\1", one_line(value))
    return shown if len(shown) <= 96 else f"{shown[:95]}…"


def _footer(diff: LaneDiff) -> Iterator[str]:
    unlocked = [s.title for s in (diff.before, diff.after) if s.lock is None]
    unknown = diff.unknown
    if unknown:
        facts = list(dict.fromkeys(f for held in unknown.values() for f in held))
        names = ", ".join(name.partition(".")[2] for name in unknown)
        why = f"{' and '.join(unlocked)} without a lock; " if unlocked else ""
        yield ""
        yield f"not compared ({why}known on one side at most): {', '.join(facts)} of {names}"
    if diff.before.build_id and diff.after.build_id:
        ids = (diff.before.build_id[:12], diff.after.build_id[:12])
        yield ""
        yield f"build {ids[0]}, the same" if ids[0] == ids[1] else f"build {ids[0]} → {ids[1]}"


def _joined(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _escaped(text: str) -> str:
    return re.sub(r"([\\|`*_<>\[\]])", r"\\\1", text)
