"""The frame: one container start, one read; who could not look has failed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from builder.errors import Place, ToolFailed, ToolMissing
from builder.model.values import BuiltImage, ImageFile, ImageInfo, ScriptResult, Verdict
from builder.steps.gates import Gate, GatesFailed, LaneFacts, examine, judge
from builder.steps.gates.command import Command
from builder.steps.gates.cuda_arch import CudaArch
from builder.steps.gates.file import File
from builder.steps.gates.marker import Marker
from builder.steps.gates.package import Package
from tests.unit.gates.fake_image import FakeImage
from tests.unit.gates.test_fatbin import DATA

NO_FACTS = LaneFacts()
STATUS = b"""\
Package: bash
Status: install ok installed
Version: 5.2.15-2+b8
Description: GNU Bourne Again SHell
 Version: of nothing

Package: half
Status: install ok half-configured
Version: 1

Package: liburing2
Status: install ok installed
Version: 2.3-3

Package: foreign
Status: install ok installed
Architecture: i386
Version: 1

Package: foreign
Status: deinstall ok config-files
Architecture: amd64
Version: 1

Package: both
Status: install ok installed
Architecture: amd64
Version: 2

Package: both
Status: deinstall ok config-files
Architecture: arm64
Version: 1

Package: other
Status: install ok installed
Architecture: arm64
Version: 1

Package: data
Status: install ok installed
Architecture: all
Version: 3
"""
MIXED = (DATA / "sm_121a.nv_fatbin").read_bytes() + (DATA / "sm_120a.nv_fatbin").read_bytes()
FILES = {
    "opt/a.so": (DATA / "sm_121a.nv_fatbin").read_bytes(),
    "opt/b.so": (DATA / "sm_120a.nv_fatbin").read_bytes(),
    "opt/c.so": b"no device code",
    "opt/ptx.so": (DATA / "ptx_120.nv_fatbin").read_bytes(),
    "opt/stub.so": (DATA / "stub.nv_fatbin").read_bytes(),
    "opt/mixed.so": MIXED,
    "opt/bad.so": b"\x50\xed\x55\xba" + bytes(8),
    "opt/dir": None,
    "var/lib/dpkg/status": STATUS,
}


INFO = ImageInfo("sha256:1", (), {}, (), {}, "amd64", 1, "")


def seen(image: FakeImage, *gates: Gate, facts: LaneFacts = NO_FACTS) -> tuple[Verdict, ...]:
    image.info = image.info or INFO
    return examine(gates, "image", engine=image, facts=facts)  # type: ignore[arg-type]


def one(image: FakeImage, gate: Gate) -> Verdict:
    (verdict,) = seen(image, gate)
    return verdict


def test_what_two_gates_say_alike_is_said_once() -> None:
    gates = (Package("none"), Package("none", version="1*"), Package("bash"))
    failed = [v for v in seen(FakeImage(FILES), *gates) if not v.passed]
    assert [v.about for v in failed] == ["none"]


def test_a_failed_gate_names_its_line(tmp_path: Path) -> None:
    lane = tmp_path / "x.toml"
    lane.write_text('a = 1\n[[gates]]\nkind = "package"\n[[gates]]\nkind = "package"\n')
    good, bad = Package("bash"), Package("none")
    places = {good: Place(lane, key=("gates", 0)), bad: Place(lane, key=("gates", 1))}
    verdicts = seen(FakeImage(FILES), good, bad, facts=LaneFacts(places=places))
    assert [(v.file, v.line) for v in verdicts] == [("", None), (str(lane), 4)]
    with pytest.raises(GatesFailed) as failed:
        judge(BuiltImage("sha256:1", "x:1", Path("log"), ()), verdicts)
    assert failed.value.findings[0].place == Place(lane, 4)


def test_all_probes_in_one_script_and_all_files_in_one_read() -> None:
    image = FakeImage(FILES)
    gates = (
        Command("echo a", stdout_contains="a"), Package("bash"), Command(("false",)),
        File("/opt/c.so"), Command("echo a", stdout_contains="a"),
    )  # fmt: skip
    verdicts = seen(image, *gates)
    assert [(v.gate, v.about, v.passed) for v in verdicts] == [
        ("command", "echo a", True), ("package", "bash", True), ("command", "false", False),
        ("file", "/opt/c.so", True),
    ]  # fmt: skip
    assert len(image.scripts) == len(image.reads) == 1


def test_no_gates() -> None:
    image = FakeImage(FILES)
    only_source = Marker("x", source="s", file="f")
    for gates in ((), (only_source,)):
        (verdict,) = seen(image, *gates)
        assert (verdict.passed, verdict.seen) == (True, "no gate asks for anything in the image")
    assert image.scripts == image.reads == []


@pytest.mark.parametrize(
    ("ends", "says"),
    [
        (ToolFailed("no script", detail='exec: "sh": executable file not found in $PATH'),
         "could not look: the image has no sh"),
        (ToolFailed("no end after 30 s"), "could not look: the image cannot be run: no end after"),
        (ScriptResult(97, b"", b"mkdir: read-only file system"),
         "could not look: the probes broke off with code 97: mkdir: read-only file system"),
    ],
)  # fmt: skip
def test_who_could_not_look_has_failed(ends: ToolFailed | ScriptResult, says: str) -> None:
    image = FakeImage(FILES, script_ends=ends)
    probe, file = seen(image, Command("true"), File("/opt/c.so"))
    assert not probe.passed
    assert probe.seen.startswith(says)
    assert file.passed


@pytest.mark.parametrize(
    ("ended", "hint"), [("no end after 50 s", "timeout"), ("more than 3.1 MB of output", "sh")]
)
def test_answers_before_the_probe_that_did_not_end_count(ended: str, hint: str) -> None:
    class Hangs(FakeImage):
        def run_script(self, image: str, script: str, **limits: float) -> ScriptResult:
            done = super().run_script(image, script, **limits)  # type: ignore[arg-type]
            head, _, _ = done.stdout.partition(b"and this one hangs")
            return ScriptResult(-1, head, b"", ended)

    gates = (Command("echo a"), Command("exit 1"), Command("echo and this one hangs"))
    good, bad, hung, after = seen(Hangs(), *gates, Command("true"))
    assert (good.passed, good.seen) == (True, "code 0 in 0.0 s")
    assert bad.seen == "ended with code 1, not 0: it printed nothing"
    says = f"could not look: the probes were ended at command echo and this one hangs: {ended}"
    assert (hung.seen, after.seen) == (says, says)
    assert hint in hung.hint


@pytest.mark.parametrize("path", ["/etc/hosts", ".dockerenv", "/etc/resolv.conf", "etc/mtab"])
def test_what_the_engine_makes_is_no_question(path: str) -> None:
    for gate in (File(path, absent=True), File(path), File(path, mode="644")):
        assert [fault.key for fault in gate.faults()] == ["path"]
    assert [*File(path, contains="node1").faults()] == []
    assert [*File("/etc/hosts.allow", absent=True).faults()] == []


def test_an_engine_that_is_missing_is_no_verdict() -> None:
    with pytest.raises(ToolMissing):
        seen(FakeImage(FILES, script_ends=ToolMissing("no docker")), Command("true"))


def test_files_that_cannot_be_read() -> None:
    class Broken(FakeImage):
        def _below(self, root: str) -> object:  # type: ignore[override]
            raise ToolFailed("docker cp failed")

    command, file = seen(Broken(FILES), Command("true"), File("/opt/c.so"))
    assert command.passed
    assert (file.passed, file.seen) == (
        False, "could not look: the image's files cannot be read: docker cp failed",
    )  # fmt: skip


def test_a_probe_that_does_not_end() -> None:
    first, second = seen(FakeImage(), Command("echo x; sleep 9", timeout_s=1), Command("true"))
    assert (first.passed, first.seen) == (False, "could not look: no end after 1 s")
    assert first.detail.startswith("x\n")
    assert second.passed


@pytest.mark.parametrize(
    ("gate", "says"),
    [
        (Command("echo no >&2; exit 3"), "ended with code 3, not 0: no"),
        (Command("echo a b", stdout_contains=("a", "c")), "its output does not hold 'c': a b"),
        (Command("echo a", stdout_matches="^b"), "its output does not match '^b': a"),
        (Command("imgbuild-none"), "ended with code 127, not 0: sh: 1: imgbuild-none: not found"),
        (Command("printf '\\033]52;c;x\\a'; exit 1"), "ended with code 1, not 0: �]52;c;x�"),
        (Package("liburing-dev"), "not installed (the image has liburing2)"),
        (Package("half"), "its dpkg status is 'install ok half-configured'"),
        (Package("foreign"), "its dpkg status is 'deinstall ok config-files'"),
        (Package("other"), "is there for arm64, and the image is for amd64"),
        (Package("both", "1"), "has version 2, not 1"),
        (Package("bash", "5.3*"), "has version 5.2.15-2+b8, not 5.3*"),
        (File("/opt/c.so", absent=True), "is there: 14 bytes, mode 644"),
        (File("/opt/c.so", mode="755"), "its mode is 644, not 755"),
        (File("/opt/c.so", contains=("no", "kernel")), "does not hold 'kernel'"),
        (File("/opt/none"), "no such file in the image"),
        (File("/opt/dir", contains="x"), "is no regular file"),
        (CudaArch("opt/b.so", ("sm_121a",)), "has sm_120a, not sm_121a"),
        (CudaArch("opt/a.so", (), forbid=("sm_121a",)), "has sm_121a, which is forbidden"),
        (CudaArch("opt/ptx.so", ("sm_121a",)), "has compute_120, not sm_121a"),
        (CudaArch("opt/[cs]*.so", ("sm_121a",)), "device code in 0 of 2 files that match"),
        (CudaArch("opt/x*.so", ("sm_121a",)), "no file matches"),
        (CudaArch("opt/mixed.so", ("sm_121a",)),
         "1 of 2 objects in it has sm_120a, not sm_121a, such as that of _Z5scalefPf"),
        (CudaArch("opt/mixed.so", ("sm_90a",), instead=("sm_120a", "sm_121a")),
         "has sm_120a, sm_121a, not sm_90a"),
        (CudaArch("opt/a.so", ("sm_121a",), min_files=2),
         "device code in 1 of 1 files that match; at least 2 must have some"),
        (CudaArch("opt/bad.so", ("sm_121a",)), "cannot be read: a fatbin is cut off at byte 0"),
        (CudaArch("opt/*.so", ("sm_121a",), exclude=("opt/*",)), "no file matches"),
    ],
)  # fmt: skip
def test_failed(gate: Gate, says: str) -> None:
    verdict = one(FakeImage(FILES), gate)
    assert (verdict.passed, verdict.seen) == (False, says)
    assert verdict.gate == gate.kind


@pytest.mark.parametrize(
    ("gate", "says"),
    [
        (Command(("printf", "%s", "a b"), stdout_contains="a b"), "code 0 in 0.0 s"),
        (Command("exit 4", expect_code=4), "code 4 in 0.0 s"),
        (Package("bash", "5.2.15*"), "5.2.15-2+b8"),
        (Package("both"), "2"),
        (Package("data"), "3"),
        (File("/opt/none", absent=True), "is not there"),
        (File("/opt/dir"), "a folder, mode 755"),
        (CudaArch("opt/[ac].so", ("sm_121a",)), "1 file: sm_121a, and 1 file without device code"),
        (CudaArch("opt/ptx.so", ("sm_121a",), allow_ptx=True), "1 file: compute_120"),
        (CudaArch("opt/mixed.so", ("sm_121a",), instead=("sm_120a",)), "1 file: sm_120a, sm_121a"),
        (CudaArch(("opt/a.so", "opt/b.so"), ("sm_121a",), exclude=("**/b.so",)), "1 file: sm_121a"),
    ],
)  # fmt: skip
def test_passed(gate: Gate, says: str) -> None:
    verdict = one(FakeImage(FILES), gate)
    seen_soon = re.sub(r"\d+\.\d s$", "0.0 s", verdict.seen)  # however busy the machine is
    assert (verdict.passed, seen_soon) == (True, says)


def test_each_file_that_fails_has_its_verdict() -> None:
    facts = LaneFacts("demo", "12.1a")
    gate = CudaArch("opt/[ab]*.so", ("sm_121a",))
    verdicts = seen(FakeImage(FILES), gate, facts=facts)
    assert [(v.about, v.passed) for v in verdicts] == [("opt/b.so", False), ("opt/bad.so", False)]
    assert "sm_120a is near, but another target" in verdicts[0].hint
    assert "TORCH_CUDA_ARCH_LIST (12.1a in the lane)" in verdicts[0].hint


def test_what_is_excluded_is_not_read_and_the_rest_not_without_bound() -> None:
    gate = CudaArch("opt/*.so", ("sm_121a",), exclude=("opt/x.so",))
    (search,) = gate.searches()
    chunk = b"\x7fELF" + bytes(1 << 20)
    for path, size in (("opt/x.so", 9 << 20), ("opt/y.so", 3 << 30)):
        reading = search.start(ImageFile(path, "file", 0o644, size))
        assert not reading.feed(chunk)
        if path == "opt/x.so":
            assert reading.result() is None
        else:
            assert "3221225472 bytes are more than" in reading.result()


def test_no_dpkg() -> None:
    verdict = one(FakeImage({"x": b""}), Package("bash"))
    assert (verdict.passed, verdict.seen) == (
        False, "could not look: the image has no dpkg database",
    )  # fmt: skip


def test_distroless_keeps_a_file_for_each_package() -> None:
    image = FakeImage({"var/lib/dpkg/status.d/libc6": b"Package: libc6\nVersion: 2.36-9\n"})
    assert one(image, Package("libc6")).seen == "2.36-9"


BUILT = BuiltImage("sha256:1", "imgbuild-candidate:1", Path("/var/log/x.log"), ())


def test_all_passed() -> None:
    verdicts = (Verdict("file", "/x", True, "is there"),)
    assert judge(BUILT, verdicts).verdicts == verdicts


def test_failed_verdicts_are_one_error() -> None:
    verdicts = (
        Verdict("link", "cudart", True, "links"),
        Verdict("load", "cudart", False, "not found", "ldconfig", "ld.so: …"),
        Verdict("file", "/x", False, "no such file in the image", "COPY"),
    )
    with pytest.raises(GatesFailed) as error:
        judge(BUILT, verdicts)
    assert (error.value.code, error.value.exit_code) == ("gate-failed", 7)
    assert [(f.code, f.what, f.hint, f.detail) for f in error.value.findings[:2]] == [
        ("gate-load", "load cudart: not found", "ldconfig", "ld.so: …"),
        ("gate-file", "file /x: no such file in the image", "COPY", ""),
    ]
    last = error.value.findings[-1]
    assert (last.code, last.level) == ("gate-candidate", "warning")
    assert "imgbuild-candidate:1" in last.what
    assert "/var/log/x.log" in last.what
