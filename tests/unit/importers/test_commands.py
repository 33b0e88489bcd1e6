"""The commands as a person types them, and what verify-lock says of a lane without a lock."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from builder.cli import app
from tests.unit.importers.files import INTEGRATION, R31

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Run:
    (tmp_path / "locks").mkdir()
    (tmp_path / "docker-images/demo").mkdir(parents=True)
    (tmp_path / "docker-images/demo/Dockerfile").write_text("FROM scratch\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IMGBUILD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("IMGBUILD_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)

    def command(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["imgbuild", *words])
        with pytest.raises(SystemExit) as ended:
            app.main()
        out, err = capsysbinary.readouterr()
        return int(ended.value.code or 0), out.decode(), err.decode()

    return command


def test_import_export_and_verify(run: Run, tmp_path: Path) -> None:
    code, out, err = run("import", str(R31), "--lane", "r31", "--image", "glm53-jovian")
    assert (code, err) == (0, "")
    assert "wrote locks/r31.toml\n" in out
    assert "still to be resolved:" in out
    code, out, err = run("export", "r31", "--format", "source-lock")
    assert (code, out.encode(), err) == (0, R31.read_bytes(), "")
    code, _, err = run("verify-lock", "--offline")
    assert code == 3
    for line in (
        "error[lock-missing]: r31 has no lock yet",
        "error[image-missing]: image: there is no docker-images/glm53-jovian/Dockerfile",
        "  | sources.flashinfer lacks: tree, content digest, commit time",
        "  | sources.vllm lacks: content digest, commit time",
        "  hint: resolve it: imgbuild lock r31",
        "error[patch-set]: patches/flashkda/a9537532cf23/series is not there",
    ):
        assert line in err.splitlines()
    code, _, err = run("lock", "r31")
    assert code == 3
    assert "error[image-missing]" in err


def test_what_a_lane_by_hand_lacks(run: Run, tmp_path: Path) -> None:
    lane = Path(__file__).parents[3] / "locks/r36-ds41.toml"
    (tmp_path / "locks/r36-ds41.toml").write_bytes(lane.read_bytes())
    code, _, err = run("verify-lock", "r36-ds41", "--offline")
    assert code == 3
    lacking = [line.strip(" |") for line in err.splitlines() if " lacks: " in line]
    assert [line.split(" lacks")[0] for line in lacking] == [
        "sources.b12x", "sources.deepgemm", "sources.flashinfer", "sources.flashkda",
        "sources.lmcache", "sources.vllm", "deps.vllm-cmake", "base.runtime",
        "debs.liburing-dev", "debs.liburing2",
    ]  # fmt: skip
    assert err.count("imgbuild lock r36-ds41") == 1  # one finding, one command
    assert "head of pull request 738, head of pull request 740" in lacking[5]


def test_json(run: Run, tmp_path: Path) -> None:
    file = INTEGRATION / "gilded-gnosis-v20-r34.b12x.integration.lock.json"
    code, out, _ = run("import", str(file), "--lane", "x", "--json")
    report = json.loads(out)
    assert (code, report["ok"], report["formats"]) == (0, True, {file.name: "integration-lock"})
    assert {f["code"] for f in report["open"]} == {"image-missing", "unresolved"}
    code, out, _ = run("export", "x", "--format", "integration-lock", "--json")
    [document] = json.loads(out)["documents"]
    assert document["text"] == file.read_text()
    (tmp_path / "bad").write_text("format=local-inference-source-lock/v1\nx\n")
    code, out, err = run("import", "bad", "--lane", "y", "--json")
    assert (code, json.loads(out)["findings"][0]["line"]) == (3, 2)
    assert "  --> bad:2" in err


def test_all_documents_of_a_lane(run: Run, tmp_path: Path) -> None:
    files = [
        str(INTEGRATION / f"gilded-gnosis-v20-r31.{c}.integration.lock.json")
        for c in ("b12x", "vllm")
    ]
    run("import", *files, "--lane", "x")
    code, _, err = run("export", "x", "--format", "integration-lock")
    assert (code, "-o FOLDER for all of them" in err) == (2, True)
    code, _, _ = run("export", "x", "--format", "integration-lock", "-o", "out")
    assert code == 0
    for file in map(Path, files):
        assert (tmp_path / "out" / file.name).read_bytes() == file.read_bytes()


def test_a_bad_url_option(run: Run) -> None:
    code, _, err = run("import", str(R31), "--lane", "x", "--url", "vllm")
    assert (code, "SOURCE=URL is expected" in err) == (2, True)


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--lane", "A B"), 2, "--lane: 'A B' is no lane's name"),
        (("--lane", "-x"), 2, "--lane: '-x' is no lane's name"),
        (("--image", "../../etc"), 3, "hint: correct --image"),
        (("--platform", "linux/riscv64"), 3, "hint: correct --platform"),
        (("--cuda-arch-list", '12.1"x'), 3, "hint: correct --cuda-arch-list"),
        (("--url", "vllm=https://u:secret@x/y"), 3, "hint: correct --url vllm=…"),
        (("--url", "vllm=https://x/y?token=secret"), 3, "hint: correct --url vllm=…"),
        (("--url", "vlm=https://x/y"), 3, "hint: did you mean vllm?"),
        (("--url", "nope=https://x/y"), 3, "hint: sources of these files: "),
        (("--url", "vllm=https://x/y", "--url", "vllm=https://x/z"), 2, "names 'vllm' twice"),
        (("--url", "https://u:secret@x/y"), 2, "SOURCE=URL is expected"),
    ],
)
def test_nothing_is_written_when_it_ends_with_an_error(
    run: Run, tmp_path: Path, words: tuple[str, ...], code: int, says: str
) -> None:
    for lane in ("new", "there"):
        if lane == "there":
            assert run("import", str(R31), "--lane", lane)[0] == 0
        before = sorted(tmp_path.rglob("*")), files(tmp_path / "locks")
        ended, _, err = run("import", str(R31), "--lane", lane, "--force", *words)
        assert (ended, says in err, "secret" in err) == (code, True, False), err
        assert (sorted(tmp_path.rglob("*")), files(tmp_path / "locks")) == before


def test_a_disk_that_takes_only_some_of_the_files(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        if path.name.startswith(".x.toml"):
            raise OSError(28, "No space left on device", str(path))
        return plain(path, data)

    before = sorted((tmp_path / "locks").rglob("*"))
    monkeypatch.setattr(Path, "write_bytes", full)
    code, _, err = run("import", str(R31), "--lane", "x")
    assert (code, "No space left" in err) == (9, True)
    assert sorted((tmp_path / "locks").rglob("*")) == before


def test_a_pipe_or_a_device_is_not_read(run: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for file in ("pipe",):
        code, _, err = run("import", file, "--lane", "x")
        assert (code, "is no regular file" in err, f"--> {file}" in err) == (3, True, True), err


def test_force_removes_the_copies_of_the_replaced_lane(run: Run, tmp_path: Path) -> None:
    """Not those that another lane refers to, and nothing that no lane ever named."""
    names = [f"gilded-gnosis-v20-r{n}.b12x.integration.lock.json" for n in (31, 34)]
    kept = tmp_path / "locks/imported/x"
    assert run("import", str(INTEGRATION / names[0]), "--lane", "x")[0] == 0
    (kept / "notes.txt").write_text("mine\n")
    code, out, _ = run("import", str(INTEGRATION / names[1]), "--lane", "x", "--force")
    assert (code, f"removed locks/imported/x/{names[0]}\n" in out) == (0, True)
    assert sorted(p.name for p in kept.iterdir()) == [names[1], "notes.txt"]
    lane = (tmp_path / "locks/x.toml").read_text()
    (tmp_path / "locks/y.toml").write_text(lane)
    code, out, _ = run("import", str(INTEGRATION / names[0]), "--lane", "x", "--force")
    assert (code, "removed" in out) == (0, False)
    assert sorted(p.name for p in kept.iterdir()) == [*names, "notes.txt"]
