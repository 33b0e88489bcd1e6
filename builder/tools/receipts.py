"""What was pushed from this machine: `<state>/pushes/<lane or image>/<id>.json`."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict
from pathlib import Path

from builder.model.distribution import Receipt


class ReceiptFolder:
    """Implements node_ports.Receipts."""

    def __init__(self, root: Path) -> None:
        self._root = root / "pushes"

    def write(self, receipt: Receipt) -> Path:
        folder = self._root / (receipt.lane or re.sub(r"[^a-z0-9.-]", "-", receipt.image[7:19]))
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / f"{receipt.id}.json"
        beside = folder / f".{receipt.id}.{os.getpid()}"
        beside.write_text(
            json.dumps(asdict(receipt), indent=1, ensure_ascii=False, default=str) + "\n"
        )
        beside.replace(target)
        return target
