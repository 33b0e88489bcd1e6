"""Merges and diffs in the object database: `merge-tree --write-tree`, no work tree, no index.

The result follows from the objects alone. Renames, conflict style and the like are fixed here;
a bare repository whose HEAD names nothing reads no `.gitattributes` (git 2.43 would read those
of HEAD: `attr.tree` points at the empty tree), and no driver is configured that one could name.

git 2.38 to 2.44 merge commits only, not trees (`--merge-base` takes trees since 2.45). So three
trees become three small commits with a fixed author, which lie in a folder of their own for the
time of the merge: the store never holds them.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from builder.model.merges import FileChange, MergeConflict, Merged
from builder.tools import git_env, process

MERGE_LIMIT_S = 600.0
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

_AUTHOR = "imgbuild <imgbuild@localhost> 315532800 +0000"
_SETTINGS = (
    "merge.renames=true", "merge.directoryRenames=conflict", "merge.renameLimit=7000",
    "merge.renormalize=false", "merge.conflictStyle=merge", "merge.default=text",
    "diff.renames=true", "diff.algorithm=myers", "diff.indentHeuristic=true",
    f"attr.tree={EMPTY_TREE}", "core.quotePath=true",
)  # fmt: skip
_DIFF = (
    "--no-ext-diff", "--no-textconv", "--no-color", "--full-index", "--binary",
    "--find-renames=50%", "-l1000", "--unified=3", "--inter-hunk-context=0",
    "--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", "--ignore-submodules=none",
)  # fmt: skip
_SHOWN = 8  # files with conflicts whose content is read


def merge_trees(git_dir: Path, tmp: Path, base: str, ours: str, theirs: str) -> Merged:
    """Merge three trees of the store; the result is written there."""
    with _apart(tmp) as folder:
        root = add_commit(folder, base, ())
        sides = [add_commit(folder, tree, (root,)) for tree in (ours, theirs)]
        return merge_commits(git_dir, sides[0], sides[1], also=(folder,))


def merge_commits(git_dir: Path, ours: str, theirs: str, *, also: Sequence[Path] = ()) -> Merged:
    """Merge two commits over all their merge bases. `also`: further object folders to read."""
    env = _env(git_dir, also)
    argv = ("merge-tree", "--write-tree", "-z", "--messages", ours, theirs)
    done = _git(env, argv, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        raise process.failed(done)
    tree, *fields = done.stdout.split(b"\0")
    sides = {ours: "what was composed", theirs: "the pull request"}
    conflicts = _conflicts(fields, sides) if done.returncode else ()
    return Merged(tree.decode().strip(), tuple(_held(tree.decode(), conflicts, env)))


def diff(git_dir: Path, old: str, new: str, *, also: Sequence[Path] = ()) -> bytes:
    """The patch between two trees: the bytes that `git diff --binary --full-index` prints."""
    return _git(_env(git_dir, also), ("diff", *_DIFF, old, new)).stdout


def stat(git_dir: Path, old: str, new: str) -> tuple[FileChange, ...]:
    """Lines gained and lost by file, without looking for renames."""
    argv = ("diff-tree", "-r", "--numstat", "-z", "--no-renames", "--no-ext-diff", old, new)
    lines = _git(_env(git_dir, ()), argv).stdout.decode("utf-8", "replace").split("\0")
    return tuple(_change(line) for line in lines if line)


def add_commit(folder: Path, tree: str, parents: Sequence[str]) -> str:
    """Write a commit of ours, the same for the same tree and parents, as a loose object."""
    lines = [f"tree {tree}", *(f"parent {name}" for name in parents)]
    text = "\n".join((*lines, f"author {_AUTHOR}", f"committer {_AUTHOR}", "", "imgbuild\n"))
    raw = b"commit %d\0" % len(text) + text.encode()
    name = hashlib.sha1(raw, usedforsecurity=False).hexdigest()
    place = folder / name[:2] / name[2:]
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(zlib.compress(raw, 1))
    return name


@contextlib.contextmanager
def _apart(tmp: Path) -> Iterator[Path]:
    """An object folder that is gone after the block."""
    tmp.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=tmp) as folder:
        yield Path(folder)


def _env(git_dir: Path, also: Sequence[Path]) -> dict[str, str]:
    quoted = (str(folder).replace("\\", "\\\\").replace('"', '\\"') for folder in also)
    folders = ":".join(f'"{text}"' for text in quoted)
    return git_env.local(git_dir, GIT_ALTERNATE_OBJECT_DIRECTORIES=folders)


def _git(env: dict[str, str], words: Sequence[str], *, check: bool = True) -> process.Completed:
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    argv = ("git", *settings, *words)
    return process.run(
        argv, env=env, timeout_s=MERGE_LIMIT_S, cwd=Path(env["GIT_DIR"]), check=check
    )


def _conflicts(fields: Sequence[bytes], sides: Mapping[str, str]) -> Iterator[MergeConflict]:
    """Read what follows the tree: the conflicted entries, an empty field, the messages.

    A message is: number of paths, the paths, its kind, its words, where a commit is a side.
    """
    rest = iter(fields[list(fields).index(b"") + 1 :])
    for count in rest:
        if not count:
            return
        paths = [next(rest) for _ in range(int(count))]
        kind, words = next(rest).decode("utf-8", "replace"), next(rest).decode("utf-8", "replace")
        if kind.startswith("CONFLICT"):
            path = paths[0].decode("utf-8", "replace")
            for name, side in sides.items():
                words = words.replace(name, side)
            yield MergeConflict(path, kind, words.partition("  Version ")[0].strip())


def _held(
    tree: str, conflicts: Iterator[MergeConflict] | tuple[()], env: dict[str, str]
) -> Iterator[MergeConflict]:
    """The conflicts with the content of the first few files, which holds the markers."""
    for i, conflict in enumerate(conflicts):
        argv = ("cat-file", "blob", f"{tree}:{conflict.path}")
        done = _git(env, argv, check=False) if i < _SHOWN else None
        held = done.stdout if done is not None and not done.returncode else b""
        yield MergeConflict(conflict.path, conflict.kind, conflict.words, held)


def _change(line: str) -> FileChange:
    added, deleted, path = line.split("\t", 2)
    if added == "-":
        return FileChange(path, None, None)
    return FileChange(path, int(added), int(deleted))
