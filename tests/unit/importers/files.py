"""The published files, and samples of the formats of which we have none."""

from __future__ import annotations

import json
from pathlib import Path

from builder.importers import kinds
from builder.importers.text import ImportInvalid
from builder.model.foreign import Read

PUBLISHED = Path(__file__).parents[2] / "data/published"
FILES = tuple(sorted(p for p in PUBLISHED.rglob("*") if p.is_file()))
R31 = PUBLISHED / "source-locks/warmup-retention-r31.source.lock"
R35 = PUBLISHED / "source-locks/swiglu-reviewed-composition-r35.source.lock"
INTEGRATION = PUBLISHED / "integration-locks"
MANIFESTS = PUBLISHED / "manifests"

PINS = json.dumps(
    {
        "release": {
            "repository": "https://example.org/ring.git", "commit": "1" * 40, "patch_root": "p",
        },
        "components": {
            "vllm": {
                "repository": "https://example.org/vllm.git", "base_commit": "2" * 40,
                "patch": "vllm.patch", "patch_sha256": "3" * 64, "result_tree": "4" * 40,
            }
        },
        "runtime_dependencies": {"torch": "2.13.0"},
        "note": ["kept"],
    },
    indent=2,
)  # fmt: skip

INPUTS = json.dumps(
    {
        "schema": "sparkring-external-inputs/v1",
        "platform": "linux/arm64",
        "base": {
            "reference": f"eugr/spark-vllm@sha256:{'a' * 64}", "config_id": f"sha256:{'b' * 64}",
        },
        "sources": {
            "vllm": {
                "commit": "1" * 40, "upstream": "2" * 40, "baseline_commit": "3" * 40,
                "archive": {"path": "vllm.tar", "sha256": "c" * 64},
                "baseline_archive": {"path": "base.tar", "sha256": "d" * 64},
            }
        },
        "assets": {"root": "assets"},
    },
    indent=2,
)  # fmt: skip


def read(text: str | bytes, name: str = "x.lock") -> Read:
    return kinds.read(text if isinstance(text, bytes) else text.encode(), Path(name))


def refused(text: str | bytes) -> list[tuple[str, int | None]]:
    """The findings of a file that must not import: (what, line)."""
    try:
        read(text)
    except ImportInvalid as invalid:
        return [(f.what, f.place.line if f.place else None) for f in invalid.findings]
    raise AssertionError("it was accepted")
