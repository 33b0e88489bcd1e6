"""DockerEngine on a real engine: images, scripts, files, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from builder.errors import ToolFailed
from builder.model.values import BuildRequest, ImageFile
from builder.steps.bases import ensure_base
from builder.tools import docker_cli
from builder.tools.docker import DockerEngine
from tests.integration.conftest import EPOCH, ROOT, Bench

pytestmark = pytest.mark.docker


def ours(pid: int | None = None) -> list[str]:
    """The containers that this process, or another one, has in the engine."""
    name = f"name=imgbuild-{pid or os.getpid()}-"
    return docker_cli.run("ps", "--all", "--format", "{{.Names}}", "--filter", name).text.split()


def test_describe(bench: Bench) -> None:
    about = bench.engine.describe()
    assert about.platform in ("linux/amd64", "linux/arm64")
    assert about.version[0].isdigit()
    assert about.free_bytes is None or about.free_bytes > 0


def test_the_layer_of_a_base_is_the_tar(each_store: Bench) -> None:
    image = each_store.engine.image(each_store.base)
    assert image is not None
    assert image.layers == (each_store.locked.platforms[each_store.platform],)
    assert image.tags == (each_store.base,)
    assert f"linux/{image.architecture}" == each_store.platform


def test_a_tag_that_points_elsewhere_is_mended(each_store: Bench, tag: str, tmp_path: Path) -> None:
    engine, base = each_store.engine, each_store.base
    other = engine.relabel(
        base, {"a": "b"}, platform=each_store.platform, epoch=1, tag=tag, log=tmp_path / "log"
    )
    say: list[str] = []

    def ensure() -> str:
        return ensure_base(
            "small", each_store.locked, each_store.platform, rootfs=each_store.rootfs,
            engine=engine, say=say.append,
        )  # fmt: skip

    assert ensure() == base
    assert say == []  # it was there
    engine.untag(base)
    assert ensure() == base
    assert len(say) == 1
    assert engine.image(other) is not None


def test_images_and_tags(bench: Bench, tag: str) -> None:
    repository = tag.partition(":")[0]
    bench.engine.tag(bench.base, tag)
    assert tag in {name for image in bench.engine.images(repository) for name in image.tags}
    bench.engine.untag(tag)
    bench.engine.untag(tag)
    assert bench.engine.image(tag) is None
    assert bench.engine.images("imgbuild-no-such-repository") == ()


def test_an_archive_that_is_none(bench: Bench) -> None:
    with pytest.raises(ToolFailed, match="did not take"):
        bench.engine.load(iter([b"no tar" * 1000, b"at all" * 10_000]))


def test_a_script_runs_read_only_without_network_and_is_gone(bench: Bench) -> None:
    script = "echo out; echo err >&2; ls /sys/class/net; touch /x || echo y >/tmp/y\n"
    script += "cat /tmp/y; exit 3"
    done = bench.engine.run_script(bench.base, script, timeout_s=60)
    assert (done.returncode, done.stdout) == (3, b"out\nlo\ny\n")
    assert b"err" in done.stderr
    assert b"Read-only file system" in done.stderr
    assert ours() == []


def test_a_script_that_does_not_end_is_ended(bench: Bench) -> None:
    began = time.monotonic()
    done = bench.engine.run_script(bench.base, "echo begun; sleep 600", timeout_s=3)
    assert (done.stdout, done.ended) == (b"begun\n", "no end after 3 s")
    assert time.monotonic() - began < 15
    assert ours() == []


def test_a_script_that_floods_its_output_is_ended_at_once(bench: Bench) -> None:
    began = time.monotonic()
    done = bench.engine.run_script(
        bench.base, "while :; do cat /proc/kallsyms /usr/bin/sh; done", timeout_s=600, most=1 << 20
    )
    assert done.ended == "more than 1.0 MB of output"
    assert len(done.stdout) < 2 << 20
    assert time.monotonic() - began < 30
    assert ours() == []


def test_an_image_that_is_not_there_or_has_no_shell(bench: Bench, tag: str, tmp_path: Path) -> None:
    with pytest.raises(ToolFailed, match="no script can be run"):
        bench.engine.run_script("imgbuild-test:no-such-image", "true", timeout_s=60)
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY Dockerfile /\n")
    request = BuildRequest(tmp_path, {}, {}, {}, tag, bench.platform, tmp_path / "log")
    bench.engine.build(request, say=lambda _: None)
    with pytest.raises(ToolFailed, match="no script can be run"):
        bench.engine.run_script(tag, "true", timeout_s=60)
    with bench.engine.read_tree(tag, ["Dockerfile"]) as files:  # an image without a command
        assert [file.path for file, _ in files] == ["Dockerfile"]
    assert ours() == []


def test_reading_a_tree(each_store: Bench, tag: str, tmp_path: Path) -> None:
    made = (
        "mkdir -p /srv/real-1.2/sub && echo hi >/srv/real-1.2/sub/a && chmod() { :; }; "
        "ln /srv/real-1.2/sub/a /srv/real-1.2/b && ln -s real-1.2 /srv/real && "
        "ln -s ../nowhere /srv/real-1.2/dangling && ln -s nowhere /srv/broken && "
        "ln -s self /srv/self && ln -s round /srv/around && ln -s around /srv/round"
    )
    (tmp_path / "Dockerfile").write_text(f"FROM {each_store.base}\nVOLUME /data\nRUN {made}\n")
    request = BuildRequest(tmp_path, {}, {}, {}, tag, each_store.platform, tmp_path / "log")
    each_store.engine.build(request, say=lambda _: None)
    found: dict[str, tuple[ImageFile, bytes | None]] = {}
    nothing = ["no/such/root", "srv/broken", "srv/self", "srv/round/x", "srv/real/sub/a/x"]
    roots = [*nothing, "srv/real", "srv/real-1.2/sub/a", "lib64/libc.so.6"]
    with each_store.engine.read_tree(tag, roots) as files:
        for file, reader in files:
            found[file.path] = (file, reader.read() if reader else None)
    assert found["srv/real"][0].kind == "folder"
    assert found["srv/real/sub/a"] == (ImageFile("srv/real/sub/a", "file", 0o644, 3), b"hi\n") or (
        found["srv/real/sub/a"][0].kind == "hardlink"
    )
    linked = [found[f"srv/real/{n}"][0] for n in ("b", "sub/a")]
    assert sorted(f.kind for f in linked) == ["file", "hardlink"]
    assert {f.target for f in linked} - {""} <= {"srv/real/b", "srv/real/sub/a"}
    assert found["srv/real/dangling"][0].target == "../nowhere"
    assert found["srv/real-1.2/sub/a"][1] == b"hi\n"
    assert found["lib64/libc.so.6"][1][:4] == b"\x7fELF"  # type: ignore[index]
    assert not set(nothing) & set(found)
    assert ours() == []


@pytest.mark.parametrize("way", ["direct", "save"])
def test_reading_layers(
    each_store: Bench, tag: str, tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a later layer removes is in the one that wrote it; the base's own are left out."""
    monkeypatch.setenv("IMGBUILD_PUSH_SAVE", "1" if way == "save" else "0")
    (tmp_path / "Dockerfile").write_text(
        f"FROM {each_store.base}\nRUN mkdir -p /srv/a && echo key >/srv/key && echo 1 >/srv/a/x && "
        "ln /srv/key /srv/same\nRUN find /srv/key /srv/a -delete && mkdir /srv/a\n"
    )
    request = BuildRequest(tmp_path, {}, {}, {}, tag, each_store.platform, tmp_path / "log")
    each_store.engine.build(request, say=lambda _: None)
    (base, image) = (each_store.engine.image(name) for name in (each_store.base, tag))
    assert base is not None
    assert image is not None
    above = len(base.layers)
    found: dict[tuple[int, str], bytes | None] = {}
    with each_store.engine.read_layers(tag, above=above) as entries:
        for layer, file, content in entries:
            found[layer - above, file.path] = content.read() if content else None
    assert {b"key\n", None} == {found[0, "srv/key"], found[0, "srv/same"]}  # a hardlink
    assert found[0, "srv/a/x"] == b"1\n"
    assert (1, "srv/.wh.key") in found
    assert {(1, "srv/a/.wh.x"), (1, "srv/a/.wh..wh..opq")} & set(found)
    assert not any(path.startswith("usr/") for _, path in found)
    with each_store.engine.read_layers(tag, above=above) as entries:
        next(entries)  # and leave


def test_the_roots_alone(bench: Bench) -> None:
    with bench.engine.read_tree(bench.base, ["bin", "etc", "no/such"], deep=False) as files:
        assert [(file.path, file.kind) for file, _ in files] == [("bin", "link"), ("etc", "folder")]


def test_the_whole_image_and_leaving_early(bench: Bench) -> None:
    with bench.engine.read_tree(bench.base, [""]) as files:
        paths = {file.path for file, _ in files}
    assert {"", "usr/bin/sh", "bin", "etc/run"} <= paths
    with bench.engine.read_tree(bench.base, ["usr", "etc"]) as files:
        next(files)
    assert ours() == []


def test_reading_an_image_that_is_not_there(bench: Bench) -> None:
    with (
        pytest.raises(ToolFailed, match="No such image"),
        bench.engine.read_tree("imgbuild-test:no-such-image", ["usr"]),
    ):
        pass


def test_untag_leaves_what_a_container_uses(bench: Bench, tag: str, tmp_path: Path) -> None:
    bench.engine.relabel(
        bench.base, {"x": tag}, platform=bench.platform, epoch=EPOCH, tag=tag, log=tmp_path / "log"
    )
    container = docker_cli.run("create", "--name", f"imgbuild-used-{os.getpid()}", tag, "x")
    try:
        bench.engine.untag(tag)
        assert bench.engine.image(tag) is not None
    finally:
        docker_cli.run("rm", container.text.strip())


INTERRUPTED = """
from builder.tools.docker import DockerEngine
import sys
engine = DockerEngine()
if sys.argv[2] == "run":
    print("go", flush=True)
    engine.run_script(sys.argv[1], "sleep 600", timeout_s=600)
elif sys.argv[2] == "flood":
    print("go", flush=True)
    flood = "while :; do cat /usr/bin/sh; done"
    engine.run_script(sys.argv[1], flood, timeout_s=600, most=1 << 40)
else:
    with engine.read_tree(sys.argv[1], ["usr"]) as files:
        next(files)
        print("go", flush=True)
        import time; time.sleep(600)
"""


@pytest.mark.parametrize("what", ["run", "read", "flood"])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_what_was_interrupted(
    what: str, how: signal.Signals, bench: Bench
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, bench.base, what], cwd=ROOT, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as running:  # fmt: skip
        assert running.stdout
        assert running.stdout.readline() == b"go\n"
        time.sleep(0.5)
        running.send_signal(how)
        running.wait(30)
    if how is signal.SIGKILL:
        bench.engine.sweep()
    assert ours(running.pid) == []


def test_sweep_leaves_the_containers_of_others(bench: Bench) -> None:
    with bench.engine.read_tree(bench.base, ["usr"]) as files:
        next(files)
        bench.engine.sweep()
        assert len(ours()) == 1


def test_the_users_choice_of_an_engine_holds(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    for ask in (DockerEngine().describe, lambda: DockerEngine().image(bench.base)):
        with pytest.raises(docker_cli.EngineMissing, match="no Docker engine answers"):
            ask()


def test_labels_differ_but_nothing_else(each_store: Bench, tag: str, tmp_path: Path) -> None:
    before = each_store.engine.image(each_store.base)
    image = each_store.engine.relabel(
        each_store.base,
        {"a": "x y"},
        platform=each_store.platform,
        epoch=EPOCH,
        tag=tag,
        log=tmp_path / "log",
    )
    after = each_store.engine.image(image)
    assert before is not None
    assert after is not None
    assert after.labels == {"a": "x y"}
    assert replace(after, id="", tags=(), labels={}, size=0, env={}) == replace(
        before, id="", tags=(), labels={}, size=0, env={}
    )
