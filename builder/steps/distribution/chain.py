"""Chains: this host sends to the first node, and each node passes on to the next by its own ssh.

A node's session hands the same bytes to its engine and to the next node's session. Each says
`ok NAME` when its load was committed, so the words of the first tell about all. Logins and host
keys are the nodes' own; nothing is forwarded, lent or relaxed.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from builder.model.distribution import NodePlan, Plan

PLAIN, ZSTD = "cat", "zstd -dcq"  # what unpacks on a node
_SSH = (
    "ssh -T -o BatchMode=yes -o StrictHostKeyChecking=yes -o ForwardAgent=no -o Compression=no"
    " -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=3 --"
)
# $1 this script, $2 what watches it on the next nodes, $3 what unpacks, $4 the node's name, $5
# its docker; then for each node behind it: destination, name, docker. It holds no single quote: it
# is passed on within such. `tee -p` goes on when the next node is gone. By a fifo the next node
# sees the end while the load here still works; a pipe of the shell's would stay open until then.
SCRIPT = f"""
s=$1; g=$2; u=$3; n=$4; d=$5; shift 5; a=$(printf "\\047")
load() {{ $u | $d load -q >&2 && echo "ok $n"; }}
[ $# -gt 0 ] || {{ load; exit; }}
to=$1; shift; words=
for w; do words="$words $a$w$a"; done
f=$(mktemp -d) && trap "rm -rf $f" EXIT && trap "exit 1" HUP TERM && mkfifo $f/p || exit
{_SSH} "$to" "sh -c $a$g$a sh sh -c $a$s$a sh $a$s$a $a$g$a $a$u$a $words" <$f/p &
tee -p $f/p | load; r=$?
wait; exit $r
"""
_WHO = "{{.ID}} {{.Name}} {{.DockerRootDir}}"
WHO = f"""
$1 info --format '{_WHO}'
"""
# $1 the next node's docker, $2 what its engine says of itself, $3 what watches a command there,
# then destinations to try; the first that leads to this engine is written.
REACH = rf"""
d=$1; want=$2; a=$(printf "\047"); g=$3; f='{_WHO}'; shift 3
command -v mkfifo >/dev/null && tee -p </dev/null >/dev/null || exit 1
for to; do
    said=$({_SSH} "$to" "sh -c $a$g$a sh $d info --format $a$f$a" </dev/null) || continue
    if [ "$said" = "$want" ]; then printf '%s\n' "$to"; exit; fi
    echo "$to is another machine there" >&2
done
exit 1
"""
_SHARED = 1.5  # times as fast alone as together: the link that all share is the slow part
_FAST = 150e6  # bytes a second; a node's load is not faster


def groups(plan: Plan) -> tuple[tuple[NodePlan, ...], ...]:
    """Nodes that lack the same layers, where there are several."""
    found: dict[tuple[int, ...], list[NodePlan]] = {}
    for node in plan.nodes:
        if node.missing:
            found.setdefault(node.missing, []).append(node)
    return tuple(tuple(some) for some in found.values() if len(some) > 1)


def is_worth(alone: float, together: float, count: int, limit: float | None) -> bool:
    """Whether this host's uplink holds up the push: bytes a second to one node, when it alone
    and when all `count` are sent to."""
    if limit is not None:
        alone, together = min(alone, limit), min(together, limit / count)
    return together < _FAST and alone >= _SHARED * together


def linked(plan: Plan, reached: Mapping[tuple[str, str], str]) -> Plan:
    """The plan with chains: `reached` says how a node names the one that it passes on to."""
    follows: dict[str, NodePlan] = {}
    for group in groups(plan):
        for before, node in pairwise(group):
            to = reached.get((before.node.name, node.node.name))
            if to is None:
                break  # it and those behind it are sent to from here
            head = replace(before, transport="load")
            follows.setdefault(before.node.name, head)
            follows[node.node.name] = replace(
                node, transport="chain", via=before.node.name, reach=to
            )
    return replace(plan, nodes=tuple(follows.get(n.node.name, n) for n in plan.nodes))


def routes(plan: Plan) -> tuple[tuple[NodePlan, ...], ...]:
    """Who gets loads from here, each with those that it passes them on to."""
    found: list[list[NodePlan]] = []
    for node in plan.nodes:
        if node.transport == "load":
            found.append([node])
        elif node.transport == "chain":
            next(r for r in found if r[-1].node.name == node.via).append(node)
    return tuple(tuple(route) for route in found)


def command(route: Sequence[NodePlan], unpack: str, guard: str, count: int) -> str:
    """What the first node's session runs to load what it reads, there and on the next ones of
    the route, `count` in all; there below `guard`, which holds no single quote."""
    first, *behind = route[:count]
    docker = " ".join(first.facts.docker)
    if not behind:
        pipe = "" if unpack == PLAIN else f"{unpack} | "
        return shlex.join(["sh", "-c", f"{pipe}{docker} load -q"])
    words = [w for n in behind for w in (n.reach, n.node.name, " ".join(n.facts.docker))]
    own = (SCRIPT, guard, unpack, first.node.name, docker)
    return shlex.join(["sh", "-c", SCRIPT, "sh", *own, *words])
