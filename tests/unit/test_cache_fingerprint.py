"""The cache fingerprint: moves with what a compiler sees at run time, and with nothing else."""

from __future__ import annotations

import copy

import pytest

from builder.steps import identity
from tests.unit.locks import DIGESTS
from tests.unit.test_build_id import BOTH, EVERY, Path_, at, build_id, mutants

MOVES = {
    "lane": {("build",), ("env",)},
    "lock": {("sources", "*", "final", "content"), ("deps-archive",), ("base", "*", "platforms"),
             ("python", "*", "platforms", "*", "sha256"),
             ("debs", "*", "platforms", "*", "sha256")},
}  # fmt: skip


def moves(which: str, path: Path_) -> bool:
    return any(
        len(path) >= len(one) and all(a in ("*", b) for a, b in zip(one, path, strict=False))
        for one in MOVES[which]
    )


@pytest.mark.parametrize(("which", "path"), EVERY, ids=lambda v: str(v))
def test_it_moves_with_content_only(which: str, path: Path_) -> None:
    first = identity.fingerprint_of(**BOTH)
    tables = copy.deepcopy(BOTH)
    at(tables[which], path[:-1])[path[-1]] = mutants(at(BOTH[which], path))[0]
    assert (identity.fingerprint_of(**tables) != first) == moves(which, path)


def test_it_stays_when_only_the_build_id_moves() -> None:
    tables = copy.deepcopy(BOTH)
    tables["lane"]["gates"] = []
    tables["lock"]["image"]["content"] = DIGESTS[9]
    assert identity.fingerprint_of(**tables) == identity.fingerprint_of(**BOTH)
    assert build_id(*tables.values()) != build_id(*BOTH.values())


def test_it_stays_as_it_is() -> None:
    """Another version of imgbuild must find the caches of this one."""
    assert identity.fingerprint_of(**BOTH)[:12] == "dd6e92ee634b"
