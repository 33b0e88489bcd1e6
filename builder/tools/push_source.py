"""The build host's engine as the source of a push."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from builder.model.distribution import SourceImage
from builder.model.proven import digest
from builder.node_ports import Layers
from builder.tools import docker_cli
from builder.tools.layers_content import ContentLayers
from builder.tools.layers_overlay import OverlayLayers
from builder.tools.layers_save import SaveLayers


class DockerSource:
    """Implements node_ports.Source. `only_save` never reads the engine's own folders."""

    def __init__(self, *, only_save: bool = False) -> None:
        self._only_save = only_save or os.environ.get("IMGBUILD_PUSH_SAVE") == "1"

    def find(self, reference: str) -> SourceImage | None:
        done = docker_cli.run(
            "image", "inspect", "--format", "{{json .}}", "--", reference, check=False
        )
        if done.returncode:
            if "no such image" in done.complaint.lower():
                return None
            raise docker_cli.understood(done)
        return _described(json.loads(done.stdout))

    def newest(self, label: str, value: str | None = None) -> SourceImage | None:
        wanted = f"label={label}" if value is None else f"label={label}={value}"
        ids = docker_cli.run("image", "ls", "-q", "--no-trunc", "--filter", wanted).text.split()
        if not ids:
            return None
        shown = docker_cli.run("image", "inspect", "--format", "{{json .}}", *sorted(set(ids)))
        raws = [json.loads(line) for line in shown.text.splitlines()]
        tagged = [raw for raw in raws if raw.get("RepoTags")]
        return _described(max(tagged, key=_age)) if tagged else None

    def layers(self, image: SourceImage) -> Layers:
        info = json.loads(docker_cli.run("info", "--format", "{{json .}}").stdout)
        root = Path(str(info.get("DockerRootDir") or "/nowhere"))
        is_classic = "snapshotter" not in str(info.get("DriverStatus"))
        if not self._only_save and is_local():
            if is_classic and info.get("Driver") == "overlay2":
                overlay = OverlayLayers(root, image)
                if overlay.usable():
                    return overlay
            elif not is_classic and (content := ContentLayers.find(root, image)):
                return content
        numbers = re.match(r"(\d+)", str(info.get("ServerVersion", "")))
        return SaveLayers(image, named=is_classic and bool(numbers and int(numbers[1]) >= 25))


def is_local() -> bool:
    """Whether the engine's folders are on this machine."""
    host = os.environ.get("DOCKER_HOST") or docker_cli.run(
        "context", "inspect", "--format", "{{.Endpoints.docker.Host}}", check=False
    ).text.strip()  # fmt: skip
    return host.startswith("unix://")


def _described(raw: Mapping[str, Any]) -> SourceImage:
    config = raw.get("Config") or {}
    return SourceImage(
        id=str(raw["Id"]),
        layers=tuple((raw.get("RootFS") or {}).get("Layers") or ()),
        tags=tuple(sorted(raw.get("RepoTags") or ())),
        labels=dict(sorted((config.get("Labels") or {}).items())),
        architecture=str(raw.get("Architecture", "")),
        created=str(raw.get("Created", "")),
        size=int(raw.get("Size") or 0),
        digest=digest(
            (raw.get("RootFS") or {}).get("Layers") or (), config.get("Env") or (),
            config.get("Entrypoint") or (), config.get("Cmd") or (), config.get("User") or "",
        ),
    )  # fmt: skip


def _age(raw: Mapping[str, Any]) -> tuple[str, str]:
    return str((raw.get("Metadata") or {}).get("LastTagTime", "")), str(raw.get("Created", ""))
