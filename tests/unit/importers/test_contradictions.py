"""What must not import: bad form, and files that contradict themselves; each with its line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.importers.files import INPUTS, INTEGRATION, MANIFESTS, PINS, R31, read, refused

R31_TEXT = R31.read_text()
FINGERPRINT = len(R31_TEXT.splitlines())


def line_of(start: str) -> int:
    return next(i for i, row in enumerate(R31_TEXT.splitlines(), 1) if row.startswith(start))


def altered(start: str, new: str) -> str:
    rows = R31_TEXT.splitlines(keepends=True)
    rows[line_of(start) - 1] = new
    return "".join(rows)


@pytest.mark.parametrize(
    ("text", "what", "line"),
    [
        (R31_TEXT.replace("/v1", "/v2", 1), "the first line must be format=", 1),
        ("\n" + R31_TEXT, "the first line must be format=", 1),
        ("\ufeff" + R31_TEXT, "byte order mark", 1),
        (altered("draft.q", "draft.quantization\n"), "has no '='", line_of("draft.q")),
        (altered("draft.q", "=x\n"), "'' is no key", line_of("draft.q")),
        (altered("draft.q", "vllm.commit = 1\n"), "'vllm.commit ' is no key", line_of("draft.q")),
        (altered("draft.q", "release.name=x\n"), "release.name is repeated", line_of("draft.q")),
        (altered("draft.q", "draft.q=a\x1b[31m\n"), "control character", line_of("draft.q")),
        (altered("draft.q", "draft.q=a\r\n"), "CRLF", line_of("draft.q")),
        (altered("vllm.commit", "vllm.commit=5576927\n"), "40 lower-case", line_of("vllm.commit")),
        (altered("vllm.repo", "vllm.repository=ext::sh\n"), "an https", line_of("vllm.repo")),
        (altered("runtime.base", "runtime.base.image=x:1\n"), "by digest", line_of("runtime.base")),
        (
            altered("vllm.package", f"vllm.package.tree={'0' * 40}\n"),
            "it says vllm75f44790, vllm.package.tree gives vllm00000000",
            FINGERPRINT,
        ),
        (
            altered("runtime.cuda", "runtime.cuda.version=13.4\n"),
            "it says cu133, runtime.cuda.version gives cu134",
            FINGERPRINT,
        ),
        (
            altered("runtime.cache", "runtime.cache.fingerprint=cu133-torch213\n"),
            "it must be cu…",
            FINGERPRINT,
        ),
        (
            altered("vllm.version", "vllm.version=0.26.1rc0+glm53.r31.vllm55769271\n"),
            "names commit 55769271, vllm.commit is 557692705",
            line_of("vllm.version"),
        ),
        (
            altered("lmcache.version", "lmcache.version=0.26.1rc0+glm53.r31.vllm55769270\n"),
            "is a version of vllm, not of lmcache",
            line_of("lmcache.version"),
        ),
        (altered("b12x.commit", ""), "b12x has no commit", line_of("b12x.repository")),
        (R31_TEXT + "overlay.files=a,b\n", "overlay.file.a.sha256 is not there", FINGERPRINT + 1),
        (
            R31_TEXT + f"overlay.file.a/b.py.sha256={'0' * 64}\n",
            "overlay.files is not there",
            FINGERPRINT + 1,
        ),
        (
            f"{R31_TEXT}x.commit=3edbcbce70f491741b82f5eab9c1b30b39447228\nx.tree={'1' * 40}\n",
            "the same commit has another tree in b12x.tree",
            FINGERPRINT + 2,
        ),
        (b"format=local-inference-source-lock/v1\nx=\xff\n", "is not UTF-8", 2),
        ("", "the first line must be", 1),
    ],
)  # fmt: skip
def test_source_locks(text: str | bytes, what: str, line: int) -> None:
    found = refused(text)
    assert any(what in said and at == line for said, at in found), found


def test_all_findings_at_once() -> None:
    text = altered("vllm.commit", "vllm.commit=55\nvllm.commit=66\n").replace(
        "b12x.tree=", "b12x.tree=x"
    )
    assert len(refused(text)) == 3


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"a": 1, "a": 2}', "the key is there twice"),
        ('{"a": 1} x', "text behind the end"),
        ('{"a": NaN}', "a value is expected"),
        ('{"a": 1.5}', "a value is expected"),
        ('{"a": 1,}', "a comma before the end"),
        ("{'a': 1}", "double quotes"),
        ('{"a": "\\ud800"}', "surrogate"),
        ('{"a": "x\ny"}', "invalid control character"),
        ('{"a": ' + "[" * 100_000, "nested more than 32"),
        ('{"a": {"b": ' * 40, "nested more than 32"),
        ('{"a"', "is expected"),
        ("[1, 2", "is expected"),
        ("[]", "none of the formats"),
        ("{}", "none of the formats"),
        ('{"schema_version": 1}', "none of the formats"),
    ],
)
def test_json(text: str, what: str) -> None:
    assert what in refused(text)[0][0]


Edit = Callable[[Any], object]
B12X = (INTEGRATION / "gilded-gnosis-v20-r34.b12x.integration.lock.json").read_text()
EMPTY = (INTEGRATION / "kimi-k3-production-lmcache-r2.b12x.integration.lock.json").read_text()
STACK = (INTEGRATION / "kimi-k3-production-clean-build-20260819.b12x.source.lock.json").read_text()
STILL = (
    INTEGRATION / "kimi-k3-production-clean-build-20260819.lmcache.source.lock.json"
).read_text()
MANIFEST = (MANIFESTS / "b12x.gilded-gnosis-v20.json").read_text()
PULL = "pull_requests"
TREE = "1" * 40


@pytest.mark.parametrize(
    ("text", "edit", "what"),
    [
        (B12X, lambda d: d.pop("base"), "base: is missing"),
        (B12X, lambda d: d["base"].update(commit="7cecbb2"), "base.commit: must be a full object"),
        (B12X, lambda d: d["base"].update(ref="master"), "base.ref: must be a full branch"),
        (B12X, lambda d: d["base"].update(ref="refs/heads/-x"), "base.ref: must be a full branch"),
        (MANIFEST, lambda d: d.update(base_ref="refs/heads/-x"), "base_ref: must be"),
        (B12X, lambda d: d.update(schema_version=2), "schema_version: must be 1, not 2"),
        (B12X, lambda d: d.update(schema_version=True), "schema_version: must be 1, not True"),
        (B12X, lambda d: d.update(name=None), "name: must be text, not None"),
        (B12X, lambda d: d.update(pull_requests={}), "pull_requests: must be a list"),
        (B12X, lambda d: d[PULL].append(d[PULL][0]), "pull request 125 is named twice"),
        (B12X, lambda d: d[PULL][0].update(ref="refs/pull/1/head"), "must be refs/pull/125/head"),
        (B12X, lambda d: d[PULL][0].update(number=0), "must be greater than 0"),
        (B12X, lambda d: d[PULL][0].update(number="125"), "must be a whole number, not '125'"),
        (B12X, lambda d: d[PULL][0].update(disposition="cherry_picked"), "the strategy is 'merge'"),
        (B12X, lambda d: d[PULL][0].update(disposition="skipped"), "must be 'merged' or"),
        (B12X, lambda d: d.update(pull_requests=[]), "nothing was composed"),
        (B12X, lambda d: d["result"].update(patch="../x"), "result.patch: must be a path"),
        (EMPTY, lambda d: d[PULL][0].update(commits=["1" * 40]), "must be [head]"),
        (EMPTY, lambda d: d.update(composition={"ref": "refs/heads/x", "commit": TREE}), "null"),
        (EMPTY, lambda d: d.update(composition_strategy="pinned_branch"), "is missing"),
        (STACK, lambda d: d["source"].update(commit="1" * 40), "must be the last merge"),
        (STACK, lambda d: d["upstream_base"].update(commit=d["source"]["commit"]), "upstream base"),
        (STACK, lambda d: d.update(source_patches=["x"]), "must be []"),
        (STACK, lambda d: d[PULL][1].update(number=227), "is named twice"),
        (STILL, lambda d: d["source"].update(commit="1" * 40), "no pull request is merged"),
        (MANIFEST, lambda d: d["reviewed_exclusions"][0].update(number=125), "left out here and"),
        (MANIFEST, lambda d: d["reviewed_exclusions"][0].update(reason=""), "must be text"),
        (MANIFEST, lambda d: d.update(composition_ref="refs/heads/x"), "has no meaning under"),
        (MANIFEST, lambda d: d.update(composition_strategy="pinned_branch"), "needs it"),
        (PINS, lambda d: d["components"].clear(), "names no component"),
        (PINS, lambda d: d["components"]["vllm"].update(result_tree="x"), "40 lower-case"),
        (INPUTS, lambda d: d["base"].update(reference="eugr/x:latest"), "an image by digest"),
        (INPUTS, lambda d: d["sources"]["vllm"].update(baseline_commit="1" * 40), "same commit"),
        (INPUTS, lambda d: d["sources"].update({"-x": d["sources"]["vllm"]}), "must be a name"),
    ],
)  # fmt: skip
def test_documents(text: str, edit: Edit, what: str) -> None:
    document = json.loads(text)
    edit(document)
    found = refused(json.dumps(document, indent=2))
    assert any(what in said for said, _ in found), found
    assert all(line is not None for _, line in found)


def test_a_repeated_key_has_its_line() -> None:
    text = B12X.replace('  "name":', '  "name": "x",\n  "name":')
    line = next(i for i, row in enumerate(text.splitlines(), 1) if '"gilded' in row)
    assert refused(text) == [("name: the key is there twice", line)]


def test_the_line_of_a_value() -> None:
    text = B12X.replace("287fec1c8e6457a5d687f0b7a96a4e1579c1b791", "287fec1")
    line = next(i for i, row in enumerate(text.splitlines(), 1) if "287fec1" in row)
    assert refused(text)[0][1] == line


def test_an_empty_patch_says_the_base_tree() -> None:
    [claim] = read(EMPTY).document.claims().sources
    assert claim.table.tree == claim.table.result_tree == "6b49020b7645f6e425ef7f838f1069b0e87f381c"
