"""What is said of a node's end, in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from builder.model.distribution import NodePlan, Outcome, Transport

_HOW: Mapping[Transport, str] = {
    "load": "by loads", "pull": "by pull", "registry": "from the registry",
}  # fmt: skip


def ended(outcome: Outcome) -> str:
    """The completed line of a node."""
    match outcome.state:
        case "failed":
            assert outcome.finding is not None
            what, name = outcome.finding.what, outcome.node
            return what.removeprefix(f"{name}: ").removeprefix(f"{name} ")
        case "planned":
            return outcome.proof
        case "present":
            moved = f", moved {_count(len(outcome.tags), 'tag')}" if outcome.tags else ""
            return f"has it already: {outcome.proof}{moved}"
        case _:
            layers = _count(outcome.layers, "layer")
            came = f"{megabytes(outcome.sent)} in {layers}"
            if outcome.transport == "registry":
                came = f"pulled {layers}"
            elif outcome.transport == "chain":
                came = f"{layers} from {outcome.via}"
            return f"{came}, proved by {outcome.proof}"


def would_move(plan: NodePlan, sizes: Sequence[int]) -> str:
    if plan.transport is None:
        return "has it already"
    size = sum(sizes[i] for i in plan.missing)
    how = f"from {plan.via}" if plan.transport == "chain" else _HOW[plan.transport]
    return f"about {megabytes(size)} in {_count(len(plan.missing), 'layer')}, {how}"


def megabytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
