"""Verdicts of gates for people (a table), and for CI (JUnit XML)."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

from builder.cli.findings import where
from builder.cli.text import clean, one_line
from builder.errors import Finding, Place
from builder.model.counts import plural
from builder.model.values import Verdict
from builder.tools.project import replace_file

_ABOUT = 44  # characters of its column


def table(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """A line for each verdict, aligned; with its output and cure for one that does not hold."""
    rows = [(v, one_line(v.gate), one_line(v.about)) for v in verdicts]
    gate = max((len(name) for _, name, _ in rows), default=0)
    about = min(max((len(text) for _, _, text in rows), default=0), _ABOUT)
    for verdict, name, text in rows:
        word = "ok    " if verdict.passed else "FAILED"
        shown = text if len(text) <= about else f"{text[: about - 1]}…"
        yield f"{word} {name:{gate}}  {shown:{about}}  {one_line(verdict.seen)}"
        if not verdict.passed:
            if verdict.file:
                yield f"       --> {where(Place(Path(verdict.file), verdict.line))}"
            yield from (f"       | {clean(line)}" for line in verdict.detail.splitlines())
            if verdict.hint:
                yield f"       hint: {clean(verdict.hint)}"


def summary(verdicts: Sequence[Verdict]) -> str:
    failed = sum(not v.passed for v in verdicts)
    return f"{len(verdicts) - failed} of {plural(len(verdicts), 'gate')} hold"


def junit(suite: str, verdicts: Sequence[Verdict], findings: Sequence[Finding] = ()) -> bytes:
    """A JUnit report: a test case for each verdict, and for each finding a failed one."""
    failures = sum(not v.passed for v in verdicts) + len(findings)
    root = ElementTree.Element(
        "testsuite", name=clean(suite), tests=str(len(verdicts) + len(findings)),
        failures=str(failures), errors="0", skipped="0",
    )  # fmt: skip
    for verdict in verdicts:
        name = one_line(verdict.about)
        case = ElementTree.SubElement(root, "testcase", classname=verdict.gate, name=name)
        if verdict.passed:
            ElementTree.SubElement(case, "system-out").text = clean(verdict.seen)
        else:
            text = "\n".join(part for part in (verdict.hint, verdict.detail) if part)
            _failure(case, f"gate-{verdict.gate}", verdict.seen, text)
    for found in findings:
        name = one_line(found.what)
        case = ElementTree.SubElement(root, "testcase", classname=found.code, name=name)
        _failure(case, found.code, found.what, "\n".join((found.hint, found.detail)))
    ElementTree.indent(root)
    written = io.BytesIO()
    ElementTree.ElementTree(root).write(written, encoding="utf-8", xml_declaration=True)
    return written.getvalue() + b"\n"


def write_junit(path: Path, data: bytes) -> None:
    """Beside its place, then renamed: CI never picks up half a report."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, data)


def _failure(case: ElementTree.Element, kind: str, message: str, text: str) -> None:
    failure = ElementTree.SubElement(case, "failure", type=kind, message=one_line(message))
    failure.text = clean(text)
