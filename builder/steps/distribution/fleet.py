"""What a group of nodes has of our images: whether it is the same, what can go, what was there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from builder.errors import DistributionError, Finding
from builder.model.distribution import NodeFacts, NodeImage
from builder.model.label_names import BUILD_ID, GATES, LANE
from builder.steps.distribution.plan import TRANSFER, transfer_names

PREVIOUS = "-previous"
# Images that containers use, running or not; by their ids.
USED = r"""
d=$1; export LC_ALL=C
c=$($d container ls -aq --no-trunc)
printf '\n-- used\n'; [ -z "$c" ] || $d container inspect --format '{{.Image}}' $c
printf '\n-- end\n'
"""
# Tags and the ids that they get: tag id tag id …; each must name what $2 (tag=id …) says.
SWAP = r"""
d=$1; shift
exec 9>"${XDG_RUNTIME_DIR:-$HOME}/.imgbuild-push.lock"
if command -v flock >/dev/null; then flock -w 60 9; fi
while [ $# -gt 0 ]; do $d tag "$2" "$1" || exit 1; shift 2; done
"""
REMOVE = r"""
d=$1; shift
for ref; do $d image rm "$ref" >/dev/null || exit 1; done
"""


class NoFormerImage(DistributionError):
    """A node has nothing to go back to."""

    code = "no-former-image"


@dataclass(frozen=True, slots=True)
class Ours:
    """One of our images on a node."""

    id: str
    tags: tuple[str, ...]
    lane: str  # "" when it bears our name and no lock
    build_id: str
    gates: str
    created: str
    size: int
    content: str  # the same on every store: of diff ids, labels, time


def ours(facts: NodeFacts, repositories: frozenset[str]) -> tuple[Ours, ...]:
    """Images that imgbuild labelled, and those that bear the name of one."""
    found = []
    for image in facts.images:
        tags = tuple(t for t in image.tags if not t.startswith(f"{TRANSFER}:"))
        if tags and (LANE in image.labels or any(repository(t) in repositories for t in tags)):
            found.append(
                Ours(
                    image.id, tags, image.labels.get(LANE, ""), image.labels.get(BUILD_ID, ""),
                    image.labels.get(GATES, ""), image.created, image.size, content(image),
                )
            )  # fmt: skip
    return tuple(sorted(found, key=lambda one: (one.lane, one.created, one.id)))


def our_repositories(every: Sequence[NodeFacts]) -> frozenset[str]:
    return frozenset(
        repository(tag)
        for facts in every for image in facts.images if LANE in image.labels
        for tag in image.tags if not tag.startswith(f"{TRANSFER}:")
    )  # fmt: skip


def content(image: NodeImage) -> str:
    """One id for what two stores name differently: layers, labels, architecture, time."""
    about = [image.layers, dict(image.labels), image.architecture, image.created[:19]]
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def repository(tag: str) -> str:
    return tag.rpartition(":")[0]


def differing(found: Mapping[str, Sequence[Ours]]) -> tuple[str, ...]:
    """Tags that do not name the same image on every node, each with what is where."""
    tags = {tag for images in found.values() for one in images for tag in one.tags}
    lines = []
    for tag in sorted(t for t in tags if not t.endswith(PREVIOUS)):
        there = {
            node: next((one.content for one in images if tag in one.tags), "")
            for node, images in found.items()
        }
        if len(set(there.values())) > 1:
            lacking = [node for node, text in there.items() if not text]
            kinds = len({text for text in there.values() if text})
            words = [f"{kinds} different images"] if kinds > 1 else []
            words += [f"missing on {', '.join(lacking)}"] if lacking else []
            lines.append(f"{tag}: {'; '.join(words)}")
    return tuple(lines)


def former(node: str, facts: NodeFacts, lane: str) -> Mapping[str, tuple[str, str]]:
    """Each tag of the lane that has a former image: (id now, id before).

    Raises: NoFormerImage.
    """
    by_tag = {tag: image for image in facts.images for tag in image.tags}
    found = {}
    for tag, image in sorted(by_tag.items()):
        before = by_tag.get(f"{tag}{PREVIOUS}")
        if before is not None and image.labels.get(LANE) == lane:
            found[tag] = (image.id, before.id)
    if not found:
        raise NoFormerImage(
            f"{node} has no former image of {lane}",
            hint="nothing was changed on any node; imgbuild nodes status shows what is there",
        )
    return found


def prunable(
    facts: NodeFacts, lane: str, used: frozenset[str], *, keep: int
) -> tuple[NodeImage, ...]:
    """Images of the lane that may go: not among the newest `keep`, not what a moving tag
    (`local`, `local-previous`) names, not used by a container, no tag of another lane. And what
    pushes left that did not come to their end."""
    mine = [image for image in facts.images if image.labels.get(LANE) == lane]
    own = {repository(tag) for image in mine for tag in image.tags}
    newest = sorted(mine, key=lambda image: image.created, reverse=True)
    builds = list(dict.fromkeys(image.labels.get(BUILD_ID, image.id) for image in newest))[:keep]
    found = [image for image in facts.images if image.id not in used and is_left(image, lane)]
    for image in newest:
        build = image.labels.get(BUILD_ID, "")
        is_kept = image.labels.get(BUILD_ID, image.id) in builds or image.id in used
        moving = [t for t in image.tags if not t.endswith(f":{build[:12]}")]
        foreign = [t for t in image.tags if repository(t) not in own]
        if not (is_kept or moving or foreign):
            found.append(image)
    return tuple(found)


def is_left(image: NodeImage, lane: str) -> bool:
    """Whether it has no other name than those under which the lane's images arrive."""
    names = transfer_names({LANE: lane})
    return bool(image.tags) and all(tag.startswith(names) for tag in image.tags)


def unknown_lane(lane: str, every: Sequence[NodeFacts]) -> Finding | None:
    """A lane that no node has an image of, with those that there are."""
    lanes = sorted({i.labels[LANE] for f in every for i in f.images if LANE in i.labels})
    if lane in lanes:
        return None
    hint = f"there are images of: {', '.join(lanes)}" if lanes else "no node has an image of ours"
    return Finding("lane-unknown", f"no node has an image of the lane {lane}", hint)
