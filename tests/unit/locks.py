"""A lane and a lock with every kind of entry, as tables, for tests of locks."""

from __future__ import annotations

import copy
import json
from typing import Any

OBJECTS = [f"{n:x}" * 40 for n in range(10)]
DIGESTS = [f"sha256:{n:x}{'0' * 63}" for n in range(10)]


def lock_table() -> dict[str, Any]:
    """The table of a lock; every optional field is there once."""
    submodule = {"url": "https://example.org/common.git", "commit": OBJECTS[1], "tree": OBJECTS[2]}
    kern = {
        "intent": DIGESTS[0], "url": "https://example.org/kern.git", "commit": OBJECTS[0],
        "tree": OBJECTS[1], "content": DIGESTS[1], "time": 1757345600,
        "reachable-from": "refs/heads/main",
        "final": {
            "tree": OBJECTS[2], "content": DIGESTS[2], "native": DIGESTS[3], "rest": DIGESTS[4],
        },
        "submodules": {"third_party/common": submodule},
        "patches": [
            {"path": "patches/kern/gb10/0001-a.patch", "sha256": DIGESTS[1], "state": "applied",
             "result-tree": OBJECTS[2]},
        ],
    }  # fmt: skip
    loader = {
        "intent": DIGESTS[1], "url": "./sources/loader.git", "commit": OBJECTS[3],
        "tree": OBJECTS[4], "content": DIGESTS[2], "time": 1757172800,
        "final": {"tree": OBJECTS[4], "content": DIGESTS[2]},
    }  # fmt: skip
    kern["compose"] = [
        {"pull": 7, "head": OBJECTS[5], "disposition": "merged", "result-tree": OBJECTS[6],
         "merge-base": [OBJECTS[7]], "commits": [OBJECTS[5]], "with-history": True},
    ]  # fmt: skip
    kern["delta"] = DIGESTS[8]
    dep = {
        "intent": DIGESTS[2], "url": "https://example.org/tinyfmt.git", "into": "tinyfmt",
        "commit": OBJECTS[3], "tree": OBJECTS[4], "content": DIGESTS[3], "time": 1757172800,
    }  # fmt: skip
    derived = {
        **dep, "into": "derived", "from": "kern-cmake", "tag": "v1", "file": "cmake/x.cmake",
        "variable": "DERIVED_SRC_DIR", "subfolder": "src", "unfilled": {"link": "not compiled"},
        "reachable-from": "refs/tags/v1", "submodules": {"sub": submodule},
    }  # fmt: skip
    return copy.deepcopy({
        "lock-version": 1,
        "image": {"content": DIGESTS[0]},
        "sources": {"kern": kern, "loader": loader},
        "base": {
            "runtime": {"intent": DIGESTS[3], "ref": "debian:12",
                        "platforms": {"linux/amd64": DIGESTS[4], "linux/arm64": DIGESTS[5]}},
            "tools": {"intent": DIGESTS[4], "platforms": {"linux/amd64": DIGESTS[4]}},
        },
        "deps": {"tinyfmt": dep, "other": {**dep, "into": "other"}, "derived": derived},
        "deps-archive": {"content": DIGESTS[1]},
        "python": {
            name: {"intent": DIGESTS[5], "name": name, "version": "13.5",
                   "platforms": {"linux/amd64": {"filename": f"{name}.whl", "sha256": DIGESTS[6],
                                                 "size": 5}}}
            for name in ("crt", "nvcc")
        },
        "debs": {
            name: {"intent": DIGESTS[6], "name": name, "version": "2.3-3",
                   "platforms": {"linux/amd64": {"filename": f"{name}.deb", "sha256": DIGESTS[7],
                                                 "size": 6}}}
            for name in ("liburing2", "liburing-dev")
        },
    })  # fmt: skip


def lane_table() -> dict[str, Any]:
    """The table of a lane; every optional field is there once, but for gates and imports."""
    return copy.deepcopy({
        "schema": 1, "description": "a lane", "image": "demo", "repository": "x-demo",
        "platforms": ["linux/amd64", "linux/arm64"], "tags": ["one", "two"],
        "build": {"cuda-arch-list": "12.1a", "python": "3.12", "args": {"MAX_JOBS": "16"}},
        "env": {"MODE": "fast"},
        "sources": {
            "kern": {
                "url": "https://example.org/kern.git",
                "mirrors": ["https://example.org/mirror.git"],
                "track": {"branch": "main"}, "commit": OBJECTS[0], "unreachable": "of a fork",
                "tree": OBJECTS[1], "parts": {"csrc": OBJECTS[2]}, "result-tree": OBJECTS[3],
                "compose": [{"pull": 7, "head": OBJECTS[5], "commits": [OBJECTS[5]],
                             "title": "Add it"}],
                "compose-strategy": "cherry-pick", "patches": ["kern/gb10"],
                "submodules": ["third_party/common"], "unfilled": {"docs/x": "not compiled"},
                "native": ["csrc"],
                "runtime-compile": [{"packages": ["liburing-dev"], "pkg-config": ["liburing"],
                                    "libraries": ["uring"], "headers": ["liburing.h"]}],
            },
            "loader": {"url": "./sources/loader.git", "track": {"tag": "v1"}},
        },
        "deps": {
            "tinyfmt": {
                "url": "https://example.org/tinyfmt.git", "into": "tinyfmt",
                "mirrors": ["https://example.org/t.git"], "track": {"tag": "1.0"},
                "commit": OBJECTS[3], "unreachable": "moved", "submodules": ["a"],
                "unfilled": {"b": "no"}, "variable": "TINYFMT_SRC_DIR",
            },
            "kern-cmake": {
                "from": "kern", "files": ["CMakeLists.txt"], "define": {"A": "1"},
                "into": "cmake", "mirrors": {"cutlass": ["https://example.org/c.git"]},
                "unfilled": {"x/y": "no"}, "leave-out": {"z": "not built"},
            },
        },
        "base": {
            "runtime": {"ref": "debian:12"},
            "tools": {"rootfs": "base/rootfs.tar", "made-by": "scripts/base"},
        },
        "python": {"crt": {"requirement": "nvidia-cuda-crt==13.5"}},
        "debs": {"liburing2": {"package": "liburing2"}},
        "caches": {"root": "/var/cache/x", "folders": ["triton"]},
        "gates": [{"kind": "package", "name": "liburing-dev"}],
        "imported": [{"file": "imported/x.lock", "sha256": DIGESTS[0], "format": "source-lock",
                      "sources": ["kern"]}],
    })  # fmt: skip


def quick(value: Any) -> str:
    """A value as TOML in one line: tomlkit takes a hundred times as long."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {quick(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(quick, value)) + "]"
    if isinstance(value, float):
        return repr(value)  # nan, where JSON has NaN
    return json.dumps(value)


def quick_text(table: dict[str, Any]) -> bytes:
    return "".join(f"{key} = {quick(value)}\n" for key, value in table.items()).encode()
