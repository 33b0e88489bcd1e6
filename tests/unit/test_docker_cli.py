"""What docker's complaints mean, and what a tool that is missing tells a person to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.model.values import BuildRequest
from builder.tools import buildx, docker, docker_cli
from builder.tools.docker_cli import BuildxMissing, EngineMissing, engine_error


@pytest.mark.parametrize(
    ("complaint", "hint"),
    [
        (
            "permission denied while trying to connect to the Docker daemon socket at "
            "unix:///var/run/docker.sock: Get: dial unix: connect: permission denied",
            "usermod -aG docker",
        ),
        (
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. "
            "Is the docker daemon running?",
            "scripts/engine start",
        ),
        ("error during connect: Get http://x: dial tcp: lookup x: no such host", "systemctl start"),
    ],
)
def test_an_engine_that_does_not_answer(complaint: str, hint: str) -> None:
    error = engine_error(complaint)
    assert isinstance(error, EngineMissing)
    assert error.exit_code == 10
    assert hint in error.findings[0].hint
    assert error.findings[0].detail == complaint


def test_other_complaints_are_not_about_the_engine() -> None:
    assert engine_error("Error response from daemon: No such image: x") is None


def test_no_docker_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for ask in (docker.DockerEngine().describe, lambda: docker.DockerEngine().image("x")):
        with pytest.raises(EngineMissing, match="not installed"):
            ask()


def program(folder: Path, text: str) -> None:
    (folder / "docker").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "docker").chmod(0o755)


@pytest.mark.parametrize(
    ("plugins", "what"),
    [("[]", "no buildx plugin"), ('[{"Name":"buildx","Version":"v0.12.1"}]', "too old")],
)
def test_buildx_that_does_not_serve(
    plugins: str, what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program(tmp_path, f"""echo '{{"ServerVersion":"26","ClientInfo":{{"Plugins":{plugins}}}}}' """)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(BuildxMissing, match=what):
        docker.DockerEngine().describe()


def test_info_without_a_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(tmp_path, """echo '{"ServerErrors":["Cannot connect to the Docker daemon at x"]}'""")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(EngineMissing, match="no Docker engine answers"):
        docker.DockerEngine().describe()


def test_the_users_engine_is_the_one_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "ssh://dgx5")
    monkeypatch.setenv("SECRET_TOKEN", "x")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    environment = docker_cli.environment()
    assert environment["DOCKER_HOST"] == "ssh://dgx5"
    assert not {"SECRET_TOKEN", "SOURCE_DATE_EPOCH"} & environment.keys()


def test_everything_is_explicit_on_the_command_line() -> None:
    request = BuildRequest(
        Path("/c"), {"wheels": Path("/w")}, {"B": "2", "A": "1"}, {"l": "x y"}, "t:1",
        "linux/arm64", Path("/log"), no_cache=True,
    )  # fmt: skip
    words = buildx.command(request, builder="default", metadata=Path("/m"))
    assert [str(word) for word in words] == [
        "buildx", "build", "--builder", "default", "--progress", "rawjson",
        "--provenance=false", "--sbom=false", "--network", "none", "--platform", "linux/arm64",
        "--file", "/c/Dockerfile", "--build-context", "wheels=/w", "--build-arg", "A=1",
        "--build-arg", "B=2", "--label", "l=x y", "--no-cache", "--metadata-file", "/m",
        "--tag", "t:1", "--load", "/c",
    ]  # fmt: skip
