"""A project in a folder, with repositories of its own and one lane, `plain`."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from builder.cli.progress import PlainProgress
from builder.model.lock import Lock
from builder.pipeline.lock import lock
from builder.tools.files import FileStore
from builder.tools.git_store import Store
from builder.tools.project import ProjectFolder
from builder.tools.registry_api import RegistryApi
from tests.integration.repositories import Repo

HEAD = f"""
schema = 1
image = "plain"
repository = "plain"
platforms = ["linux/amd64"]
[build]
cuda-arch-list = "12.1a"
[base.runtime]
ref = "x@sha256:{"0" * 64}"
"""


class PlainProject:
    """Its image folder is empty but for a Dockerfile; no package is needed to lock it."""

    def __init__(self, root: Path) -> None:
        self.root, self.said = root, io.StringIO()
        self.store, self.files = Store(root / "cache"), FileStore(root / "cache")
        self.project = ProjectFolder(root)
        self.write("docker-images/plain/Dockerfile", "FROM scratch\n")

    @property
    def tools(self) -> dict[str, Any]:
        return {
            "project": self.project, "store": self.store, "files": self.files,
            "progress": PlainProgress(self.said),
        }  # fmt: skip

    def repo(self, name: str) -> Repo:
        """A new repository, which a lane finds at `./repos/<name>.git`."""
        return Repo(self.root / "repos" / f"{name}.git")

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def lane(self, tables: str, name: str = "plain") -> None:
        self.write(f"locks/{name}.toml", HEAD + tables)

    def lock(self, name: str = "plain", *update: str) -> Lock:
        return lock(
            name, update=frozenset(update) or None, host="linux/amd64", wheels=_none, debs=_none,
            registry=RegistryApi(), **self.tools,
        ).lock  # fmt: skip

    def close(self) -> None:
        self.store.close()


def _none(*words: str) -> None:  # type: ignore[misc]
    raise AssertionError("no package is needed")
