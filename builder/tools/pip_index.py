"""Wheels, through pip and its own configuration: which index it asks is the user's setting."""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from builder.errors import LaneError, ToolMissing
from builder.model.lock import LockedFile
from builder.tools import process
from builder.tools.packages import PackageUnavailable, again, check

_GLIBC = range(39, 16, -1)  # 2.39 is Ubuntu 24.04's, 2.17 that of manylinux2014
_MACHINES = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}
_OLD = {"x86_64": ("manylinux2014", "manylinux2010", "manylinux1"), "aarch64": ("manylinux2014",)}
_BROKEN = re.compile(r"after connection broken by '(?:ProtocolError\('[^']*', )?(\w+)")
_VERSIONS = re.compile(r"\(from versions: ([^)]*)\)")
_TIMEOUT_S = 3600  # wheels have gigabytes; pip itself gives up on a connection that is silent


class RequirementInvalid(LaneError):
    code = "requirement"


class PipIndex:
    """Implements ports.PackageIndex for an image with this version of Python ("3.12")."""

    def __init__(self, python: str) -> None:
        self._python = python

    def resolve(self, wanted: str, platform: str, into: Path) -> tuple[str, str, Path]:
        from packaging.utils import parse_wheel_filename

        name = _project(wanted)
        path = self._download([wanted], name, platform, into)
        found, version, _, _ = parse_wheel_filename(path.name)
        return str(found), str(version), path

    def download(
        self, name: str, version: str, file: LockedFile, platform: str, into: Path
    ) -> Path:
        with tempfile.TemporaryDirectory(dir=into) as folder:
            pinned = Path(folder) / "requirements.txt"
            pinned.write_text(f"{_project(name)}=={version} --hash={file.sha256}\n")
            words = ["--require-hashes", "--requirement", str(pinned)]
            path = self._download(words, name, platform, into)
        return check(path, name, version, file)

    def _download(self, words: list[str], name: str, platform: str, into: Path) -> Path:
        if not re.fullmatch(r"3\.\d+", self._python):
            raise RequirementInvalid(
                "wheels are chosen for the image's Python, and the lane does not say which",
                hint='set build.python, for example python = "3.12"',
            )
        with tempfile.TemporaryDirectory(dir=into) as folder:
            done = self._pip(
                "download", "--no-deps", "--only-binary=:all:", "--no-input", "--dest", folder,
                *_tags(platform, self._python), *words,
            )  # fmt: skip
            found = sorted(Path(folder).glob("*.whl"))
            if done.returncode or len(found) != 1:
                raise self._unavailable(name, words[-1], platform, done.complaint)
            return found[0].replace(into / found[0].name)

    def _unavailable(
        self, name: str, wanted: str, platform: str, complaint: str
    ) -> PackageUnavailable:
        if hint := process.full_disk(complaint):
            return PackageUnavailable(
                f"{name}: there is no room for it", hint=hint, detail=_errors(complaint)
            )
        if "DO NOT MATCH THE HASHES" in complaint:
            return PackageUnavailable(
                f"{name}: the index gives another file than the locked one",
                hint=again(), detail=_errors(complaint),
            )  # fmt: skip
        if "(from versions: none)" in complaint and self._has_sdists(name):
            return PackageUnavailable(
                f"{name}: the index has source distributions, and no wheel that serves "
                f"{platform} with Python {self._python}",
                hint="build the wheel yourself and offer it (find-links in pip's configuration), "
                "or take the project as a source of the lane",
                detail=_errors(complaint),
            )
        is_locked = wanted.endswith("requirements.txt")
        what = name if is_locked else wanted
        if broken := _BROKEN.search(complaint):
            return PackageUnavailable(
                f"{what}: an index does not answer ({broken[1]})",
                hint="try again when it does (pip config list shows which are asked); what "
                "imgbuild fetch brought before needs none",
                detail=_errors(complaint),
            )
        return PackageUnavailable(
            f"{what}: pip finds no such wheel for {platform} with Python {self._python}",
            hint=(again() if is_locked else _otherwise(wanted, complaint))
            + "; pip config list shows which index was asked",
            detail=_errors(complaint),
        )

    def _has_sdists(self, name: str) -> bool:
        """Asked without running anything of the project, as building its metadata would."""
        done = self._pip("index", "versions", "--no-binary=:all:", name, timeout_s=60)
        return done.returncode == 0 and "Available versions:" in done.text

    def _pip(self, *words: str, timeout_s: float = _TIMEOUT_S) -> process.Completed:
        environment = process.environment(
            "PIP_*", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "XDG_CONFIG_DIRS", "NETRC",
            PIP_DISABLE_PIP_VERSION_CHECK="1",
        )  # fmt: skip
        done = process.run(
            [sys.executable, "-m", "pip", *words],
            env=environment, timeout_s=timeout_s, check=False,
        )  # fmt: skip
        if "No module named pip" in done.complaint:
            raise ToolMissing(
                "pip is not installed beside imgbuild, and it is what fetches wheels",
                hint=f"{sys.executable} -m ensurepip, or: uv pip install pip",
            )
        return done


def _project(wanted: str) -> str:
    """The project that a requirement names: one by name, never a URL, a path or an option."""
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(wanted)
    except InvalidRequirement as wrong:
        raise RequirementInvalid(
            f"{wanted!r} is no requirement: {str(wrong).splitlines()[0]}",
            hint='a name and a range of versions: "flashinfer-python==0.6.17"',
        ) from wrong
    if requirement.url or requirement.marker:
        raise RequirementInvalid(
            f"{wanted!r}: a wheel is named by project and version alone",
            hint="leave the URL or the marker out; where an index lies is pip's setting",
        )
    return requirement.name


def _otherwise(wanted: str, complaint: str) -> str:
    """What to write in the lane, by the versions that pip names: the nearest to an exact one."""
    from packaging.requirements import Requirement
    from packaging.version import InvalidVersion, Version

    named = _VERSIONS.search(complaint)
    near = there = named[1].split(", ") if named and named[1] != "none" else []
    with contextlib.suppress(InvalidVersion):
        asked = Version(str(Requirement(wanted).specifier).lstrip("=~"))
        below = [version for version in there if Version(version) < asked]
        near = [*below[-2:], *there[len(below) :][:2]]
    if not there:
        return f"the lane asks for {wanted}: correct the name or the version there"
    return f"the lane asks for {wanted}: correct it there; the index has {', '.join(near[-4:])}"


def _tags(platform: str, python: str) -> Iterator[str]:
    machine = _MACHINES[platform]
    plain = python.replace(".", "")
    yield from ("--python-version", python, "--implementation", "cp")
    for abi in (f"cp{plain}", "abi3", "none"):
        yield from ("--abi", abi)
    newest = [f"manylinux_2_{minor}" for minor in _GLIBC]
    for prefix in (*newest, *_OLD[machine], "linux"):
        yield from ("--platform", f"{prefix}_{machine}")


def _errors(complaint: str) -> str:
    """pip's own words: its errors, or all it said when it named none so."""
    lines = complaint.splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith("ERROR:")), 0)
    return "\n".join(lines[first:][-30:])
