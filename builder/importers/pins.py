"""sparkring's `pins.json`: components as a commit and one patch (FORMATS 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from builder.importers import moving, shape
from builder.importers.kind import JsonKind
from builder.importers.shape import Node, Reader
from builder.importers.words import EMPTY_PATCH, Hex64, Name, Oid, Path, Url
from builder.model.foreign import Claims, Document, ForeignPatch, SourceClaim
from builder.model.lane import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Node):
    """Where the pins and their patches are published."""

    repository: Url
    commit: Oid
    patch_root: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Component(Node):
    repository: Url
    base_commit: Oid
    patch: Path  # below release.patch_root
    patch_sha256: Hex64
    result_tree: Oid


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins(Node, Document):
    release: Release
    components: Mapping[Name, Component]
    runtime_dependencies: object = None

    def claims(self) -> Claims:
        kept = ["release", *["runtime_dependencies"] * (self.runtime_dependencies is not None)]
        sources = tuple(self._claim(name) for name in self.components)
        return Claims(sources, information=(*kept, *self.unknown()))

    def _claim(self, name: str) -> SourceClaim:
        component, at = self.components[name], f"components.{name}"
        table = Source(
            component.repository,
            commit=component.base_commit,
            result_tree=component.result_tree,
        )
        said = {
            "url": f"{at}.repository",
            "commit": f"{at}.base_commit",
            "result-tree": f"{at}.result_tree",
        }
        path = f"{self.release.patch_root}/{component.patch}"
        patch = ForeignPatch(path, f"sha256:{component.patch_sha256}", f"{at}.patch")
        empty = component.patch_sha256 == EMPTY_PATCH
        return SourceClaim(name, table, said, () if empty else (patch,))

    def render(self) -> str:
        return shape.render(self)

    def moved(self, sources: Mapping[str, Source]) -> tuple[Document, tuple[str, ...]]:
        return self, moving.same(self.claims(), sources, "the patch and result_tree")


def read(reader: Reader) -> Pins:
    """Raises: ImportInvalid with every finding."""
    pins = reader.document(Pins)
    if not pins.components:
        reader.report(("components",), "names no component")
    trees: dict[tuple[str, str], str] = {}
    for name, component in pins.components.items():
        at = ("components", name)
        inputs = (component.base_commit, component.patch_sha256)
        if trees.setdefault(inputs, component.result_tree) != component.result_tree:
            what = "the same commit and patch give another tree in another component"
            reader.report((*at, "result_tree"), what)
        if component.result_tree == component.base_commit:
            reader.report((*at, "result_tree"), "is the base commit's id, which is no tree")
    reader.settle()
    return pins


KIND = JsonKind(
    "components as a commit and one patch (sparkring's pins.json)",
    frozenset({"release", "components"}),
    read,
)
