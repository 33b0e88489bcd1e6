"""Debian packages, through apt and the system's own sources, in a private state folder.

It needs no root, changes nothing of the system and works for a foreign architecture.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from builder.errors import ToolMissing
from builder.model.lock import LockedFile
from builder.tools import process
from builder.tools.packages import PackageUnavailable, again, check

_FRESH_S = 3600  # lists younger than this are asked as they are
_CLEAN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~-]*\.deb")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+:~-]*")
# Read after the system's own files, so that its hooks, which are for its own lists, can go.
_CONFIG = """\
Dir::State "{state}";
Dir::State::lists "{state}/lists";
Dir::State::status "{state}/status";
Dir::Cache "{state}/cache";
Dir::Cache::pkgcache "pkgcache.bin";
Dir::Cache::srcpkgcache "srcpkgcache.bin";
APT::Architecture "{architecture}";
#clear APT::Architectures;
APT::Architectures {{ "{architecture}"; }};
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
APT::Sandbox::User "";
APT::Install-Recommends "false";
Acquire::Languages "none";
Acquire::Retries "3";
"""


@dataclass(frozen=True, slots=True)
class _Record:
    """What the lists say of one version of a package."""

    version: str
    sha256: str
    size: int  # bytes
    filename: str


class AptIndex:
    """Implements ports.PackageIndex for Debian packages; `cache` is the stores' folder."""

    def __init__(self, cache: Path) -> None:
        self._root = cache / "apt"

    def resolve(self, wanted: str, platform: str, into: Path) -> tuple[str, str, Path]:
        state = _State(self._root, platform)
        with state.locked():
            state.refresh(_FRESH_S)
            record = state.record(wanted) or state.record(wanted, refreshed=True)
            if record is None:
                raise PackageUnavailable(
                    f"{wanted}: no package of this name for {platform} in apt's sources",
                    hint=process.full_disk(state.complaint)
                    or f"apt-cache search {wanted}; sources are the system's (/etc/apt)",
                    detail=state.complaint,
                )
            path = state.download(wanted, record, into)
        file = LockedFile(_filename(wanted, record, state.architecture), record.sha256, record.size)
        return wanted, record.version, check(path, wanted, record.version, file)

    def download(
        self, name: str, version: str, file: LockedFile, platform: str, into: Path
    ) -> Path:
        state = _State(self._root, platform)
        with state.locked():
            record = state.record(name, version) or state.record(name, version, refreshed=True)
            if record is None:
                raise PackageUnavailable(
                    f"{name} {version} is not in apt's sources (any more)",
                    hint=process.full_disk(state.complaint) or again(),
                    detail=state.complaint or f"there now: {state.versions(name)}",
                )
            path = state.download(name, record, into)
        return check(path, name, version, file)


class _State:
    """apt's lists for one architecture, below the cache."""

    def __init__(self, root: Path, platform: str) -> None:
        self.architecture = platform.rpartition("/")[2]
        self.complaint = ""  # of the last update that brought not everything
        self._folder = root / self.architecture
        self._stamp = self._folder / "updated"
        if not all(map(shutil.which, ("apt-get", "apt-cache"))):
            raise ToolMissing(
                "apt-get is not there, and it is what fetches Debian packages",
                hint="run imgbuild on Debian or Ubuntu, or take [debs] out of the lane",
            )

    def locked(self) -> _Lock:
        """Held by one process at a time."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return _Lock(self._folder / "lock")

    def refresh(self, younger_than_s: float) -> bool:
        """Bring the lists, unless they are young enough; whether they were brought."""
        try:
            age = time.time() - self._stamp.stat().st_mtime
        except FileNotFoundError:
            age = float("inf")
        if 0 <= age < younger_than_s:
            return False
        for folder in ("lists/partial", "cache/archives/partial"):
            (self._folder / folder).mkdir(parents=True, exist_ok=True)
        (self._folder / "status").touch()
        done = self._run("apt-get", "--quiet=2", "update", timeout_s=600)
        # One source that does not answer must not hide what the others have.
        self.complaint = done.complaint
        if done.returncode == 0:
            self._stamp.touch()
        return True

    def record(
        self, name: str, version: str | None = None, *, refreshed: bool = False
    ) -> _Record | None:
        """What the lists say, brought anew before with `refreshed`; the newest, or one version."""
        if not _PACKAGE.fullmatch(name) or (version and not _VERSION.fullmatch(version)):
            raise PackageUnavailable(f"{name} {version or ''}: no name or version of a package")
        if refreshed and not self.refresh(0):
            return None
        if not self._stamp.exists() and not any(self._folder.glob("lists/*_Packages*")):
            return None
        word = f"{name}:{self.architecture}" + (f"={version}" if version else "")
        done = self._run("apt-cache", "show", "--no-all-versions", word)
        return next(iter(_records(done.text)), None) if done.returncode == 0 else None

    def versions(self, name: str) -> str:
        done = self._run("apt-cache", "madison", f"{name}:{self.architecture}")
        found = [line.split("|")[1].strip() for line in done.text.splitlines() if "|" in line]
        return ", ".join(dict.fromkeys(found)) or "none"

    def download(self, name: str, record: _Record, into: Path) -> Path:
        with tempfile.TemporaryDirectory(dir=into) as folder:
            word = f"{name}:{self.architecture}={record.version}"
            done = self._run(
                "apt-get", "--quiet=2", "download", word, cwd=Path(folder), timeout_s=1800
            )
            found = sorted(Path(folder).glob("*.deb"))
            if done.returncode or len(found) != 1:
                raise PackageUnavailable(
                    f"{name} {record.version} cannot be downloaded",
                    hint=process.full_disk(done.complaint)
                    or "if the archive moved on meanwhile, try again; otherwise see apt's words",
                    detail=done.complaint,
                )
            return found[0].replace(into / _filename(name, record, self.architecture))

    def _run(
        self, *words: str, cwd: Path | None = None, timeout_s: float = 60
    ) -> process.Completed:
        config = self._folder / "apt.conf"
        text = _CONFIG.format(state=self._folder.absolute(), architecture=self.architecture)
        if not config.is_file() or config.read_text() != text:
            config.write_text(text)
        return process.run(
            [words[0], "--config-file", config.absolute(), *words[1:]],
            env=process.environment("APT_CONFIG"), cwd=cwd, timeout_s=timeout_s, check=False,
        )  # fmt: skip


class _Lock:
    """A lock between processes that is imported when it is needed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        from filelock import FileLock

        self._held = FileLock(self._path)
        self._held.acquire()

    def __exit__(self, *_: object) -> None:
        self._held.release()


def _records(text: str) -> list[_Record]:
    found = []
    for paragraph in text.split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z0-9-]+): (.*)$", paragraph, re.MULTILINE))
        if {"Version", "SHA256", "Size", "Filename"} <= fields.keys():
            sha256 = f"sha256:{fields['SHA256']}"
            found.append(
                _Record(fields["Version"], sha256, int(fields["Size"]), fields["Filename"])
            )
    return found


def _filename(name: str, record: _Record, architecture: str) -> str:
    """The archive's own name for it: without the epoch, which apt-get writes as %3a."""
    own = record.filename.rpartition("/")[2]
    if _CLEAN_NAME.fullmatch(own):
        return own
    return f"{name}_{record.version.rpartition(':')[2]}_{architecture}.deb"
