"""What ARG and ENV come to, stage by stage, for given build arguments.

ENV is inherited by a stage that is built FROM another, ARG is not: the rules of BuildKit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from builder.steps.dockerfile import Dockerfile, Instruction, Stage
from builder.steps.dockerfile_words import expand

_PREDEFINED = ("TARGETPLATFORM", "TARGETARCH", "TARGETOS", "BUILDPLATFORM", "BUILDARCH")


@dataclass(frozen=True, slots=True)
class At:
    """The environment of one instruction."""

    instruction: Instruction
    env: Mapping[str, str]  # what ENV set, here or in the stages it is built from
    args: Mapping[str, str]  # ARGs of the stage that have a value
    folder: str  # WORKDIR

    @property
    def values(self) -> Mapping[str, str]:
        """What a RUN sees; ENV wins over ARG."""
        return {**self.args, **self.env}


@dataclass(frozen=True, slots=True)
class Valued:
    """A stage with the values at each of its instructions."""

    stage: Stage
    base: str  # what FROM comes to; a stage's name, an image, or "" when a variable has no value
    parent: Valued | None  # the stage that it is built from
    steps: tuple[At, ...]

    @property
    def chain(self) -> tuple[Valued, ...]:
        """The stage and those that it is built from, itself first."""
        return (self, *(self.parent.chain if self.parent else ()))


def valued(read: Dockerfile, given: Mapping[str, str], platform: str = "") -> tuple[Valued, ...]:
    """Every stage of a Dockerfile, for these build arguments."""
    arch = platform.rpartition("/")[2]
    predefined = dict.fromkeys(_PREDEFINED, "")
    predefined |= {"TARGETPLATFORM": platform, "BUILDPLATFORM": platform}
    predefined |= {"TARGETARCH": arch, "BUILDARCH": arch, "TARGETOS": "linux", "BUILDOS": "linux"}
    top: dict[str, str] = {}
    for name, default in read.args.items():
        if name in given or default is not None:
            top[name] = given.get(name, expand(default or "", {**predefined, **top}))
    found: list[Valued] = []
    for stage in read.stages:
        base = expand(stage.base, {**predefined, **top})
        other = read.stage(base, before=stage.index) if base else None
        parent = found[other.index] if other else None
        found.append(Valued(stage, base, parent, _steps(stage, parent, top, given, predefined)))
    return tuple(found)


def _steps(
    stage: Stage,
    parent: Valued | None,
    top: Mapping[str, str],
    given: Mapping[str, str],
    predefined: Mapping[str, str],
) -> tuple[At, ...]:
    last = parent.steps[-1] if parent else None
    env, args = dict(last.env if last else {}), dict[str, str]()
    folder = last.folder if last else ""
    steps = []
    for read in stage.instructions:
        seen = {**args, **env}
        if read.name == "ARG":
            for name, default in read.pairs:
                value = given.get(name)
                if value is None:
                    value = top.get(name) if default is None else expand(default, seen)
                if value is None:
                    value = predefined.get(name)
                if value is not None:
                    args[name] = value
        elif read.name == "ENV":
            env.update({name: expand(value or "", seen) for name, value in read.pairs})
        elif read.name == "WORKDIR":
            there = expand(read.text, seen)
            folder = there if there.startswith("/") else f"{folder}/{there}"
        steps.append(At(read, dict(env), dict(args), folder))
    return tuple(steps)
