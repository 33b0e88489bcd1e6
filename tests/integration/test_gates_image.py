"""Each kind of gate against real images: one where all is well, and what breaks it.

The base is the demo's (scripts/demo-base); the libraries are made in the image by its own
compiler, the device code is that of tests/data/fatbin.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from builder.model.values import Verdict
from builder.steps.gates import Gate, LaneFacts, examine
from builder.steps.gates.command import Command
from builder.steps.gates.cuda_arch import CudaArch
from builder.steps.gates.file import File
from builder.steps.gates.link import Link
from builder.steps.gates.marker import Marker
from builder.steps.gates.package import Package
from builder.steps.gates.pkg_config import PkgConfig
from builder.steps.gates.python import Python
from builder.tools.docker import DockerEngine

ROOT = Path(__file__).parents[2]
BASE = ROOT / ".demo/base/rootfs.tar"
FATBINS = ROOT / "tests/data/fatbin"
TARGETS = (
    "good", "no-link", "no-load", "wrong", "bare", "empty", "no-timeout", "liar", "flood",
)  # fmt: skip

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(not BASE.is_file(), reason="no base: scripts/demo-base"),
]

DOCKERFILE = r"""
FROM scratch AS base
ADD rootfs.tar /

FROM base AS good
COPY fatbin /tmp/fatbin
WORKDIR /work
RUN <<'SH'
set -eu
shared() { out=$1; shift; mkdir -p "$(dirname "$out")"; gcc -shared -fPIC -o "$out" "$@"; }

cuda=/usr/local/cuda/lib64
echo 'int cudaRuntimeGetVersion(int *v) { *v = 13000; return 0; }' >cudart.c
shared $cuda/libcudart.so.13 -Wl,-soname,libcudart.so.13 cudart.c
ln -s libcudart.so.13 $cuda/libcudart.so
echo $cuda >/etc/ld.so.conf.d/cuda.conf
ldconfig

echo 'int tiny(void); int tiny(void) { return 1; }' >tiny.c
shared /opt/tiny/lib/libtiny.so.2 -Wl,-soname,libtiny.so.2 tiny.c
ln -s libtiny.so.2 /opt/tiny/lib/libtiny.so
mkdir -p /opt/tiny/include /usr/lib/pkgconfig
echo 'static inline int tiny_inline(void) { return TINY; }' >/opt/tiny/include/tiny.h
printf '%s\n' 'Name: tiny' 'Description: x' 'Version: 2.5' 'Cflags: -I/opt/tiny/include -DTINY=2' \
    'Libs: -L/opt/tiny/lib -ltiny' >/usr/lib/pkgconfig/tiny.pc
echo /opt/tiny/lib >/etc/ld.so.conf.d/tiny.conf
ldconfig

mkdir -p /opt/hid /usr/lib/only
echo 'int hid(void) { return 1; }' >hid.c
shared /opt/hid/libhid.so.1 -Wl,-soname,libhid.so.1 hid.c
echo 'GROUP ( AS_NEEDED ( /opt/hid/libhid.so.1 ) )' >/usr/lib/libhid.so
gcc -c hid.c && ar rcs /usr/lib/libonly.a hid.o
echo 'int part(void); int whole(void) { return part(); }' >whole.c
shared /usr/lib/libwhole.so whole.c
echo 'int deep(void) { return 2; }' >deep.c
shared /opt/deep/libdeep.so.1 -Wl,-soname,libdeep.so.1 deep.c
echo 'int deep(void); int high(void) { return deep(); }' >high.c
shared /usr/lib/libhigh.so high.c /opt/deep/libdeep.so.1

device() { # device SO FATBIN
    printf '.section .nv_fatbin,"a"\n.balign 8\n.incbin "/tmp/fatbin/%s.nv_fatbin"\n' "$2" >x.s
    shared "$1" x.s
}
device /opt/kernels/a.so sm_121a
device /opt/kernels/b.so zstd
device /opt/other/c.so sm_120a
device /usr/lib/gates/d.so several
device /opt/stub/e.so stub
ln /opt/kernels/a.so /opt/kernels/hard.so
ln -s a.so /opt/kernels/soft.so
mkdir /opt/round
ln -s loop /opt/round/loop
shared /opt/kernels/host.so tiny.c

site=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "$site/demo_dist-1.2.0+cu130.dist-info"
printf 'Metadata-Version: 2.1\nName: demo-dist\nVersion: 1.2.0+cu130\n' \
    >"$site/demo_dist-1.2.0+cu130.dist-info/METADATA"
echo 'print("noise"); LOADED = True' >"$site/demo_mod.py"
echo 'import ctypes; ctypes.CDLL("libcuda.so.1")' >"$site/demo_driver.py"
echo 'raise RuntimeError("imported from the working directory")' >/work/demo_mod.py
chmod 755 "$site/demo_mod.py"
SH
ENV LIBRARY_PATH=/usr/local/cuda/lib64

FROM good AS no-link
ENV LIBRARY_PATH=

FROM good AS no-load
RUN rm /etc/ld.so.conf.d/cuda.conf /etc/ld.so.conf.d/tiny.conf && ldconfig

FROM good AS wrong
RUN rm /opt/tiny/include/tiny.h && sed -i 's/install ok installed/deinstall ok config-files/' \
    /var/lib/dpkg/status
ENV CC=/opt/none/cc

FROM base AS bare
RUN rm -rf /usr/bin/*gcc* /usr/bin/*g++* /usr/bin/cc /usr/bin/c++ /usr/bin/python3* \
    /usr/bin/pkg* /etc/alternatives/c++ /etc/alternatives/cc /var/lib/dpkg/status

FROM base AS no-timeout
RUN rm /usr/bin/timeout

FROM base AS liar
RUN printf '#!/bin/sh\nexit 0\n' >/usr/bin/timeout

FROM base AS flood
RUN rm /usr/bin/sh && printf '#!/bin/bash\nexec yes\n' >/usr/bin/sh && chmod 755 /usr/bin/sh

FROM scratch AS empty
COPY --from=good /opt/kernels/a.so /opt/a.so
CMD ["/opt/a.so"]
"""


@dataclass(frozen=True)
class Images:
    names: dict[str, str]

    def look(self, target: str, *gates: Gate) -> tuple[Verdict, ...]:
        facts = LaneFacts("demo", "12.1a")
        return examine(gates, self.names[target], engine=DockerEngine(), facts=facts)

    def one(self, target: str, gate: Gate) -> Verdict:
        (verdict,) = self.look(target, gate)
        return verdict


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    context = tmp_path_factory.mktemp("gates")
    (context / "Dockerfile").write_text(DOCKERFILE)
    shutil.copytree(FATBINS, context / "fatbin")
    (context / "rootfs.tar").hardlink_to(BASE)
    names = {target: f"imgbuild-test-gates-{os.getpid()}:{target}" for target in TARGETS}
    for target, name in names.items():
        command = ["docker", "buildx", "build", "--quiet", "--target", target, "--tag", name, "."]
        done = subprocess.run(command, cwd=context, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
    yield Images(names)
    subprocess.run(["docker", "rmi", "--force", *names.values()], capture_output=True, check=True)


GOOD: tuple[tuple[Gate, tuple[str, ...]], ...] = (
    (Marker("cudaRuntimeGetVersion", image_file="/usr/local/**/libcudart.so.*"),
     ("holds 'cudaRuntimeGetVersion'",)),
    (Package("g++"), ("4:",)),
    (File("/opt/tiny/include/tiny.h", mode="644", contains="tiny_inline"), ("53 bytes, mode 644",)),
    (File("/lib/gates/d.so"), ("bytes, mode 755",)),
    (File("/root/.cache", absent=True), ("is not there",)),
    (File("/opt/round/loop", absent=True), ("is not there",)),
    (Python("demo_dist", version="==1.2.0+cu130"), ("1.2.0+cu130",)),
    (Python("Demo.Dist", "demo_mod", ">=1.2"), ("1.2.0+cu130", "imports in ")),
    (Link(("cudart",)), ("links without -L", "loads and runs")),
    (Link(("cudart", "m"), headers=("math.h",)),
     ("links without -L", "loads and runs", "links without -L", "loads and runs")),
    (Link(("pthread",)), ("links without -L", "libpthread.a is empty")),
    (Link(("c", "gcc_s")), ("links without -L", "loads and runs") * 2),
    (PkgConfig("tiny", ">=2.3", ("tiny.h", "int x(void); int x(void) { return tiny_inline(); }")),
     ("2.5", "compiles and loads, needs libtiny.so.2")),
    (CudaArch("/opt/kernels/**/*.so", ("sm_121a",), forbid=("sm_120a",)),
     ("3 files: sm_121a, and 1 file without device code",)),
    (CudaArch("lib/gates/*.so", ("sm_121a", "sm_120", "compute_120")),
     ("1 file: sm_120, compute_120, sm_121a",)),
    (Command(("sh", "-c", "pwd; echo $LIBRARY_PATH"), stdout_contains="/work\n",
             stdout_matches="^/usr/local/cuda/lib64$"), ("code 0 in ",)),
)  # fmt: skip


@pytest.mark.parametrize(
    ("gate", "says"), GOOD, ids=[f"{gate.kind}-{i}" for i, (gate, _) in enumerate(GOOD)]
)
def test_passes(images: Images, gate: Gate, says: tuple[str, ...]) -> None:
    verdicts = images.look("good", gate)
    assert [v.passed for v in verdicts] == [True] * len(says), verdicts
    for verdict, part in zip(verdicts, says, strict=True):
        assert part in verdict.seen


def test_all_of_them_in_one_start(images: Images) -> None:
    gates = [gate for gate, _ in GOOD]
    started = time.monotonic()
    verdicts = images.look("good", *gates, CudaArch("**/*.so", ("sm_121a",), exclude=("opt/**",)))
    took = time.monotonic() - started
    assert [v for v in verdicts if not v.passed] == []
    assert took < 20
    left = ["docker", "ps", "--all", "--quiet", "--filter", f"ancestor={images.names['good']}"]
    assert subprocess.run(left, capture_output=True, text=True, check=True).stdout == ""


def failing(
    images: Images, target: str, gate: Gate, expected: str, hint: str, about: str = ""
) -> None:
    failed = [verdict for verdict in images.look(target, gate) if not verdict.passed]
    assert len(failed) == 1, failed
    assert f"{failed[0].gate}: {failed[0].seen}".startswith(expected)
    assert hint in failed[0].hint
    assert about in failed[0].about


@pytest.mark.parametrize(
    ("target", "gate", "expected", "hint"),
    [
        ("good", Marker("PDL", image_file="/opt/tiny/**/*.h"), "marker: does not hold 'PDL'", ""),
        ("good", Marker("x", image_file="/opt/no/*"), "marker: no such file in the image", "**"),
        ("good", Package("liburing-dev"), "package: not installed", "the Dockerfile's last stage"),
        ("wrong", Package("bash"), "package: its dpkg status is 'deinstall ok config-files'", ""),
        ("bare", Package("bash"), "package: could not look: the image has no dpkg database", ""),
        ("good", File("/opt/none"), "file: no such file in the image", "COPY"),
        ("good", File("/opt/round/loop"), "file: no such file in the image", "COPY"),
        ("good", File("/opt/kernels/a.so", mode="644"), "file: its mode is 755, not 644", "chmod"),
        ("good", File("/opt/kernels/a.so", "sha256:" + "0" * 64), "file: its content is sha256:",
         "write this digest"),
        ("good", File("/opt/kernels", absent=True), "file: is there: a folder, mode 755",
         "a later RUN rm leaves it"),
        ("good", Python("demo-dist", version="==1.2.0+cpu"), "python: has version 1.2.0+cu130",
         "A local part"),
        ("good", Python("demo-dis"), "python: the image has no such distribution (it has demo-dist",
         "pip install it in the last stage"),
        ("good", Python(import_="demo_none"), "python: ModuleNotFoundError: No module named 'demo_",
         "what it needs is missing"),
        ("good", Python(import_="demo_driver"), "python: OSError: libcuda.so.1: cannot open shared",
         "it loads the driver when it is imported"),
        ("good", Python("pip", python="/opt/venv/bin/python"),
         "python: could not look: the image has no /opt/venv/bin/python", "name the interpreter"),
        ("bare", Python("pip"), "python: could not look: the image has no python3", ""),
        ("no-link", Link(("cudart",)), "link: /usr/bin/ld: cannot find -lcudart", "LIBRARY_PATH"),
        ("good", Link(("uring",)), "link: /usr/bin/ld: cannot find -luring",
         "lock its -dev package ([debs.liburing-dev]"),
        ("no-load", Link(("cudart",)),
         "load: code 127: ./m: error while loading shared libraries: libcudart.so.13: cannot open",
         "LIBRARY_PATH does not help here"),
        ("good", Link(("m",), headers=("cuda_runtime.h",)), "link: m.c:1:10: fatal error: cuda_run",
         "a header is missing"),
        ("good", Link(("hid",)),
         "load: code 127: ./m: error while loading shared libraries: libhid.so.1: cannot open",
         "ld.so.conf.d"),
        ("good", Link(("only",)), "load: nothing to load: there is only an archive,", "libonly"),
        ("good", Link(("whole",)), "link: ", "libwhole needs symbols that are in no library"),
        ("good", Link(("high",)), "link: ", "libhigh needs another library, whose folder"),
        ("bare", Link(("cudart",)), "link: the image has no C compiler", "gcc and libc6-dev"),
        ("good", PkgConfig("liburing"), "pkg-config: unknown to pkg-config: Package liburing was",
         "liburing-dev"),
        ("good", PkgConfig("tiny", ">=3"), "pkg-config: has version 2.5, not >=3", ""),
        ("wrong", PkgConfig("tiny", compile="tiny.h"),
         "compile: m.c:1:10: fatal error: tiny.h: No such file", "a header or library"),
        ("good", PkgConfig("tiny", compile="int unused = 1; static int y;"),
         "compile: m.c:1:28: error: 'y' defined but not used", ""),
        ("no-load", PkgConfig("tiny", compile="tiny.h"), "compile: compiles, but does not load: ",
         "/etc/ld.so.conf.d"),
        ("bare", PkgConfig("tiny"), "pkg-config: the image has no pkg-config", "pkg-config"),
        ("good", CudaArch("/opt/other/*.so", ("sm_121a",)), "cuda-arch: has sm_120a, not sm_121a",
         "TORCH_CUDA_ARCH_LIST (12.1a in the lane)"),
        ("good", CudaArch("/opt/stub/*", ("sm_121a",)),
         "cuda-arch: device code in 0 of 1 files that match", "configure log"),
        ("good", CudaArch("/opt/none/*.so", ("sm_121a",)), "cuda-arch: no file matches", "root"),
        ("good", Command(("none", "--version")), "command: ended with code 127, not 0", "PATH"),
        ("good", Command("touch /x"), "command: ended with code 1, not 0: touch: cannot touch '/x'",
         ""),
        ("good", Command("sleep 9", timeout_s=1), "command: could not look: no end after 1 s",
         "timeout-s"),
        ("empty", Command("true"), "command: could not look: the image has no sh", "shell"),
        ("empty", Link(("cudart",)), "link: could not look: the image has no sh", "shell"),
        ("empty", Package("bash"), "package: could not look: the image has no dpkg database", ""),
    ],
)  # fmt: skip
def test_fails(images: Images, target: str, gate: Gate, expected: str, hint: str) -> None:
    failing(images, target, gate, expected, hint)


def test_a_timeout_that_runs_nothing(images: Images) -> None:
    failing(images, "liar", Command("exit 3"), "command: ended with code 3, not 0", "")
    failing(images, "liar", Command("true", stdout_contains="x"), "command: its output", "")


def test_without_timeout_one_that_hangs_leaves_the_answers_before_it(images: Images) -> None:
    hangs = Command("sleep 600", timeout_s=1)
    good, hung, after = images.look("no-timeout", Command("echo a"), hangs, Command("echo b"))
    assert good.passed
    says = "could not look: the probes were ended at command sleep 600: no end after "
    assert hung.seen.startswith(says)
    assert after.seen.startswith(says)
    assert "timeout" in hung.hint


def test_an_image_whose_sh_never_stops_printing(images: Images) -> None:
    began = time.monotonic()
    failing(
        images, "flood", Command("true", timeout_s=200),
        "command: could not look: the probes were ended at command true: more than 3.1 MB", "sh",
    )  # fmt: skip
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("path", ["etc/hosts", ".dockerenv", "etc/mtab", "dev/shm", "sys"])
def test_what_the_engine_makes_in_each_container(images: Images, path: str) -> None:
    """`file` refuses these paths, since an image without any file seems to have them."""
    with DockerEngine().read_tree(images.names["empty"], [""]) as files:
        assert path in {file.path for file, _ in files}
    assert any("the engine makes it" in fault.what for fault in File(path).faults())


def test_link_and_load_are_apart(images: Images) -> None:
    assert [(v.gate, v.passed) for v in images.look("no-load", Link(("cudart",)))] == [
        ("link", True), ("load", False),
    ]  # fmt: skip
    assert [(v.gate, v.passed) for v in images.look("no-link", Link(("cudart",)))] == [
        ("link", False)
    ]


def test_a_library_of_the_driver_is_only_linked(images: Images) -> None:
    verdict = images.one("good", Link(("cuda",)))
    assert (verdict.gate, verdict.passed) == ("link", False)
    assert "cannot find -lcuda" in verdict.seen


def test_an_image_without_sh_still_shows_its_files(images: Images) -> None:
    verdict = images.one("empty", CudaArch("**/*.so", ("sm_121a",)))
    assert (verdict.passed, verdict.seen) == (True, "1 file: sm_121a")


def test_an_image_that_is_not_there() -> None:
    verdict, file = examine(
        (Command("true"), File("/x")), "imgbuild-none:x", engine=DockerEngine(), facts=LaneFacts()
    )
    assert verdict.seen.startswith("could not look: the image cannot be run: ")
    assert file.seen.startswith("could not look: the image's files cannot be read: ")
