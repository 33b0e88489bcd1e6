"""Decide what each node gets, and refuse early what cannot work."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence

from builder.errors import DistributionError, Finding
from builder.model.distribution import (
    NodeFacts,
    NodeImage,
    NodePlan,
    Plan,
    SourceImage,
    Transport,
    chain_ids,
)
from builder.model.label_names import BUILD_ID, GATES, LANE
from builder.model.nodes import Node
from builder.model.proven import is_derived

TRANSFER = "imgbuild-transfer"
PASSING = (f"{TRANSFER}:", "imgbuild-candidate:")  # names that an image has for a while
_SPARE = 256 * 1024 * 1024
_FAST = 150e6  # bytes a second; a node's load is not faster than the link above it
_ROUND = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(?:Z|\+00:00)")


class Ungated(DistributionError):
    """The image does not say that its gates passed."""

    code = "ungated"


def passed_gates(image: SourceImage) -> bool:
    """Whether the image says that every gate of its lane passed, and is the one that they saw."""
    match = re.fullmatch(r"(\d+) of (\d+)", image.labels.get(GATES, ""))
    says = match and match[1] == match[2] and image.labels.get(BUILD_ID)
    return bool(says) and not is_derived(image.labels, image.digest, image.created)


def check_gates(image: SourceImage, *, force: bool) -> None:
    """Raises: Ungated."""
    if not force and not passed_gates(image):
        said = image.labels.get(GATES)
        what = "does not say that its gates passed" + (f": {said}" if said else "")
        if is_derived(image.labels, image.digest, image.created):
            build = image.labels[BUILD_ID][:12]
            what = f"is derived from build {build}, and no gate saw what was added"
        raise Ungated(
            f"the image {image.id[7:19]} {what}",
            hint="build it with imgbuild build LANE; or push it all the same with --force: "
            "the receipt keeps that",
        )


def tags_to_move(image: SourceImage) -> tuple[str, ...]:
    """The tags that the image has here and gets on the nodes; the lane's own come last."""
    build = image.labels.get(BUILD_ID, "")[:12]
    kept = [
        tag for tag in image.tags
        if not tag.startswith(PASSING)
        and not tag.endswith("-previous")
    ]  # fmt: skip
    return tuple(sorted(kept, key=lambda tag: (not tag.endswith(f":{build}"), tag)))


def plan(
    image: SourceImage,
    config: str,
    found: Mapping[Node, NodeFacts],
    *,
    tags: Sequence[str],
    can_pull: bool,
    always_pull: bool,
    is_fast: bool = False,
    in_registry: bool = False,
) -> Plan:
    """What goes where. `config` is the id that the image has on a classic node; `can_pull`
    says that the source can serve its layers in any order, `in_registry` that all who lack the
    image get it from a registry."""
    nodes, refused = [], {}
    for node, facts in found.items():
        there = find_there(image, config, facts)
        if reason := refusal(image, node, facts, is_there=there is not None):
            refused[node.name] = reason
            continue
        missing = missing_layers(image, facts) if there is None else ()
        transport: Transport | None = None
        if there is None:
            is_bare = len(missing) == len(image.layers)
            pulls = facts.store == "containerd" or (is_bare and is_fast)
            transport = "pull" if can_pull and (pulls or always_pull) else "load"
            transport = "registry" if in_registry else transport
        here = set(there.tags) if there else set[str]()
        moves = tuple(tag for tag in tags if tag not in here)
        settled = there is not None and not moves and _is_proved(image, facts)
        present = there.id if there else ""
        nodes.append(NodePlan(node, facts, transport, missing, present, moves, settled))
    return Plan(image, tuple(nodes), refused)


def refusal(image: SourceImage, node: Node, facts: NodeFacts, *, is_there: bool) -> Finding | None:
    """Why this node cannot take the image, or None."""
    if facts.architecture != image.architecture:
        return Finding(
            "wrong-architecture",
            f"{node.name} is {facts.architecture}, the image is for {image.architecture}",
            f"build for it: imgbuild build LANE --platform linux/{facts.architecture}",
        )
    if node.arch is not None and node.arch != facts.architecture:
        return Finding(
            "wrong-architecture",
            f"{node.name} is {facts.architecture}, nodes.toml says {node.arch}",
            "is it the machine that is meant? mend nodes.toml or ssh's config",
        )
    missing = () if is_there else missing_layers(image, facts)
    if missing and facts.free is not None:
        # docker load unpacks the stream beside the layers before it takes them in
        share = image.size * len(missing) // max(1, len(image.layers))
        need = share + _SPARE if len(missing) == len(image.layers) else _SPARE
        if facts.free < need:
            return Finding(
                "no-space",
                f"{node.name} has {facts.free / 1e9:.1f} GB free, about {need / 1e9:.1f} GB "
                "are needed",
                f"imgbuild nodes prune LANE --nodes {node.name}; or on it: docker image prune",
            )
    return None


def missing_layers(image: SourceImage, facts: NodeFacts) -> tuple[int, ...]:
    """The layers that no image of the node holds with all that lies below them."""
    known = {chain for one in facts.images for chain in chain_ids(one.layers)}
    return tuple(i for i, chain in enumerate(image.chains) if chain not in known)


def is_same(image: SourceImage, other: NodeImage) -> bool:
    """Whether another engine's image is this one, whatever it calls it.

    Two stores name one image differently; layers, labels, time and architecture do not differ.
    """
    return (
        other.layers == image.layers
        and other.labels == image.labels
        and other.architecture == image.architecture
        and _instant(other.created) == _instant(image.created)
    )


def needs_compression(rates: Sequence[float]) -> bool:
    """Whether the link (bytes a second to each node, all at once) is what holds up a push."""
    return bool(rates) and min(rates) < _FAST


def batches(
    sizes: Sequence[int], needs: Sequence[tuple[int, ...]], *, smallest: int = 64_000_000
) -> tuple[tuple[int, ...], ...]:
    """Layers that are loaded together: never across a point from which some node lacks them.

    Small layers share a load, since each load takes a moment of its own.
    """
    starts = {need[0] for need in needs if need}
    wanted = sorted({i for need in needs for i in need})
    found: list[list[int]] = []
    for i in wanted:
        full = found and sum(sizes[j] for j in found[-1]) >= smallest
        if not found or i in starts or full or sizes[i] >= smallest:
            found.append([])
        found[-1].append(i)
    return tuple(tuple(batch) for batch in found)


def find_there(image: SourceImage, config: str, facts: NodeFacts) -> NodeImage | None:
    """The node's image that is this one, under a name that stays."""
    for one in facts.images:
        stays = any(not tag.startswith(f"{TRANSFER}:") for tag in one.tags)
        same = one.id == config if facts.store == "classic" else is_same(image, one)
        if same and stays:
            return one
    return None


def transfer_names(labels: Mapping[str, str]) -> str:
    """How the names begin under which images of this lane arrive: the next push that completes
    removes what others left."""
    lane = hashlib.sha256(labels.get(LANE, "").encode()).hexdigest()
    return f"{TRANSFER}:{lane[:12]}."


def _is_proved(image: SourceImage, facts: NodeFacts) -> bool:
    """Whether what the node said already proves the image, and nothing waits to be removed. A
    containerd store may name an image whose content is gone: it is asked again."""
    left = transfer_names(image.labels)
    return facts.store == "classic" and not any(
        tag.startswith(left) for one in facts.images for tag in one.tags
    )


def _instant(text: str) -> str:
    match = _ROUND.match(text)
    return match[1] if match else text
