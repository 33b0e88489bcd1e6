"""A Docker engine, through python-on-whales where it can do what is needed.

It has no time limits, no stdin and no streams of tar: `run`, `cp`, `load` and `buildx` go
through the process port.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from builder.errors import ToolFailed
from builder.model.values import (
    BuildRequest,
    BuildStep,
    EngineInfo,
    ImageFile,
    ImageInfo,
    ScriptResult,
)
from builder.ports import Say
from builder.tools import buildx, containers, docker_cli, image_layers
from builder.tools.docker_cli import BuildxMissing, EngineMissing

if TYPE_CHECKING:
    from python_on_whales import DockerClient, Image
    from python_on_whales.components.container.models import ContainerConfig

_BUILDX = (0, 13)  # the first with --progress=rawjson
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_IN_USE = re.compile(r"conflict: unable to (?:remove|delete)")


class DockerEngine:
    """Implements engine_ports.Engine over the engine that the user's docker command reaches."""

    def describe(self) -> EngineInfo:
        info = _info()
        _check_buildx(info)
        architecture = str(info.get("Architecture", ""))
        return EngineInfo(
            version=str(info.get("ServerVersion", "")),
            store=_store(info),
            platform=f"linux/{_ARCHITECTURES.get(architecture, architecture)}",
            free_bytes=_free(info),
        )

    def image(self, reference: str) -> ImageInfo | None:
        with _understood():
            from python_on_whales.exceptions import NoSuchImage

            try:
                return _described(self._client.image.inspect(reference))
            except NoSuchImage:
                return None

    def images(self, repository: str) -> tuple[ImageInfo, ...]:
        with _understood():
            found = self._client.image.list(repository)
            return tuple(_described(image) for image in sorted(found, key=lambda i: i.id))

    def history(self, image: str) -> tuple[str, ...]:
        words = ("history", "--no-trunc", "--format", "{{json .CreatedBy}}", image)
        lines = docker_cli.run(*words, timeout_s=30).text.splitlines()
        return tuple(str(json.loads(line)) for line in reversed(lines))

    def config(self, image: str) -> Mapping[str, object]:
        shown = docker_cli.run("image", "inspect", "--format", "{{json .}}", image, timeout_s=30)
        told = json.loads(shown.text)
        about = {key: told.get(key) for key in ("Architecture", "Os", "Variant", "Author")}
        return {**told["Config"], **about, "Layers": told["RootFS"].get("Layers")}

    def load(self, archive: Iterator[bytes]) -> None:
        with docker_cli.started(["load", "--quiet"]) as process:
            assert process.stdin is not None
            # A broken pipe is docker's end: its own words come below.
            with contextlib.suppress(BrokenPipeError):
                for chunk in archive:
                    process.stdin.write(chunk)
                process.stdin.close()
            process.stdin = None
            _, complaint = process.communicate()
        if process.returncode:
            raise docker_cli.failed("the engine did not take an image", complaint.decode())

    def build(self, request: BuildRequest, *, say: Say) -> tuple[str, tuple[BuildStep, ...]]:
        return buildx.build(request, say=say)

    def relabel(
        self,
        reference: str,
        labels: Mapping[str, str],
        *,
        platform: str,
        epoch: int,
        tag: str,
        log: Path,
    ) -> str:
        args = {"SOURCE_DATE_EPOCH": str(epoch)}
        with tempfile.TemporaryDirectory(prefix="imgbuild-") as folder:
            (Path(folder) / "Dockerfile").write_text(f"FROM {reference}\n")
            # buildx puts --label into the config: no layer, no line of history.
            request = BuildRequest(Path(folder), {}, args, labels, tag, platform, log)
            image, _ = buildx.build(request, say=lambda _: None)
        return image

    def tag(self, image: str, reference: str) -> None:
        with _understood():
            self._client.image.tag(image, reference)

    def untag(self, reference: str) -> None:
        with _understood():
            from python_on_whales.exceptions import DockerException, NoSuchImage

            try:
                self._client.image.remove(reference)
            except NoSuchImage:
                return
            except DockerException as error:
                if not _IN_USE.search(error.stderr or ""):
                    raise

    def run_script(
        self, image: str, script: str, *, timeout_s: float, most: int = 1 << 20
    ) -> ScriptResult:
        return containers.run_script(image, script, timeout_s=timeout_s, most=most)

    def sweep(self) -> None:
        containers.sweep()

    def read_tree(
        self, image: str, roots: Sequence[str], *, deep: bool = True
    ) -> AbstractContextManager[Iterator[tuple[ImageFile, IO[bytes] | None]]]:
        return containers.read_tree(image, roots, deep=deep)

    def read_layers(
        self, image: str, *, above: int
    ) -> AbstractContextManager[Iterator[tuple[int, ImageFile, IO[bytes] | None]]]:
        return image_layers.read_layers(image, above=above)

    @functools.cached_property
    def _client(self) -> DockerClient:
        from python_on_whales import DockerClient

        return DockerClient()


@contextlib.contextmanager
def _understood() -> Iterator[None]:
    """Turn python-on-whales' errors into ours."""
    from python_on_whales import ClientNotFoundError
    from python_on_whales.exceptions import DockerException

    try:
        yield
    except ClientNotFoundError as missing:
        raise docker_cli.not_installed() from missing
    except DockerException as error:
        complaint = (error.stderr or error.stdout or "").strip()
        last = (complaint.splitlines() or ["no output"])[-1]
        raise docker_cli.engine_error(complaint) or ToolFailed(
            f"docker: {last}", detail=complaint
        ) from error


def _info() -> Mapping[str, Any]:
    done = docker_cli.run("info", "--format", "{{json .}}", timeout_s=30, check=False)
    try:
        info = json.loads(done.stdout)
    except ValueError:
        info = {}
    if errors := info.get("ServerErrors"):
        complaint = "\n".join(map(str, errors))
        raise docker_cli.engine_error(complaint) or EngineMissing(
            "the Docker engine does not answer", detail=complaint
        )
    if done.returncode or not info.get("ServerVersion"):
        raise docker_cli.understood(done)
    return info  # type: ignore[no-any-return]


def _check_buildx(info: Mapping[str, Any]) -> None:
    plugins = (info.get("ClientInfo") or {}).get("Plugins") or ()
    version = next((str(p.get("Version", "")) for p in plugins if p.get("Name") == "buildx"), None)
    hint = "apt-get install docker-buildx (or docker-buildx-plugin of Docker's own packages)"
    if version is None:
        raise BuildxMissing("docker has no buildx plugin", hint=hint)
    numbers = re.match(r"v?(\d+)\.(\d+)", version)
    if numbers and (int(numbers[1]), int(numbers[2])) < _BUILDX:
        raise BuildxMissing(
            f"buildx {version} is too old: 0.13 is the first that serves", hint=hint
        )


def _store(info: Mapping[str, Any]) -> Literal["classic", "containerd"]:
    status = dict(pair for pair in info.get("DriverStatus") or () if len(pair) == 2)
    snapshotter = "io.containerd.snapshotter" in str(status.get("driver-type", ""))
    return "containerd" if snapshotter else "classic"


def _free(info: Mapping[str, Any]) -> int | None:
    root = Path(str(info.get("DockerRootDir") or "/nowhere"))
    if info.get("Name") != socket.gethostname():
        return None
    try:
        return shutil.disk_usage(root).free
    except OSError:
        return None


def _described(image: Image) -> ImageInfo:
    config, created = image.config, image.created
    pairs = (entry.partition("=") for entry in config.env or ())
    return ImageInfo(
        id=image.id,
        layers=tuple(image.root_fs.layers or ()),
        labels=dict(sorted((config.labels or {}).items())),
        tags=tuple(sorted(image.repo_tags or ())),
        env={name: value for name, _, value in pairs},
        architecture=image.architecture,
        size=image.size,
        created=created.astimezone(UTC).isoformat() if created else "",
        entrypoint=_words(config.entrypoint),
        command=_words(config.cmd),
        user=config.user or "",
        workdir=str(config.working_dir or ""),
        more=_more(config),
    )


def _more(config: ContainerConfig) -> Mapping[str, str]:
    check = config.healthcheck
    said = {
        "EXPOSE": sorted(config.exposed_ports or ()),
        "HEALTHCHECK": check.model_dump(mode="json", exclude_none=True) if check else None,
        "ONBUILD": config.on_build,
        "SHELL": config.shell,
        "STOPSIGNAL": config.stop_signal,
        "VOLUME": sorted(config.volumes or ()),
    }
    return {word: json.dumps(value, sort_keys=True) for word, value in said.items() if value}


def _words(said: Sequence[str] | str | None) -> tuple[str, ...]:
    return (said,) if isinstance(said, str) else tuple(said or ())
