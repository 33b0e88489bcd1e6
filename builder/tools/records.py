"""The runs of builds on this machine: `<state>/runs/<lane>/<run id>/{record.json,build.log}`."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from builder.model.values import BuildStep, Record, StageTime, Verdict


@dataclass(frozen=True, slots=True)
class Run:
    """Implements ports.RunFolder; an flock on `held` lasts as long as its process."""

    id: str
    folder: Path
    held: IO[bytes]

    @property
    def log(self) -> Path:
        return self.folder / "build.log"

    def write(self, record: Record) -> Path:
        target = self.folder / "record.json"
        beside = self.folder / f".record.{os.getpid()}"
        beside.write_text(json.dumps(asdict(record), indent=1, ensure_ascii=False) + "\n")
        beside.replace(target)
        return target


class RecordFolder:
    """Implements ports.Records."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def start(self, lane: str) -> Run:
        now = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        name = f"{now}-{secrets.token_hex(3)}"
        folder = self._root / "runs" / lane / name
        folder.mkdir(parents=True)
        held = (folder / ".held").open("wb")
        fcntl.flock(held, fcntl.LOCK_EX)
        return Run(name, folder, held)

    def ended(self, lane: str, run: str) -> bool:
        try:
            with (self._root / "runs" / lane / run / ".held").open("rb") as held:
                fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def runs(self, lane: str | None = None) -> tuple[Record, ...]:
        pattern = f"{lane or '*'}/*/record.json"
        found = (_read(path) for path in (self._root / "runs").glob(pattern))
        return tuple(sorted((r for r in found if r is not None), key=lambda r: r.id))


def _read(path: Path) -> Record | None:
    try:
        raw: dict[str, Any] = json.loads(path.read_text())
        return Record(
            **{
                **raw,
                "stages": _each(StageTime, raw["stages"]),
                "steps": _each(BuildStep, raw["steps"]),
                "verdicts": _each(Verdict, raw["verdicts"]),
                "tags": tuple(raw["tags"]),
            }
        )
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _each(kind: type[Any], rows: list[Mapping[str, Any]]) -> tuple[Any, ...]:
    return tuple(kind(**row) for row in rows)
