"""What is shown of names, URLs and complaints from outside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder.cli.commands.lock import _change
from builder.cli.findings import annotation, lines
from builder.cli.text import clean, clean_json
from builder.errors import Finding
from builder.model.ids import MAX_URL, is_url, shown_url
from builder.model.urls import without_userinfo

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\x9b31mb", "a\\x9b31mb"),
        ("a\u202eb\u2066c\u2069", "a\\u202eb\\u2066c\\u2069"),
        ("a\u061cb\u200fc", "a\\u061cb\\u200fc"),
        ("a\u2028b\u00adc", "a\\u2028b\\xadc"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("caf\udce9\uffff", "caf\\udce9\\uffff"),
        ("über\tÜber 日本語 🙂\n", "über\tÜber 日本語 🙂\n"),
    ],
)
def test_characters_that_act_on_a_terminal(text: str, shown: str) -> None:
    assert clean(text) == shown
    report = clean_json({"name": text})
    assert json.loads(report) == {"name": text}
    assert not set(report) & set("\x9b\u202e\u2066\u2069\u061c\u200f\u2028\u00ad")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"https://me:{SECRET}@x.example/a.git", "https://…@x.example/a.git"),
        (f"from 'https://{SECRET}@x.example/a' it", "from 'https://…@x.example/a' it"),
        (f"ssh://git:{SECRET}@x.example/a", "ssh://…@x.example/a"),
        (f"a https://u:{SECRET}@x b http://u:{SECRET}@y", "a https://…@x b http://…@y"),
        ("ssh://git@x.example/a", "ssh://git@x.example/a"),
        ("git@x.example:a/b", "git@x.example:a/b"),
        ("https://x.example:8443/a@b", "https://x.example:8443/a@b"),
        ("https://x.example/a:1, me@x.example", "https://x.example/a:1, me@x.example"),
    ],
)  # fmt: skip
def test_passwords_of_urls(text: str, shown: str) -> None:
    assert without_userinfo(text) == shown
    assert clean(text) == shown
    found = Finding("x", text, hint=text, detail=text)
    assert SECRET not in "\n".join([*lines([found]), annotation(found)])


def test_long_urls() -> None:
    long = "https://x.example/" + "a" * MAX_URL
    assert not is_url(long)
    assert is_url(long[:MAX_URL])
    assert len(shown_url(long)) == 200


def test_no_command_prints_a_report_past_them() -> None:
    """Whatever is echoed as JSON goes through `emit`."""
    folder = Path(__file__).parents[2] / "builder/cli"
    users = [p.name for p in sorted(folder.rglob("*.py")) if "json.dumps" in p.read_text()]
    assert users == ["text.py"]


def test_changes_of_lists_are_told_entry_by_entry() -> None:
    """A pull request's head, and a patch that upstream has by now."""
    pulls = [{"pull": 7, "head": "a" * 40}, {"pull": 8, "head": "b" * 40}]
    moved = [{"pull": 7, "head": "c" * 40}]
    assert [*_change("sources.attn.compose", pulls, moved)] == [
        f"~ sources.attn.compose #7.head: {'a' * 19}… → {'c' * 19}…",
        "- sources.attn.compose #8",
    ]
    path = "patches/attn/set/0001-a-long-name-of-a-patch.patch"
    was, now = ([{"path": path, "state": state}] for state in ("applied", "already-there"))
    assert [*_change("sources.attn.patches", was, now)] == [
        f"~ sources.attn.patches {path}.state: applied → already-there"
    ]
    assert [*_change("x", ["a", "b"], ["b", "a"])] == ["~ x: in another order"]
