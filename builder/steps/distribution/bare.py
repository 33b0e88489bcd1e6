"""Layers without what their image says: what may lie on a node before its gates have passed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from builder.model.distribution import Blob, SourceImage
from builder.model.label_names import LANE
from builder.node_ports import Layers
from builder.steps.distribution import archives


@dataclass(frozen=True, slots=True)
class BareLayers:
    """Implements node_ports.Layers: all layers of an image, below a config that holds nothing else.

    It has no command, no labels and no tag, so it is no image that could be started by mistake.
    """

    layers: Layers
    bare: bytes  # its config: read once, for a candidate's own goes when it is labelled

    @classmethod
    def of(cls, layers: Layers) -> BareLayers:
        return cls(layers, archives.prefix_config(layers.config()))

    @property
    def is_random(self) -> bool:
        return self.layers.is_random

    def config(self) -> bytes:
        return self.bare

    def config_digest(self) -> str:
        return archives.digest(self.bare)

    def digests(self) -> tuple[str, ...]:
        return self.layers.digests()

    def manifest(self) -> None:
        return None

    def blobs(self) -> tuple[Blob, ...]:
        return self.layers.blobs()

    def sizes(self) -> tuple[int, ...]:
        return self.layers.sizes()

    def stream(self, layers: Sequence[int]) -> Iterator[tuple[Blob, Iterator[bytes]]]:
        return self.layers.stream(layers)

    def read(self, digest: str, offset: int = 0) -> Iterator[bytes]:
        return self.layers.read(digest, offset)


def bare(image: SourceImage, lane: str) -> SourceImage:
    """The image without its names and words; whose layers they are is known here only."""
    return replace(image, tags=(), labels={LANE: lane})
