"""Verdicts as a table and as JUnit XML."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from builder.cli.verdicts import junit, summary, table, write_junit
from builder.errors import Finding
from builder.model.values import Verdict

VERDICTS = (
    Verdict("link", "cudart", True, "links without -L"),
    Verdict("pkg-config", "liburing", False, "unknown \x1b]52;c", "apt-get install it", "a\nb"),
)


def test_table() -> None:
    assert list(table(VERDICTS)) == [
        "ok     link        cudart    links without -L",
        "FAILED pkg-config  liburing  unknown \\x1b]52;c",
        "       | a",
        "       | b",
        "       hint: apt-get install it",
    ]
    assert summary(VERDICTS) == "1 of 2 gates hold"
    assert list(table(())) == []


def test_junit(tmp_path: Path) -> None:
    write_junit(tmp_path / "a/report.xml", junit("x", VERDICTS, (Finding("disk-full", "no room"),)))
    suite = ElementTree.parse(tmp_path / "a/report.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("3", "2")
    failures = {case.get("classname"): case.find("failure") for case in suite}
    assert failures["link"] is None
    failure = failures["pkg-config"]
    assert failure is not None
    assert failure.get("message") == "unknown \\x1b]52;c"
    assert failure.get("type") == "gate-pkg-config"
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["report.xml"]


def test_junit_of_a_file_whose_name_is_not_utf8() -> None:
    name = b"opt/caf\xe9.so".decode("utf-8", "surrogateescape")
    verdict = Verdict("cuda-arch", name, False, f"{name}: no", name, f"{name}\ufffe")
    suite = ElementTree.fromstring(junit(name, (verdict,), (Finding("x", name),)))
    assert suite[0].get("name") == "opt/caf\\udce9.so"
    assert suite[0][0].text == "opt/caf\\udce9.so\nopt/caf\\udce9.so\\ufffe"
