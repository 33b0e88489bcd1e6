"""`user`: as whom the image's processes run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from builder.model.values import Verdict
from builder.steps.gates.gate import Evidence, Fault, Gate, Probe

_ASK = 'echo "uid: $(id -u)"; echo "gid: $(id -g)"; echo "home: ${HOME:-}"'


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

    def probes(self) -> tuple[Probe, ...]:
        return (Probe("id", _ASK, 5),)

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        said = evidence.config.user
        told = dict(line.partition(": ")[::2] for line in evidence.answer("id").stdout.splitlines())
        uid = told.get("uid", "")
        now = f"USER is {said or 'not set'}, its uid {uid or 'unknown'}"
        hint = "USER in the Dockerfile's last stage; a name must stand in the image's /etc/passwd"
        if self.name is not None and said.partition(":")[0] != self.name:
            return (self.failed(f"{now}, not {self.name or 'unset'}", hint),)
        if self.uid is not None and uid != str(self.uid):
            return (self.failed(f"{now}, not {self.uid}", hint),)
        if self.root is not None and (uid == "0") != self.root:
            return (self.failed(f"{now}; it must {'' if self.root else 'not '}be root", hint),)
        return (self.passed(now),)
