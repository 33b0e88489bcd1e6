"""Every code that can be printed has its text, and every text a code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import builder
from builder.cli import explanations
from builder.steps.gates import GATES

_ROOT = Path(builder.__file__).parent
_SECOND_VERDICTS = {"gate-load", "gate-compile"}


def printed() -> dict[str, str]:
    """Codes of error classes, of findings, and of readers of files, with their module."""
    found = {f"gate-{kind}": "gates" for kind in GATES} | dict.fromkeys(_SECOND_VERDICTS, "gates")
    for path in sorted(_ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            found.update(dict.fromkeys(_codes(node), path.name))
    return found


def _codes(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.ClassDef():
            for each in node.body:
                if isinstance(each, ast.Assign | ast.AnnAssign) and each.value is not None:
                    target = each.targets[0] if isinstance(each, ast.Assign) else each.target
                    if ast.unparse(target).strip("()").split(",")[0] == "code":
                        yield from _strings(each.value)
        case ast.Assign(targets=[ast.Name(id="CODE" | "_CODE")]):
            yield from _strings(node.value)
        case ast.Call(func=ast.Name(id="Finding"), args=[first, *_]):
            yield from _strings(first)
        case ast.Call(func=ast.Name(id="Reader"), args=[_, code, *_]):
            yield from _strings(code)


def _strings(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Tuple(elts=[first, *_]):
            yield from _strings(first)
        case ast.IfExp():
            yield from (*_strings(node.body), *_strings(node.orelse))


def test_every_code_has_a_text() -> None:
    texts = explanations.every()
    missing = {code: where for code, where in printed().items() if code not in texts}
    assert missing == {}, "add them to builder/cli/explanations.toml"


def test_every_text_has_a_code() -> None:
    assert sorted(set(explanations.every()) - set(printed())) == []


def test_every_text_says_what_it_means() -> None:
    for code, text in explanations.every().items():
        assert set(text) <= {"means", "others", "do"}, code
        assert text["means"].endswith("."), code


def test_shown() -> None:
    shown = explanations.of("arch-missing")
    assert shown is not None
    assert shown.startswith("arch-missing\n  A stage compiles a source")
    assert "\n\nHow others got here\n  The list was set" in shown
    assert max(map(len, shown.splitlines())) <= 88
    assert explanations.of("none") is None
    assert "arch-missing" in explanations.near("arch-mising")
