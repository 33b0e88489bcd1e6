"""The changes of an update as lines for a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator

from builder.cli.text import one_line
from builder.model.counts import plural
from builder.steps.changes import Changes, SourceChange


def lines(changes: Changes) -> Iterator[str]:
    """One block a source, then the dep set, then whether anything is compiled again."""
    for change in changes.sources:
        yield f"{change.name}: {change.before[:12]}..{change.after[:12]}{_counted(change)}"
        yield from (f"  {line}" for line in _source(change))
    if changes.deps_same:
        yield "deps: the set is the same"
    else:
        named = [("new", changes.deps_added), ("gone", changes.deps_removed)]
        named += [("moved", changes.deps_moved)]
        parts = [f"{word}: {', '.join(names)}" for word, names in named if names]
        yield f"deps: {'; '.join(parts)}"


def _source(change: SourceChange) -> Iterator[str]:
    for commit in change.commits:
        day = time.strftime("%Y-%m-%d", time.gmtime(commit.time))
        author = one_line(commit.author.partition(" <")[0])[:24]
        yield f"{commit.id[:12]} {day} {author}: {one_line(commit.subject)[:100]}"
    if change.count is not None and change.count > len(change.commits):
        yield f"… and {change.count - len(change.commits)} more"
    if change.rewritten:
        yield f"its history was rewritten: {change.before[:12]} is not in it any more"
    for pull in change.pulls:
        was, now = (head[:12] if head else "none" for head in (pull.before, pull.after))
        yield f"pull request {pull.pull}: head {was} → {now}"
    if change.files:
        yield f"{plural(change.files, 'file')}, +{change.added} -{change.deleted} lines"
    for file in change.most:
        gained = "binary" if file.added is None else f"+{file.added} -{file.deleted}"
        yield f"  {one_line(file.path)}  {gained}"
    if change.native == "not declared" and change.kind == "sources" and change.files:
        yield "native part: not declared"
    elif change.native != "not declared":
        named = ", ".join(map(one_line, change.native_files[:3]))
        yield f"native part: {change.native}" + (f" ({named})" if named else "")
    yield from map(one_line, change.notes)


def _counted(change: SourceChange) -> str:
    if change.count is None:
        return ""
    least = "" if change.complete else "at least "
    return f", {least}{plural(change.count, 'commit')}"
