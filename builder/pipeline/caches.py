"""`imgbuild nodes cache`: what JIT compilers keep, from a warm node to others, whole or not at all.

All that is copied to a node comes from a folder of this host; what a node has is taken there
first. Each copy goes beside its place, is compared with its manifest, and is renamed.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from builder.errors import DistributionError, ImgbuildError, UsageError
from builder.model.caches import CacheFacts, CacheKey, CacheOutcome, Unit
from builder.model.lane import Lane
from builder.model.nodes import Node
from builder.node_ports import Board, Connection, Connections, Copier, NodeLine, Shell
from builder.pipeline.cache_spots import Spot, listed, looked, placed
from builder.ports import Project
from builder.steps import identity
from builder.steps.distribution import cache_scripts as scripts
from builder.steps.distribution import caches
from builder.steps.lanes import read_lane, read_lock


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a lane and its lock say of their caches."""

    lane: Lane
    root: str  # on nodes
    names: tuple[str, ...]
    fingerprint: str

    @property
    def key(self) -> str:
        """The name of the fingerprint's folder."""
        return self.fingerprint[:12]


def wanted(name: str, *, project: Project) -> Wanted:
    """Raises: LaneError."""
    lane = read_lane(name, project=project).lane
    declared = caches.declared(lane)
    fingerprint = identity.cache_fingerprint(lane, read_lock(lane))
    return Wanted(lane, declared.root, declared.folders, fingerprint)


def kept(what: Wanted, store: Path) -> tuple[Unit, ...]:
    """The caches of this fingerprint that this host has, one for each kind of machine."""
    files = sorted((store / what.key).glob(f"*/{scripts.KEY_FILE}"))
    return tuple(caches.read(file.parent, file.read_bytes(), what.names) for file in files)


def opened(what: Wanted, folder: Path) -> Unit:
    """The cache in a folder that a pull made. Raises: UsageError, CacheDiffers."""
    try:
        data = (folder / scripts.KEY_FILE).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(
            f"{folder} holds no cache: {scripts.KEY_FILE} is not there",
            hint="name a folder that imgbuild nodes cache pull made, or a node",
        ) from None
    unit = caches.read(folder, data, what.names)
    if unit.key.fingerprint != what.fingerprint:
        raise caches.CacheDiffers(
            f"{folder} is a cache of {unit.lane} {unit.key.fingerprint:.12}, the lock gives "
            f"{what.fingerprint:.12}",
            hint="its kernels are of other sources, packages or bases: warm up a node with this "
            "lock's image",
        )  # fmt: skip
    return unit


def pull(
    what: Wanted,
    source: Node,
    to: Path | None,
    *,
    store: Path,
    here: Shell,
    connections: Connections,
    copier: Copier,
    board: Board,
) -> tuple[Unit, CacheOutcome]:
    """Take a warm node's cache to this host. Raises: DistributionError; nothing is then put in
    place, and what was there stays."""
    with connections.open([source]) as nodes, board.lines([source.name]) as lines:
        line = lines(source.name)
        try:
            began = time.monotonic()
            line.say("connecting")
            link = nodes.connect(source)
            unit, outcome = _taken(what, link, to, store=store, here=here, copier=copier, line=line)
            outcome = replace(outcome, seconds=round(time.monotonic() - began, 3))
        except ImgbuildError as error:
            line.done(_bare(source, error), is_good=False)
            raise
        line.done(said(outcome), is_good=True)
    return unit, outcome


def push(
    what: Wanted,
    units: Sequence[Unit],
    nodes: Sequence[Node],
    *,
    here: Shell,
    connections: Connections,
    copier: Copier,
    board: Board,
) -> tuple[CacheOutcome, ...]:
    """Bring this host's cache to the nodes; what failed on one stops no other.

    Raises: CacheDamaged when it is not what its manifest says.
    """
    for unit in units:
        found = listed(here, unit.folder, caches.tops(unit.manifest), "this host")
        caches.check_whole(unit.folder, unit.manifest, found, "pull it again")
    with (
        ThreadPoolExecutor(max(1, len(nodes))) as pool,
        connections.open(nodes) as opened,
        board.lines([node.name for node in nodes]) as lines,
    ):

        def one(node: Node) -> CacheOutcome:
            line, began = lines(node.name), time.monotonic()
            try:
                line.say("connecting")
                outcome = _given(what, units, opened.connect(node), copier=copier, line=line)
            except ImgbuildError as error:
                outcome = CacheOutcome(node.name, "failed", finding=error.findings[0])
                line.done(_bare(node, error), is_good=False)
            else:
                line.done(said(outcome), is_good=True)
            return replace(outcome, seconds=round(time.monotonic() - began, 3))

        return tuple(pool.map(one, nodes))


def said(outcome: CacheOutcome) -> str:
    """A node's end in one line."""
    if outcome.state == "present":
        return f"has it already: {outcome.files} files"
    return f"{outcome.files} files, {outcome.sent / 1e6:.1f} MB went, compared with the manifest"


def _taken(
    what: Wanted,
    link: Connection,
    to: Path | None,
    *,
    store: Path,
    here: Shell,
    copier: Copier,
    line: NodeLine,
) -> tuple[Unit, CacheOutcome]:
    node, there = link.node, Spot(link, what.root, what.key)
    line.say("reading its cache")
    found = looked(there, what.names, node)
    if not found.folders:
        raise caches.cold(node.name, what.lane.name, what.fingerprint, found)
    before = listed(link, there.folder, found.folders, node.name)
    key = CacheKey(what.fingerprint, found.architecture, found.gpu)
    folder = to or store / what.key / "-".join(filter(None, (key.architecture, key.gpu)))
    unit = Unit(str(folder), key, what.lane.name, node.name, before)
    mine = Spot(here, str(folder.parent), folder.name)
    own = looked(mine, what.names)
    files = sum(bool(one.digest) for one in before.values())
    if _same(here, folder, unit, own, what):
        return unit, CacheOutcome(node.name, "present", files=files)
    if reason := caches.no_space("this host", own, caches.needed(before)):
        raise DistributionError.of([reason])

    def fetch(into: str) -> int:
        paths = [f"{there.folder}/{name}" for name in found.folders]
        sent = copier.fetch(link, paths, into, basis="..", moved=line.moved)
        line.say("reading its cache again")
        after = listed(link, there.folder, found.folders, node.name)
        if wrong := caches.differing(before, after):
            raise caches.changing(node.name, wrong[0])
        _write_key(Path(into) / scripts.KEY_FILE, unit)
        return sent

    sent = placed(mine, unit, fetch, line)
    return unit, CacheOutcome(node.name, "copied", sent=sent, files=files)


def _given(
    what: Wanted, units: Sequence[Unit], link: Connection, *, copier: Copier, line: NodeLine
) -> CacheOutcome:
    node, there = link.node, Spot(link, what.root, what.key)
    line.say("looking at its caches")
    found = looked(there, what.names, node)
    kinds = caches.by_machine(units)
    unit = kinds.get((found.architecture, found.gpu), units[0])
    if reason := caches.refusal(node, found, unit, caches.needed(unit.manifest)):
        raise DistributionError.of([reason])
    names = caches.tops(unit.manifest)
    files = sum(bool(one.digest) for one in unit.manifest.values())
    if set(names) <= set(found.folders):
        with contextlib.suppress(ImgbuildError):  # what cannot be read is replaced
            if not caches.differing(unit.manifest, listed(link, there.folder, names, node.name)):
                return CacheOutcome(node.name, "present", files=files)

    def send(into: str) -> int:
        paths = [f"{unit.folder}/{name}" for name in (*names, scripts.KEY_FILE)]
        return copier.send(link, paths, into, basis="..", moved=line.moved)

    return CacheOutcome(node.name, "copied", sent=placed(there, unit, send, line), files=files)


def _same(here: Shell, folder: Path, unit: Unit, own: CacheFacts, what: Wanted) -> bool:
    """Whether this host has just that already, key and all."""
    names = caches.tops(unit.manifest)
    if set(own.folders) != set(names):
        return False
    with contextlib.suppress(ImgbuildError, OSError):
        data = (folder / scripts.KEY_FILE).read_bytes()
        former = caches.read(folder, data, what.names)
        held = listed(here, str(folder), names, "this host")
        return former.key == unit.key and held == former.manifest == unit.manifest
    return False


def _write_key(path: Path, unit: Unit) -> None:
    """Only as a new file: what lies there came from the node, and may be a link."""
    try:
        with path.open("xb") as file:
            file.write(caches.written(unit))
    except FileExistsError:
        raise caches.CacheUnsafe(
            f"{unit.node}: it sent a file {path.name}, which was not asked for",
            hint="look at rsync there",
        ) from None


def _bare(node: Node, error: ImgbuildError) -> str:
    return str(error).removeprefix(f"{node.name}: ")


def choose_folder(to: Path) -> Path:
    """A folder to pull into: new, empty, or one of ours. Raises: UsageError."""
    folder = to.absolute()
    ours = (folder / scripts.KEY_FILE).exists()
    if folder.name in ("", "..") or (not ours and folder.exists() and any(folder.iterdir())):
        raise UsageError(
            f"{to} is not empty, and holds no cache of ours", hint="name a folder of its own"
        )
    return folder
