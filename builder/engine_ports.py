"""The container engine as steps see it: a small Protocol that a tool implements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # names only: whoever draws a line needs no model
    from builder.model.values import (
        BuildRequest,
        BuildStep,
        EngineInfo,
        ImageFile,
        ImageInfo,
        ScriptResult,
    )
    from builder.ports import Say


class Engine(Protocol):
    """A Docker engine."""

    def describe(self) -> EngineInfo:
        """Raises: EngineMissing, BuildxMissing."""

    def image(self, reference: str) -> ImageInfo | None: ...
    def images(self, repository: str) -> tuple[ImageInfo, ...]: ...
    def history(self, image: str) -> tuple[str, ...]: ...  # what made each layer, in order
    def config(self, image: str) -> Mapping[str, object]:
        """The whole config under the engine's own names (`Env`, `OnBuild`, …), and `Layers`."""

    def load(self, archive: Iterator[bytes]) -> None:
        """Load a docker-archive from a stream."""

    def build(self, request: BuildRequest, *, say: Say) -> tuple[str, tuple[BuildStep, ...]]:
        """Run buildx; the image id and the steps. An interrupt passes through and leaves no
        build behind. Raises: BuildFailed."""

    def relabel(
        self, reference: str, labels: Mapping[str, str], *, platform: str, epoch: int, tag: str,
        log: Path,
    ) -> str:  # fmt: skip
        """Make `tag`: the same layers, config and history, and these labels; its image id."""

    def tag(self, image: str, reference: str) -> None: ...
    def untag(self, reference: str) -> None: ...

    def run_script(
        self, image: str, script: str, *, timeout_s: float, most: int = 1 << 20
    ) -> ScriptResult:
        """Run `sh -s` in the image, read-only, without network; the container is gone after.

        It is ended when its time is over, or a stream has more than `most` bytes."""

    def sweep(self) -> None:
        """Remove the containers that killed runs of this machine left behind."""

    def read_tree(
        self, image: str, roots: Sequence[str], *, deep: bool = True
    ) -> AbstractContextManager[Iterator[tuple[ImageFile, IO[bytes] | None]]]:
        """Stream what lies at and below the roots, from one container that is created and
        never started; nothing is written to a disk. The reader (None for what is no regular
        file) holds until the next entry.

        Roots have no leading /, none lies below another; "" is the whole image. A root that
        does not exist gives nothing. A root that is a symlink, or lies behind one, is followed
        inside the image (`docker cp -L`), and its entries are named below the root as it was
        asked for. Symlinks below a root are given, not followed. When not `deep`, the roots
        alone are given, and no link is followed."""

    def read_layers(
        self, image: str, *, above: int
    ) -> AbstractContextManager[Iterator[tuple[int, ImageFile, IO[bytes] | None]]]:
        """Stream the layers from number `above` on, each as it was written: `.wh.NAME` says that
        NAME was removed. One that is there twice comes once, with its last number."""
