"""`imgbuild nodes …`: what a group has, back to the former image, and what can go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from builder.errors import DistributionError, Finding, ImgbuildError, UsageError
from builder.model.distribution import NodeFacts, NodeImage
from builder.model.nodes import Node
from builder.node_ports import Connection, Connections
from builder.steps.distribution import fleet, probe


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node; without facts, why."""

    node: str
    facts: NodeFacts | None
    images: tuple[fleet.Ours, ...] = ()
    finding: Finding | None = None


class RollbackUndone(DistributionError):
    """A node refused: those that had gone back were put forward again."""

    code = "rollback-undone"


def status(nodes: Sequence[Node], *, connections: Connections) -> tuple[NodeState, ...]:
    """Every node's engine, space and images of ours."""
    with _asked(nodes, connections) as (_, found):
        known = fleet.our_repositories([f for f in found.values() if isinstance(f, NodeFacts)])
    return tuple(
        NodeState(name, None, (), about)
        if isinstance(about, Finding)
        else NodeState(name, about, fleet.ours(about, known))
        for name, about in found.items()
    )


def rollback(
    lane: str, nodes: Sequence[Node], *, connections: Connections
) -> Mapping[str, Mapping[str, tuple[str, str]]]:
    """Let the lane's tags name the former image on all nodes, or on none; what changed, by node:
    tag -> (id before, id now). Raises: NoFormerImage, RollbackUndone, any node's own error."""
    with _asked(nodes, connections) as (links, found):
        facts = _all(found)
        if wrong := fleet.unknown_lane(lane, list(facts.values())):
            raise UsageError.of([wrong])
        plans = {name: fleet.former(name, about, lane) for name, about in facts.items()}
        done: list[str] = []
        try:
            for name, plan in plans.items():
                done.append(name)
                _swap(links[name], facts[name], {t: (b, a) for t, (a, b) in plan.items()})
        except BaseException as error:  # an interruption too: on all nodes, or on none
            lost = [n for n in done if not _undone(links[n], facts[n], plans[n])]
            if not isinstance(error, ImgbuildError):
                raise
            how = f"not undone on {', '.join(lost)}" if lost else "all nodes are as they were"
            raise RollbackUndone(
                f"{done[-1]}: {error}; {how}",
                hint="look at that node, and at imgbuild nodes status, before it is run again",
                detail=error.findings[0].detail,
            ) from error
    return plans


def prunable(
    lane: str, nodes: Sequence[Node], *, keep: int, remove: bool, connections: Connections
) -> Mapping[str, tuple[NodeImage, ...]]:
    """The images of the lane that may go, and what unfinished pushes left, by node; with `remove`
    they do."""
    if not nodes:
        return {}
    with _asked(nodes, connections) as (links, found):
        facts = _all(found)
        has_left = any(fleet.is_left(image, lane) for one in facts.values() for image in one.images)
        if (wrong := fleet.unknown_lane(lane, list(facts.values()))) and not has_left:
            raise UsageError.of([wrong])
        going = {}
        for name, about in facts.items():
            docker = " ".join(about.docker)
            said = probe.parts(links[name].script(fleet.USED, docker, timeout_s=60))
            used = frozenset(said["used"].split())
            going[name] = fleet.prunable(about, lane, used, keep=keep)
            refs = [ref for image in going[name] for ref in image.tags or (image.id,)]
            if remove and refs:
                links[name].script(fleet.REMOVE, docker, *refs, timeout_s=600)
    return going


def _undone(link: Connection, facts: NodeFacts, ids: Mapping[str, tuple[str, str]]) -> bool:
    try:
        _swap(link, facts, ids)
    except ImgbuildError:
        return False
    return True


def _swap(link: Connection, facts: NodeFacts, ids: Mapping[str, tuple[str, str]]) -> None:
    """Each tag gets its first id, and `<tag>-previous` its second."""
    words = [w for tag, (now, former) in sorted(ids.items())
             for w in (tag, now, f"{tag}{fleet.PREVIOUS}", former)]  # fmt: skip
    link.script(fleet.SWAP, " ".join(facts.docker), *words, timeout_s=120)


def _all(found: Mapping[str, NodeFacts | Finding]) -> Mapping[str, NodeFacts]:
    """Raises: DistributionError with the finding of every node that did not answer."""
    if wrong := [about for about in found.values() if isinstance(about, Finding)]:
        raise DistributionError.of(wrong)
    return {name: about for name, about in found.items() if isinstance(about, NodeFacts)}


@contextmanager
def _asked(
    nodes: Sequence[Node], connections: Connections
) -> Iterator[tuple[Mapping[str, Connection], Mapping[str, NodeFacts | Finding]]]:
    """All nodes, connected and asked at once; a node that did not answer is its finding."""
    links: dict[str, Connection] = {}
    with ThreadPoolExecutor(len(nodes)) as pool, connections.open(nodes) as opened:

        def ask(node: Node) -> NodeFacts | Finding:
            try:
                links[node.name] = opened.connect(node)
                return probe.read(node.name, links[node.name].script(probe.SCRIPT, timeout_s=60))
            except ImgbuildError as error:
                return error.findings[0]

        found = dict(zip((n.name for n in nodes), pool.map(ask, nodes), strict=True))
        yield links, found
