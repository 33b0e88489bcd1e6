"""`user`: as whom the image's processes run, by USER and the image's /etc/passwd.

As an engine finds it out: no USER is root, digits are a uid, a name stands in /etc/passwd.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from builder.model.values import Verdict
from builder.steps.gates.gate import Evidence, Fault, Gate, Search
from builder.steps.gates.glob import Glob
from builder.steps.gates.reading import Whole

_PASSWD = Glob("etc/passwd", exact=True)
_LIMIT = 16 << 20  # bytes
_HINT = "USER in the Dockerfile's last stage; a name must stand in the image's /etc/passwd"


@dataclass(frozen=True, slots=True)
class User(Gate):
    """`name` as USER has it; `uid` what it comes to; `root = false` any but root."""

    kind: ClassVar[str] = "user"
    wants: ClassVar[frozenset[Literal["config", "history"]]] = frozenset({"config"})
    name: str | None = None
    uid: int | None = None
    root: bool | None = None

    @property
    def about(self) -> str:
        if self.name is not None:
            return self.name or "root"
        return f"uid {self.uid}" if self.uid is not None else "root" if self.root else "not root"

    def faults(self) -> Iterator[Fault]:
        if self.name is None and self.uid is None and self.root is None:
            yield Fault("name", "is missing", "name, uid, or root = false")
        if self.uid is not None and self.uid < 0:
            yield Fault("uid", "must be 0 or more")

    def searches(self) -> tuple[Search, ...]:
        return (Search(_PASSWD, Whole(_LIMIT)),)

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        said = evidence.config.user
        passwd = next((seen.value for seen in evidence.files[0]), None)
        uid = _uid(said.partition(":")[0], passwd or b"")
        now = f"USER is {said or 'not set'}, its uid {'unknown' if uid is None else uid}"
        if self.name is not None and said.partition(":")[0] != self.name:
            return (self.failed(f"{now}, not {self.name or 'unset'}", _HINT),)
        if uid is None:
            return (self.failed(f"cannot tell: {now}, for /etc/passwd does not say it", _HINT),)
        if self.uid is not None and uid != self.uid:
            return (self.failed(f"{now}, not {self.uid}", _HINT),)
        if self.root is not None and (uid == 0) != self.root:
            return (self.failed(f"{now}; it must {'' if self.root else 'not '}be root", _HINT),)
        return (self.passed(now),)


def _uid(user: str, passwd: bytes) -> int | None:
    if re.fullmatch(r"[+-]?[0-9]+|", user):
        return int(user or 0)
    for line in passwd.decode("utf-8", "replace").splitlines():
        name, *rest = line.strip().split(":")
        if name == user and len(rest) > 1:
            return int(rest[1]) if re.fullmatch("[0-9]+", rest[1]) else None
    return None
