"""The Dockerfile that is built, its arguments, the digest of an image folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from builder.errors import LaneError, Place
from builder.model.lane import Build, Lane
from builder.model.lock import Final, Lock, LockedImage, LockedSource
from builder.steps import identity
from builder.steps.dockerfile import parse
from builder.steps.image import (
    BuildArgInvalid,
    ImageFolderInvalid,
    build_args,
    dockerfile,
    folder_digest,
)
from builder.tools.project import ProjectFolder

HEX, DIGEST = "ab" * 20, "sha256:" + "ab" * 32
LANE = Lane(1, "demo", "x-demo", ("linux/arm64",), Build("12.1a"), {}, {}, name="demo",
            path=Path("locks/demo.toml"))  # fmt: skip
SOURCE = LockedSource(DIGEST, "https://example.org/k.git", HEX, HEX, DIGEST, 1757692800,
                      Final(HEX, DIGEST))  # fmt: skip
LOCK = Lock(1, LockedImage(DIGEST), {"kern": SOURCE, "my-lib.x": SOURCE}, {})


@pytest.mark.parametrize(
    "text",
    [
        b"FROM scratch\nCOPY a /a",
        b"FROM scratch\nCOPY a /a\n\n\n",
        b"FROM scratch\r\nCOPY a /a\r\n",
        b"FROM scratch\nUSER 1000\nCMD [\"x\"]\n",
        b"from scratch\nRUN <<EOF\nmake \\\nEOF\n",
        b"FROM scratch\nRUN cat <<-'A' <<B\n\tx\n\tA\ny\nB\n# \\\n",
        b"FROM scratch\nRUN make \\\n  # why\n\n  all\n",
        b"# escape=`\nFROM scratch\nRUN dir c:\\\n",
        b"FROM scratch\nRUN x=$((1 << 3)); grep a <<< b\n",
        b"FROM scratch\nRUN x=$((1<<3)); cat<<EOF\n",
        b"FROM scratch\nRUN echo \\\\\n",
        b"FROM scratch\nENV X=<<EOF\n",
    ],
)  # fmt: skip
def test_the_copy_stands_alone_at_the_end(text: bytes) -> None:
    built = dockerfile(text)
    assert built.startswith(text.rstrip())
    assert built.endswith(b"\nCOPY imgbuild/ /\n")
    assert dockerfile(text) == built


@pytest.mark.parametrize(
    ("text", "what", "line"),
    [
        (b"FROM scratch\nRUN a \\\n  && b \\\n", "in a continued line", 2),
        (b"FROM scratch\nRUN a \\", "in a continued line", 2),
        (b"FROM scratch\nRUN a \\\n# comment\n", "in a continued line", 2),
        (b"# escape=`\nFROM scratch\nRUN a `\n", "in a continued line", 3),
        (b"\xef\xbb\xbf# escape=`\nFROM scratch\nRUN a `\n", "in a continued line", 3),
        (b"FROM scratch\n\nRUN <<EOF\nmake\n", "the heredoc EOF has no end", 3),
        (b"FROM scratch\nCOPY <<\"A B\" <<X /\n", "the heredoc A B has no end", 2),
    ],
)  # fmt: skip
def test_an_open_end_is_refused_with_its_line(text: bytes, what: str, line: int) -> None:
    with pytest.raises(LaneError) as refused:
        dockerfile(text, Place(Path("docker-images/demo/Dockerfile")))
    (finding,) = refused.value.findings
    assert what in finding.what
    assert finding.place == Place(Path("docker-images/demo/Dockerfile"), line)


def test_a_dockerfile_without_a_stage_is_refused() -> None:
    with pytest.raises(LaneError, match="no FROM"):
        dockerfile(b"ARG A\n# FROM x\n")


def test_arguments_are_explicit() -> None:
    lane = replace(LANE, build=Build("12.1a", args={"MAX_JOBS": "16"}))
    assert build_args(lane, LOCK, {"run-time": "imgbuild-base:abc"}) == {
        "MAX_JOBS": "16",
        "TORCH_CUDA_ARCH_LIST": "12.1a",
        "SOURCE_DATE_EPOCH": "1757692800",
        "BASE_RUN_TIME": "imgbuild-base:abc",
        "CACHE_FINGERPRINT": identity.cache_fingerprint(lane, LOCK)[:12],
        "BUILD_ID": identity.build_id(lane, LOCK)[:12],
        "SOURCES": "kern my-lib.x",
        "KERN_COMMIT": HEX,
        "KERN_NATIVE": HEX[:16],
        "KERN_VERSION": "0.1.dev0+demo.abababab",
        "MY_LIB_X_COMMIT": HEX,
        "MY_LIB_X_NATIVE": HEX[:16],
        "MY_LIB_X_VERSION": "0.1.dev0+demo.abababab",
    }


@pytest.mark.parametrize(
    ("escape", "line"),
    [
        (b"", rb'ENV A="b\\c\"\$d`"'),
        (b"# escape=`\n", rb'ENV A="b\c`"`$d``"'),
        (b"\xef\xbb\xbf# escape=`\n", rb'ENV A="b\c`"`$d``"'),
        (b"# syntax=x\r\n  #Escape = ` \r\n", rb'ENV A="b\c`"`$d``"'),
        (b"# other=x\n# escape=`\n", rb'ENV A="b\\c\"\$d`"'),
        (b"#!/x\n# escape=`\n", rb'ENV A="b\\c\"\$d`"'),
    ],
)
def test_the_environment_of_a_lane(escape: bytes, line: bytes) -> None:
    built = dockerfile(escape + b"FROM scratch\n", env={"B": "", "A": 'b\\c"$d`'})
    added = built.partition(b"FROM scratch")[2]
    assert line + b'\nENV B=""\n' in added
    assert added.endswith(b"\nCOPY imgbuild/ /\n")
    assert parse(built, Path("Dockerfile")).stages[0].env == {"A": 'b\\c"$d`', "B": ""}


@pytest.mark.parametrize(("name", "value"), [("HF_TOKEN", "x"), ("A", "b\nc")])
def test_an_environment_that_no_image_may_have(name: str, value: str) -> None:
    with pytest.raises(BuildArgInvalid) as refused:
        build_args(replace(LANE, env={name: value}), LOCK, {})
    (found,) = refused.value.findings
    assert found.place == Place(LANE.path, key=("env", name))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TORCH_CUDA_ARCH_LIST", "12.0"), ("SOURCE_DATE_EPOCH", "0"), ("BASE_RUNTIME", "x"),
        ("KERN_VERSION", "x"), ("HF_TOKEN", "x"), ("API_KEY", "x"), ("DB_PASSWORD", "x"),
        ("MY_SECRET_2", "x"), ("INDEX", "https://user:pw@example.org/simple"),
        ("X", "ghp_0123456789abcdef"),
    ],
)  # fmt: skip
def test_our_own_arguments_and_secrets_are_refused(name: str, value: str) -> None:
    lane = replace(LANE, build=Build("12.1a", args={name: value, "HF_TOKEN": "also"}))
    with pytest.raises(BuildArgInvalid) as refused:
        build_args(lane, LOCK, {"runtime": "x"})
    assert f"build.args.{name}" in {f.what.split()[0].rstrip(":") for f in refused.value.findings}
    assert all(value not in f.what or len(value) == 1 for f in refused.value.findings)
    assert len(refused.value.findings) == (1 if name == "HF_TOKEN" else 2)


@pytest.mark.parametrize(
    ("name", "value"), [("TOKENIZERS_PARALLELISM", "1"), ("HF_TOKEN", ""), ("MONKEY", "x")]
)
def test_what_only_looks_alike_is_not(name: str, value: str) -> None:
    lane = replace(LANE, build=Build("12.1a", args={name: value}))
    assert build_args(lane, LOCK, {})[name] == value


def test_the_digest_of_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "docker-images/demo"
    (folder / "b").mkdir(parents=True)
    (folder / "Dockerfile").write_text("FROM scratch\n")
    (folder / "b/run").write_text("x")
    project = ProjectFolder(tmp_path)

    def digest() -> str:
        return folder_digest("docker-images/demo", project=project)

    first = digest()
    assert first == "sha256:ee118cca33702221676457959964cb217ec22713ec948e5b9191f12b623a64ec"
    (folder / "b/run").touch()
    (folder / ".DS_Store").write_text("x")
    assert digest() == first
    (folder / "b/run").chmod(0o755)
    executable = digest()
    (folder / "b/run").write_text("y")
    (folder / "b/run").rename(folder / "b/ran")
    assert len({first, executable, digest()}) == 3


@pytest.mark.parametrize("name", [".dockerignore", "Dockerfile.dockerignore", "sources/x"])
def test_what_would_harm_the_context_is_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "docker-images/demo"
    (folder / name).parent.mkdir(parents=True)
    (folder / "Dockerfile").write_text("FROM scratch\n")
    (folder / name).write_text("*\n")
    with pytest.raises(ImageFolderInvalid, match=name):
        folder_digest("docker-images/demo", project=ProjectFolder(tmp_path))
