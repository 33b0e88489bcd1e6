"""Choose between a star, where this host sends to every node, and chains from node to node."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from builder.errors import ImgbuildError
from builder.model.distribution import Fanout, NodePlan, Plan
from builder.model.nodes import is_destination
from builder.node_ports import Connection
from builder.pipeline.push_nodes import Ends, link_rates
from builder.steps.distribution import chain
from builder.tools.ssh_guard import GUARD

_ASK_S = 60.0


def chained(
    plan: Plan,
    fanout: Fanout,
    rates: Mapping[str, float],
    limit: float | None,
    links: Mapping[str, Connection],
    ends: Ends,
    pool: ThreadPoolExecutor,
) -> Plan:
    """The plan with chains, where they were asked for or this host's uplink is the bottleneck,
    as far as ssh goes from node to node."""
    groups = chain.groups(plan)
    if fanout == "star" or not groups:
        return plan
    if fanout == "auto" and not _is_worth(groups[0][0], rates, limit, links, pool):
        return plan
    pairs = [pair for group in groups for pair in pairwise(group)]
    reached: dict[tuple[str, str], str] = {}
    for (before, node), (to, why) in zip(
        pairs, pool.map(lambda pair: _reached(pair[0], pair[1], links), pairs), strict=True
    ):
        names = before.node.name, node.node.name
        if to:
            reached[names] = to
        else:
            ends.again(names[1], f"no chain: no ssh to it from {names[0]}: {why}")
    return chain.linked(plan, reached)


def _is_worth(
    first: NodePlan,
    rates: Mapping[str, float],
    limit: float | None,
    links: Mapping[str, Connection],
    pool: ThreadPoolExecutor,
) -> bool:
    """Whether what this host sends is what a push waits for; where that was worth asking."""
    name = first.node.name
    if name not in rates or not chain.is_worth(float("inf"), rates[name], len(rates), limit):
        return False
    alone = link_rates([links[name]], pool)[name]
    return chain.is_worth(alone, rates[name], len(rates), limit)


def _reached(before: NodePlan, node: NodePlan, links: Mapping[str, Connection]) -> tuple[str, str]:
    """How one node reaches the other, or why it does not.

    That it is the node is proved by what its engine says of itself here and there.
    """
    link, docker = links[node.node.name], " ".join(node.facts.docker)
    names = [node.node.peer] if node.node.peer else [node.node.destination, link.address]
    names = [name for name in names if is_destination(name)]
    try:
        who = link.script(chain.WHO, docker, timeout_s=_ASK_S).strip()
        to = links[before.node.name].script(
            chain.REACH, docker, who, GUARD, *names, timeout_s=_ASK_S
        )
    except ImgbuildError as error:
        return "", str(error).removeprefix(f"{before.node.name}: ")
    return to.strip(), ""
