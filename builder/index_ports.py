"""Indexes and registries as steps see them: where wheels, Debian packages and bases come from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # names only: whoever draws a line needs no model
    from builder.model.lock import LockedFile


class PackageIndex(Protocol):
    """pip's or apt's index, by their own configuration."""

    def resolve(self, wanted: str, platform: str, into: Path) -> tuple[str, str, Path]:
        """Name, version and downloaded file (below `into`) of what serves `wanted` now."""

    def download(
        self, name: str, version: str, file: LockedFile, platform: str, into: Path
    ) -> Path:
        """Bring exactly this file. Raises: PackageUnavailable."""


class Registry(Protocol):
    """OCI registries, asked without Docker."""

    def digests(self, ref: str) -> Mapping[str, str]:
        """What `name:tag` or `name@sha256:…` means now: a manifest digest a platform.

        Raises: RegistryUnreachable; ManifestUnknown, when the registry has no such reference.
        """

    def serves(self, ref: str, digest: str) -> bool:
        """Whether the registry of `ref` has this manifest. Raises: RegistryUnreachable."""


class WheelIndex(Protocol):
    """pip's indexes, asked without a download."""

    def sha256(self, project: str, filename: str) -> str | None:
        """The digest of a file there; None: no index has it. Raises: IndexUnreachable."""
