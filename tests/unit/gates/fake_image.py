"""An image without an engine: its files are a table, its scripts run in this machine's sh."""

from __future__ import annotations

import contextlib
import io
import posixpath
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

from builder.model.values import ImageFile, ImageInfo, ScriptResult
from builder.steps.gates.glob import is_below


@dataclass(frozen=True)
class To:
    """A symlink."""

    target: str


@dataclass(frozen=True)
class Same:
    """A hardlink to a path that stands before it."""

    path: str


Content = bytes | To | Same | None  # None: a folder


@dataclass
class FakeImage:
    """The methods of ports.Engine that gates use; `bases` are images beside it, by name."""

    files: Mapping[str, Content] = field(default_factory=dict)
    shell: Sequence[str] = ("sh",)
    script_ends: Exception | ScriptResult | None = None
    reads: list[tuple[str, ...]] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    info: ImageInfo | None = None
    made_by: tuple[str, ...] = ()
    bases: Mapping[str, FakeImage] = field(default_factory=dict)
    layers: Sequence[Mapping[str, Content]] = ()  # as written, with `.wh.` names

    def image(self, reference: str) -> ImageInfo | None:
        return self.bases.get(reference, self).info

    @contextlib.contextmanager
    def read_layers(
        self, image: str, *, above: int
    ) -> Iterator[Iterator[tuple[int, ImageFile, IO[bytes] | None]]]:
        self.reads.append((f"layers above {above}",))
        yield (
            (number, *self._entry(path, content, alone=False))
            for number, layer in enumerate(self.layers)
            for path, content in layer.items()
            if number >= above
        )

    def history(self, image: str) -> tuple[str, ...]:
        return self.made_by

    def run_script(self, image: str, script: str, *, timeout_s: float, most: int) -> ScriptResult:
        self.scripts.append(script)
        if isinstance(self.script_ends, Exception):
            raise self.script_ends
        if self.script_ends is not None:
            return self.script_ends
        done = subprocess.run(
            [*self.shell, "-s"], input=script.encode(), capture_output=True, timeout=timeout_s
        )
        base = re.search(r"^base=(/tmp/imgbuild-\w+)$", script, re.MULTILINE)
        if base:  # in a container it goes with the container
            shutil.rmtree(base[1], ignore_errors=True)
        return ScriptResult(done.returncode, done.stdout, done.stderr)

    @contextlib.contextmanager
    def read_tree(
        self, image: str, roots: Sequence[str], *, deep: bool = True
    ) -> Iterator[Iterator[tuple[ImageFile, IO[bytes] | None]]]:
        self.reads.append(tuple(roots))
        of = self.bases.get(image, self)
        if deep:
            yield (entry for root in roots for entry in of._below(root))
        else:
            there = [root for root in roots if root in of.files]
            yield (of._entry(root, of.files[root], alone=True) for root in there)

    def _below(self, root: str) -> Iterator[tuple[ImageFile, IO[bytes] | None]]:
        real = self._real(root)
        for path in sorted(self.files):
            if is_below(path, real):
                asked = root + path[len(real) :] if real else path
                yield self._entry(asked, self.files[path], alone=path == real)

    def _real(self, root: str) -> str:
        real, links = "", 0
        for part in root.split("/") if root else ():
            real = posixpath.join(real, part)
            while isinstance(link := self.files.get(real), To) and (links := links + 1) < 40:
                real = posixpath.normpath(posixpath.join("/", posixpath.dirname(real), link.target))
                real = real.strip("/")
        return real

    def _entry(
        self, path: str, content: Content, *, alone: bool
    ) -> tuple[ImageFile, IO[bytes] | None]:
        if isinstance(content, Same) and alone:  # its partner is not in the same stream
            first = self.files[content.path]
            assert isinstance(first, bytes)
            content = first
        match content:
            case bytes():
                return ImageFile(path, "file", 0o644, len(content)), io.BytesIO(content)
            case To(target):
                return ImageFile(path, "link", 0o777, 0, target), None
            case Same(first_path):
                return ImageFile(path, "hardlink", 0o644, 0, first_path), None
            case None:
                return ImageFile(path, "folder", 0o755), None
