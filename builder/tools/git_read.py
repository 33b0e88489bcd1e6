"""Read objects of our own store: single ones by GitPython, many by one git process.

The only module that imports GitPython; it never fetches, never patches.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import IO, TYPE_CHECKING

from builder.errors import SourceError, ToolMissing
from builder.model.blobs import blob_id
from builder.model.values import CommitInfo, TreeEntry
from builder.tools import git_env, process
from builder.tools.git_words import shown

if TYPE_CHECKING:
    from git import Repo

READ_LIMIT_S = 1800.0
MAX_ENTRIES = 1_000_000  # paths of one tree; the largest projects have half of that
MAX_LISTED = 256 << 20  # bytes of git's list of them
_PIPE_BYTES = 1 << 20


class ObjectDamaged(SourceError):
    """An object of the store is not there, or is not what its id says."""

    code = "object-damaged"

    def __init__(self, object_id: str, what: str, store: Path) -> None:
        super().__init__(
            f"object {object_id:.12} of the store {what}",
            hint=f"the store at {store} is damaged: remove it, and imgbuild fetch brings it anew",
        )


class NameUnreadable(SourceError):
    """A path in a tree is not UTF-8."""

    code = "name-unreadable"


class TreeTooLarge(SourceError):
    """A tree has more paths than any project has."""

    code = "tree-too-large"

    def __init__(self, tree: str) -> None:
        super().__init__(
            f"tree {tree:.12} has more than {MAX_ENTRIES:,} paths, or {MAX_LISTED >> 20} MiB "
            "of them",
            hint="no source of this size is taken: is it the repository that you mean?",
        )


class Reader:
    """Reads commits, trees and blobs. Use `close` (it ends GitPython's git processes)."""

    def __init__(self, git_dir: Path) -> None:
        self.git_dir = git_dir
        self._env = git_env.local(git_dir)
        self._repo: Repo | None = None
        self._one = threading.Lock()  # GitPython's git processes answer one question at a time

    def commit(self, commit: str) -> CommitInfo:
        """Raises: ObjectDamaged when it is not there."""
        git = _gitpython()
        with self._one, self._reading(commit):
            found = git.Commit(self._opened(), bytes.fromhex(commit))
            return CommitInfo(
                commit,
                found.tree.hexsha,
                int(found.committed_date),
                f"{found.author.name} <{found.author.email}>",
                _text(found.summary),
                tuple(parent.hexsha for parent in found.parents),
            )

    def holds(self, name: str) -> bool:
        """Whether an object is there."""
        with self._one:
            try:
                self._opened().odb.info(bytes.fromhex(name))
            except _failures():
                return False
        return True

    def blob(self, tree: str, path: str) -> bytes | None:
        """A file of a tree; None for a folder, a symlink, a gitlink, or nothing there."""
        git = _gitpython()
        with self._one, self._reading(tree):
            try:
                whole = git.Tree(self._opened(), bytes.fromhex(tree), git.Tree.tree_id << 12, "")
                found = whole / path
            except KeyError:
                return None
            if not isinstance(found, git.Blob) or found.mode & 0o170000 != 0o100000:
                return None
            data = bytes(found.data_stream.read())
        _prove(found.hexsha, data, self.git_dir)
        return data

    def entries(self, tree: str) -> tuple[TreeEntry, ...]:
        """All entries below a tree, in git's order, of which there is a bound: a few small trees
        that name each other can stand for billions of paths.

        Raises: NameUnreadable, ObjectDamaged, TreeTooLarge.
        """
        argv = ("git", "ls-tree", "-r", "-l", "-z", "--full-tree", tree)
        listed, count = bytearray(), 0
        with process.started(argv, env=self._env, timeout_s=READ_LIMIT_S) as running:
            assert running.stdout is not None
            assert running.stderr is not None
            while chunk := running.stdout.read(_PIPE_BYTES):
                listed += chunk
                count += chunk.count(b"\0")
                if count > MAX_ENTRIES or len(listed) > MAX_LISTED:
                    raise TreeTooLarge(tree)
            complaint = running.stderr.read().decode("utf-8", "replace")
            code = running.wait()
        if code:
            raise ObjectDamaged(tree, f"cannot be read: {shown(complaint)}", self.git_dir)
        try:
            text = listed.decode("utf-8")
        except UnicodeDecodeError as bad:
            raise _unreadable(bytes(listed), bad.start) from bad
        return tuple(_entry(line) for line in text.split("\0") if line)

    def stream(self, objects: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Blobs in the order asked, each hashed again. Raises: ObjectDamaged."""
        with tempfile.TemporaryFile() as asked:
            asked.write("".join(f"{name}\n" for name in objects).encode())
            asked.seek(0)
            argv = ("git", "cat-file", "--batch", "--buffer")
            with process.started(
                argv, env=self._env, stdin=asked, timeout_s=READ_LIMIT_S
            ) as running:
                assert running.stdout is not None
                with _wide(running.stdout) as pipe:
                    for name in objects:
                        yield name, self._next(name, pipe)

    def settings(self, blob: str) -> tuple[tuple[str, str], ...]:
        """Keys and values of a blob in git's config syntax; its includes are not followed."""
        done = self._git("config", "--no-includes", f"--blob={blob}", "--list", "-z")
        if done.returncode:
            raise SourceError(
                f"a file in git's config syntax cannot be read: {shown(done.complaint)}",
                hint="report it to the project that holds the file",
            )
        entries = done.stdout.decode("utf-8", "replace").split("\0")
        pairs = (entry.partition("\n") for entry in entries if entry)
        return tuple((key, value) for key, _, value in pairs)

    def close(self) -> None:
        """End the git processes that GitPython keeps."""
        with self._one:
            if self._repo is not None:
                self._repo.close()
                self._repo = None

    def _opened(self) -> Repo:
        if self._repo is None:
            git = _gitpython()
            self._repo = git.Repo(self.git_dir, odbt=git.GitCmdObjectDB)
            self._repo.git.update_environment(**self._env)
        return self._repo

    @contextlib.contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        try:
            yield
        except _failures() as missing:
            raise ObjectDamaged(name, "cannot be read", self.git_dir) from missing

    def _next(self, name: str, pipe: IO[bytes]) -> bytes:
        header = pipe.readline()
        if not header.startswith(name.encode()) or b" blob " not in header:
            words = header.decode("ascii", "replace").strip().removeprefix(name).strip()
            raise ObjectDamaged(name, f"cannot be read ({words or 'git ended'})", self.git_dir)
        data = pipe.read(int(header[len(name) + 6 :]))
        pipe.read(1)
        _prove(name, data, self.git_dir)
        return data

    def _git(self, *arguments: str) -> process.Completed:
        return process.run(("git", *arguments), env=self._env, timeout_s=READ_LIMIT_S, check=False)


@functools.cache
def _gitpython() -> ModuleType:
    """GitPython, which looks for the program as it is imported. Raises: ToolMissing."""
    if shutil.which("git") is None:
        raise ToolMissing("git is not installed", hint="apt-get install git")
    import git
    import git.exc

    return git


def _failures() -> tuple[type[Exception], ...]:
    """What GitPython raises for an object that is not there, or not whole."""
    exc = _gitpython().exc
    return ValueError, LookupError, OSError, exc.GitError, exc.ODBError


def _prove(name: str, data: bytes, store: Path) -> None:
    if (found := blob_id(data, len(name))) != name:
        raise ObjectDamaged(name, f"holds other bytes ({found:.12})", store)


def _entry(line: str) -> TreeEntry:
    facts, _, path = line.partition("\t")
    mode, _, name, size = facts.split()
    return TreeEntry(mode, name, path, 0 if size == "-" else int(size))


def _unreadable(raw: bytes, at: int) -> NameUnreadable:
    line = raw[raw.rfind(b"\0", 0, at) + 1 : raw.find(b"\0", at)]
    path = line.partition(b"\t")[2].decode("utf-8", "backslashreplace")
    return NameUnreadable(
        f"a path in a tree is not UTF-8: {shown(path)}",
        hint="leave the file out upstream, or take the source from a fork that renames it",
    )


def _wide(pipe: IO[bytes]) -> IO[bytes]:
    """The same pipe with room for many blobs, so that git and we both keep running."""
    with contextlib.suppress(OSError, AttributeError):
        fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return open(pipe.fileno(), "rb", buffering=_PIPE_BYTES, closefd=False)


def _text(text: str | bytes) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text
