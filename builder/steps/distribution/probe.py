"""Ask a node in one round trip what it is and has, and read its answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from builder.errors import DistributionError
from builder.model.distribution import NodeFacts, NodeImage, Store

SCRIPT = r"""
export LC_ALL=C
say() { printf '\n-- %s\n' "$1"; }
d=docker
if ! command -v docker >/dev/null; then say nodocker; exit 0; fi
info() { "$@" info --format '{{.DockerRootDir}}{{printf "\n"}}{{json .}}' 2>/dev/null; }
works() { [ -n "$i" ] && [ -n "$(printf '%s\n' "$i" | sed -n '1s,^/.*,y,p')" ]; }
images() {
    "$@" image ls -aq --no-trunc | sort -u | xargs "$@" image inspect --format '{{json .}}'
} 2>/dev/null
images docker | { # while the engine says what it is
i=$(info docker)
if ! works; then
    e=$(docker info 2>&1 >/dev/null); i=$(info sudo -n docker)
    if works; then d='sudo -n docker'; else say silent; printf '%s\n' "$e"; exit 0; fi
fi
say docker; printf '%s\n' "$d"
say tools
for t in zstd flock rsync timeout; do if command -v $t >/dev/null; then echo $t; fi; done
say info; printf '%s\n' "$i"
say space
df -Pk "$(printf '%s\n' "$i" | sed -n 1p)" 2>/dev/null | sed -n '$p'
say images
if [ "$d" = docker ]; then cat; else images $d; fi
say end
}
"""
# What reading an answer raises that is none: whatever stands in it.
GARBLED = (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError)
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class NoDocker(DistributionError):
    code = "no-docker"


class DockerDenied(DistributionError):
    """The user of the ssh login may not use the node's engine."""

    code = "docker-denied"


class EngineSilent(DistributionError):
    code = "engine-silent"


class ProbeGarbled(DistributionError):
    """A node answered something that is no answer."""

    code = "probe-garbled"


def read(node: str, answer: str) -> NodeFacts:
    """What the node is and has. Raises: NoDocker, DockerDenied, EngineSilent, ProbeGarbled."""
    said = parts(answer)
    if "nodocker" in said:
        raise NoDocker(f"{node} has no docker command", hint="install Docker there")
    if "silent" in said:
        raise _silent(node, said["silent"])
    try:
        info = json.loads(said["info"].strip().partition("\n")[2])
        return NodeFacts(
            docker=tuple(said["docker"].split()),
            version=str(info["ServerVersion"]),
            store=_store(info),
            architecture=ARCHITECTURES.get(info["Architecture"], info["Architecture"]),
            free=free(said.get("space", "")),
            tools=frozenset(said.get("tools", "").split()),
            images=tuple(_images(said["images"])),
        )
    except GARBLED as error:
        raise ProbeGarbled(
            f"{node} gave an answer that cannot be read: {error!r}",
            hint=f"does its login shell print something? run: ssh {node} docker info",
            detail=answer[-2000:],
        ) from error


def image(raw: Mapping[str, Any]) -> NodeImage:
    """An image out of `docker image inspect`."""
    config = raw.get("Config") or {}
    names = raw.get("RepoTags") or ()
    return NodeImage(
        id=str(raw["Id"]),
        layers=tuple(map(str, (raw.get("RootFS") or {}).get("Layers") or ())),
        tags=tuple(sorted(t for t in names if "<none>" not in t)),
        labels={str(k): str(v) for k, v in sorted((config.get("Labels") or {}).items())},
        architecture=str(raw.get("Architecture", "")),
        created=str(raw.get("Created", "")),
        size=int(raw.get("Size") or 0),
    )


def _images(text: str) -> Iterator[NodeImage]:
    for line in text.splitlines():
        if line.startswith("{"):
            yield image(json.loads(line))


def parts(answer: str) -> Mapping[str, str]:
    """The sections of a script's answer, by the names that its `say` gave them."""
    found: dict[str, str] = {}
    name = ""
    for line in answer.removesuffix("\n").split("\n"):  # a name may hold other ends of lines
        if line.startswith("-- "):
            name = line[3:]
            found[name] = ""
        elif name:
            found[name] += f"{line}\n"
    return found


def _store(info: Mapping[str, Any]) -> Store:
    status = dict(pair for pair in info.get("DriverStatus") or () if len(pair) == 2)
    return "containerd" if "snapshotter" in str(status.get("driver-type", "")) else "classic"


def free(line: str) -> int | None:
    """Bytes, from a line of `df -Pk`."""
    words = line.split()
    return int(words[3]) * 1024 if len(words) >= 6 and words[3].isdigit() else None


def _silent(node: str, complaint: str) -> DistributionError:
    if "permission denied" in complaint.lower():
        return DockerDenied(
            f"{node}: the user of the ssh login may not use Docker, nor sudo -n docker",
            hint='on the node: sudo usermod -aG docker "$USER", then log in again',
            detail=complaint.strip(),
        )
    return EngineSilent(
        f"{node}: its Docker engine does not answer",
        hint="on the node: sudo systemctl start docker",
        detail=complaint.strip(),
    )
