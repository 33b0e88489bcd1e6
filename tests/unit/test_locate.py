"""Lines of keys in TOML texts."""

from __future__ import annotations

import pytest

from builder.model.locate import line_of

TEXT = '''\
schema = 1
text = """
[not.a.table]
key = 1
"""
list = [
  "a = [", # ]
  "b",
]

[sources.vllm]
url = "x"   # a comment
[[sources.vllm.patches]]
sha256 = "1"
[[sources.vllm.patches]]
sha256 = "2"
[sources.vllm.submodules."third_party/x"]
commit = "c"
[[gates]]
kind = "marker"
[[gates]]
kind = 'a # b'
name.sub = 3
'''


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (("schema",), 1),
        (("list", 1), 6),
        (("sources",), None),
        (("sources", "vllm"), 11),
        (("sources", "vllm", "url"), 12),
        (("sources", "vllm", "missing"), 11),
        (("sources", "vllm", "patches", 1, "sha256"), 16),
        (("sources", "vllm", "submodules", "third_party/x", "commit"), 18),
        (("gates", 0, "kind"), 20),
        (("gates", 1, "kind"), 22),
        (("gates", 1, "name", "sub"), 23),
        (("not", "a", "table"), None),
        (("nowhere",), None),
    ],
)
def test_line(key: tuple[str | int, ...], line: int | None) -> None:
    assert line_of(TEXT, key) == line
