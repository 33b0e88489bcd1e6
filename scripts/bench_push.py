#!/usr/bin/env python3
"""Measure `imgbuild push` against other ways, on nodes made of namespaces (root).

    scripts/bench_push.py [--nodes 1] [--mbit N] [--rounds 3] [--store classic] [--ways a,b]

Seconds, megabytes that left this host, CPU seconds of its engine and of what was started here, and
the peak memory of imgbuild's largest process, for a first push, a changed layer and nothing new;
the ratios are to `docker save | ssh docker load` in the same run. Ways: save, skopeo, registry,
pussh (bench_peers.py), imgbuild, and imgbuild's own zstd, plain, pull, star, chain.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts import bench_peers  # noqa: E402
from tests.fleet import images  # noqa: E402
from tests.fleet.fleet import Fleet, fleet, missing  # noqa: E402
from tests.fleet.images import Layer  # noqa: E402

MB = 1_000_000
SIZES = (80, 300, 5, 250, 150, 200, 65, 50)
TAG = bench_peers.TAG
Row = dict[str, str | float | int]
Way = Callable[[Fleet], None]
Figures = tuple[float, int, float]  # seconds, bytes, CPU seconds


def push(
    nodes: int = 1, mbit: int | None = None, rounds: int = 3, store: str = "classic",
    ways: str = "save,imgbuild",
) -> list[Row]:  # fmt: skip
    """Rows of medians, one a way and case. Raises: RuntimeError without root and programs."""
    if lacking := missing():
        raise RuntimeError(lacking)
    rows: list[Row] = []
    pool = libraries()
    layers = [Layer(size * MB, i, pool) for i, size in enumerate(SIZES)]
    first, changed = (
        images.archive([*layers[:-1], last], [TAG], created=f"2025-09-1{day}T00:00:00Z")
        for day, last in enumerate((layers[-1], Layer(SIZES[-1] * MB, 99, pool)))
    )
    with (
        tempfile.TemporaryDirectory(prefix="imgbuild-bench-", dir=Path.home()) as tmp,
        fleet([store] * nodes, data=Path(tmp)) as made,
    ):
        names = "".join(f"[nodes.{n.name}]\n" for n in made.nodes)
        (made.data / "nodes.toml").write_text(f"schema = 1\n{names}")
        made.introduce(*made.nodes)
        if mbit is not None:
            made.network.uplink(mbit)
        for name in ways.split(","):
            if package := bench_peers.lacking(name):
                raise RuntimeError(f"{name} needs a package: apt-get install {package}")
            try:
                found = _rounds(name, rounds, made, first, changed)
            except RuntimeError as failed:
                print(f"{name}: {failed}", file=sys.stderr)
                continue
            finally:
                bench_peers.forget(made)
            for case, figures in found.items():
                rows.append({
                    "bench": "push", "way": name, "case": case, "nodes": nodes,
                    "mbit": mbit or 0, "store": store,
                    "seconds": round(statistics.median(s for s, _, _ in figures), 2),
                    "megabytes": round(statistics.median(b for _, b, _ in figures) / MB, 1),
                    "cpu": round(statistics.median(c for _, _, c in figures), 2),
                    "peak": round(max(_peak, default=0) / MB),
                })  # fmt: skip
                print(table(rows[-1:], rows), file=sys.stderr)
    return rows


def libraries() -> bytes:
    """Of this machine, 64 MB to 256: an image's bytes compress as theirs, not as random ones."""
    found, held = list[bytes](), 0
    for path in sorted(Path("/usr").glob("lib*/**/*.so*")):
        if path.is_file() and not path.is_symlink() and held < 256 * MB:
            found.append(path.read_bytes())
            held += len(found[-1])
    if held < 64 * MB:
        raise RuntimeError(f"only {held // MB} MB of libraries in /usr/lib: install some package")
    return b"".join(found)


def _rounds(
    name: str, rounds: int, made: Fleet, first: bytes, changed: bytes
) -> dict[str, list[Figures]]:
    """Those of each round, by case. Raises: RuntimeError, when the way fails."""
    found: dict[str, list[Figures]] = {}
    _peak.clear()
    for _ in range(rounds):
        for engine in (made.source, *(node.engine for node in made.nodes)):
            engine.empty()
        bench_peers.ready(made, name)
        for case, data in (("first", first), ("changed", changed), ("nothing", changed)):
            images.load(made.source, data)
            found.setdefault(case, []).append(_measured(WAYS[name], made))
        _check(made)
    return found


# A process of its own, since Linux counts the memory of whoever started a program as its.
_MEASURE = """\
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], check=False).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""
_peak: list[int] = []  # bytes; of the largest process of each run of imgbuild


def _measured(way: Way, made: Fleet) -> Figures:
    os.sync()
    sent, worked, began = made.network.host_sent(), _worked(made), time.perf_counter()
    way(made)
    took = time.perf_counter() - began
    return took, made.network.host_sent() - sent, _worked(made) - worked


def _worked(made: Fleet) -> float:
    """CPU seconds of this host: its engine with what that started, and what ended here."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert made.source.process is not None
    engine = made.source.process.pid
    tasks = Path(f"/proc/{engine}/task").glob("*/children")
    started = [pid for task in tasks for pid in task.read_text().split()]
    ticks = 0
    for pid in (str(engine), *started):
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, stat[11:15]))  # proc(5): utime, stime, cutime, cstime
    return ended.ru_utime + ended.ru_stime + ticks / os.sysconf("SC_CLK_TCK")


def _check(made: Fleet) -> None:
    layers = {n.docker("image", "inspect", "-f", "{{json .RootFS.Layers}}", TAG)
              for n in made.nodes}  # fmt: skip
    assert layers == {made.source.docker("image", "inspect", "-f", "{{json .RootFS.Layers}}", TAG)}


def imgbuild(made: Fleet, *words: str) -> None:
    env = {**os.environ, **made.source.env, "IMGBUILD_SSH_CONFIG": str(made.ssh_config),
           "IMGBUILD_STATE": str(made.data / "state"),
           "IMGBUILD_NODES": str(made.data / "nodes.toml")}  # fmt: skip
    names = ",".join(n.name for n in made.nodes)
    argv = [
        str(ROOT / ".venv/bin/imgbuild"),
        "-C",
        str(ROOT),
        "push",
        TAG,
        "--nodes",
        names,
        *words,
    ]
    done = subprocess.run([sys.executable, "-c", _MEASURE, *argv], env=env, capture_output=True,
                          text=True, check=False)  # fmt: skip
    *said, peak = done.stderr.splitlines()
    if done.returncode:
        raise RuntimeError(done.stdout + "\n".join(said))
    if os.environ.get("BENCH_SHOW"):
        print(*said, done.stdout, sep="\n", file=sys.stderr)
    _peak.append(int(peak) * 1024)


WAYS: Mapping[str, Way] = {
    "save": bench_peers.save_load,
    "skopeo": bench_peers.skopeo,
    "registry": bench_peers.registry,
    "pussh": bench_peers.pussh,
    "imgbuild": imgbuild,
    "zstd": lambda made: imgbuild(made, "--compress", "zstd", "--transport", "load"),
    "plain": lambda made: imgbuild(made, "--compress", "none", "--transport", "load"),
    "star": lambda made: imgbuild(made, "--fanout", "star"),
    "chain": lambda made: imgbuild(made, "--fanout", "chain"),
    "pull": lambda made: imgbuild(made, "--transport", "pull"),
}


def table(shown: list[Row], rows: list[Row]) -> str:
    base = {row["case"]: row for row in rows if row["way"] == "save"}
    lines = []
    for row in shown:
        line = (f"{row['way']:9} {row['case']:8} {row['nodes']} nodes {row['store']} "
                f"{row['mbit'] or 'full'} Mbit {row['seconds']:7.2f} s "
                f"{row['megabytes']:8.1f} MB {row['cpu']:6.2f} s of CPU")  # fmt: skip
        if row["peak"]:
            line += f"   {row['peak']} MB of memory at most"
        if (other := base.get(row["case"])) is not None and other is not row:
            line += f"   {float(other['seconds']) / float(row['seconds']):5.1f} times as fast"
        lines.append(line)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--mbit", type=int, help="of this host's link, to all nodes together")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--store", choices=("classic", "containerd"), default="classic")
    parser.add_argument("--ways", default="save,imgbuild")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rows = push(asked.nodes, asked.mbit, asked.rounds, asked.store, asked.ways)
    print(json.dumps(rows, indent=1) if asked.json else table(rows, rows))


if __name__ == "__main__":
    main()
