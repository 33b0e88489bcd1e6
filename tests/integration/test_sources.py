"""Submodules, verification, archives and patches, with real git objects."""

import gzip
import hashlib
import os
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from builder.errors import ImgbuildError, Place
from builder.model.lane import Build, Lane, Source
from builder.model.lock import (
    Final,
    Lock,
    LockedImage,
    LockedPatch,
    LockedSource,
    LockedSubmodule,
)
from builder.model.patch_sets import PatchOptions
from builder.model.values import Archive, GitPin, PatchFile, SourceTree
from builder.steps import patches, sources, staging, trees
from builder.steps.hints import restoring
from builder.steps.submodules import SubmoduleInvalid, Wanted
from builder.tools.files import FileStore
from builder.tools.git_store import Store
from tests.integration.repositories import Content, Repo, kern, quiet

KERN_CONTENT = "sha256:2df0899eb0e030e88545a671e6113d22d2b77bfe815f7f35160bacfdddcf0ac6"
PLACE = Place(Path("locks/demo.lock"), key=("sources", "kern"))
ZERO = "sha256:" + "0" * 64


@pytest.fixture
def files(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "cache")


def fetched(store: Store, repo: Repo, commit: str) -> str:
    """The tree of a commit that was fetched."""
    store.fetch([GitPin("x", (repo.url,), commit)], say=quiet)
    return store.commit(commit).tree


def made(store: Store, root: Path, content: dict[str, Content]) -> SourceTree:
    repo = Repo(root / "made.git")
    return SourceTree("made", fetched(store, repo, repo.commit(content)))


# --- submodules


def nest(root: Path) -> tuple[Repo, str, str, str]:
    """top -> third_party/mid -> sub/leaf, by relative URLs."""
    leaf, mid, top = (Repo(root / f"{name}.git") for name in ("leaf", "mid", "top"))
    c_leaf = leaf.commit({"leaf.h": "leaf\n"})
    c_mid = mid.commit(
        {
            "mid.h": "mid\n",
            "sub/leaf": ("160000", c_leaf),
            ".gitmodules": '[submodule "l"]\n\tpath = sub/leaf\n\turl = ../leaf.git\n',
        }
    )
    c_top = top.commit(
        {
            "top.c": "top\n",
            "third_party/mid": ("160000", c_mid),
            ".gitmodules": '[submodule "m"]\n\tpath = third_party/mid\n\turl = ../mid.git\n'
            "\tupdate = !touch /tmp/canary\n[include]\n\tpath = /etc/passwd\n",
        }
    )
    return top, c_top, c_mid, c_leaf


def resolve(
    store: Store, root: Path, tree: str, wanted: Wanted = "all", **unfilled: str
) -> dict[str, LockedSubmodule]:
    found = sources.resolve_submodules(
        "top", "./top.git", tree, wanted, unfilled, store=store, root=root, say=quiet
    )
    return dict(found)


def test_nested_submodules(tmp_path: Path, store: Store) -> None:
    top, c_top, c_mid, c_leaf = nest(tmp_path)
    tree = fetched(store, top, c_top)
    found = resolve(store, tmp_path, tree)
    assert {p: (s.url, s.commit) for p, s in found.items()} == {
        "third_party/mid": ("./mid.git", c_mid),
        "third_party/mid/sub/leaf": ("./leaf.git", c_leaf),
    }
    assert resolve(store, tmp_path, tree, list(found)) == found


def test_submodules_by_a_mirror(tmp_path: Path, store: Store) -> None:
    top, c_top, _, _ = nest(tmp_path / "mirror")
    tree = fetched(store, top, c_top)
    found = sources.resolve_submodules(
        "top", str(tmp_path / "gone/top.git"), tree, "all", {},
        store=store, root=tmp_path, mirrors=[top.url], say=quiet,
    )  # fmt: skip
    assert found["third_party/mid"].url == str(tmp_path / "gone/mid.git")


def test_gitlinks_that_nobody_answers_for(tmp_path: Path, store: Store) -> None:
    top, c_top, _, _ = nest(tmp_path)
    tree = fetched(store, top, c_top)
    with pytest.raises(SubmoduleInvalid) as caught:
        resolve(store, tmp_path, tree, ["third_party/mid", "gone"], also_gone="x")
    said = [f.what for f in caught.value.findings]
    assert said == [
        "top: the gitlink third_party/mid/sub/leaf is not filled, "
        "and nothing says that it need not be",
        "top: there is no gitlink at also_gone",
        "top: there is no gitlink at gone",
    ]
    assert 'unfilled = { "third_party/mid/sub/leaf" = "' in caught.value.findings[0].hint
    with pytest.raises(SubmoduleInvalid):
        resolve(store, tmp_path, tree, "none")
    assert resolve(store, tmp_path, tree, "none", **{"third_party/mid": "not built"}) == {}


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("", "has no URL"),
        ("[submodule x]\n\tpath = sub\n\turl = https://h/x", "top: .gitmodules: .* cannot be read"),
        ('[submodule "x"]\n\tpath = sub\n\turl = https://h/' + "x" * 200_000, "longer than 2000"),
        ('[submodule "x"]\n\tpath = sub\n\turl = ./' + "x" * 200_000, "longer than 2000"),
        ('[submodule "x"]\n\tpath = sub\n\turl = ext::sh -c touch% /tmp/x', "neither https"),
        ('[submodule "x"]\n\tpath = sub\n\turl = -u./payload', "neither https"),
        ('[submodule "x"]\n\tpath = sub\n\turl = "https://u:secret@h/x"', "neither https"),
        ('[submodule "x"]\n\tpath = sub\n\turl = "https://h/x?token=x"', "neither https"),
        ('[submodule "x"]\n\tpath = sub\n\turl = "https://h/x#x"', "neither https"),
        ('[submodule "x"]\n\tpath = sub\n\turl = http://h/x', "neither https"),
        ('[submodule "x"]\n\tpath = ../sub\n\turl = https://h/x', "has no URL"),
    ],
)
def test_hostile_gitmodules(tmp_path: Path, store: Store, module: str, says: str) -> None:
    source = made(store, tmp_path, {"sub": ("160000", "1" * 40), ".gitmodules": f"{module}\n"})
    with pytest.raises(ImgbuildError, match=says) as caught:
        resolve(store, tmp_path, source.tree)
    assert "secret" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_no_local_path_from_far_away(tmp_path: Path, store: Store) -> None:
    module = f'[submodule "x"]\n\tpath = sub\n\turl = {tmp_path}/secret\n'
    source = made(store, tmp_path, {"sub": ("160000", "1" * 40), ".gitmodules": module})
    with pytest.raises(SubmoduleInvalid, match="a path on this machine"):
        sources.resolve_submodules(
            "x", "https://h/x", source.tree, "all", {}, store=store, root=tmp_path, say=quiet
        )


# --- pins and verification


def locked(
    store: Store, files: FileStore, repo: Repo, commit: str, **subs: LockedSubmodule
) -> LockedSource:
    tree = fetched(store, repo, commit)
    source = SourceTree("kern", tree, {p: s.tree for p, s in subs.items()})
    content = staging.content(source, store=store, files=files)
    return LockedSource(
        ZERO, repo.url, commit, tree, content, 1_700_000_120, Final(tree, content), submodules=subs
    )


def test_pins(tmp_path: Path) -> None:
    sub = LockedSubmodule("./a/common.git", "2" * 40, "3" * 40)
    one = LockedSource(
        ZERO, "./a/kern.git", "1" * 40, "4" * 40, ZERO, 0, Final("4" * 40, ZERO),
        reachable_from="refs/heads/main", submodules={"third_party/common": sub},
    )  # fmt: skip
    other = replace(one, url="https://h/other.git", submodules={})
    lane = Lane(
        1, "i", "i", (), Build("12.1a"),
        {"kern": Source("./a/kern.git", mirrors=("https://m/x/kern.git",)),
         "b": Source("https://h/other.git")},
        {},
    )  # fmt: skip
    lock = Lock(1, LockedImage(ZERO), {"kern": one, "b": other}, {})
    assert sources.pins(lane, lock, root=tmp_path) == (
        GitPin(
            "b",
            ("https://h/other.git", f"{tmp_path}/a/kern.git", "https://m/x/kern.git"),
            "1" * 40,
            "refs/heads/main",
        ),
        GitPin(
            "kern/third_party/common",
            (f"{tmp_path}/a/common.git", "https://m/x/common.git"),
            "2" * 40,
        ),
    )


def test_verify(tmp_path: Path, store: Store, files: FileStore) -> None:
    repo, commit = kern(tmp_path)
    lock = locked(store, files, repo, commit)

    def verify(lock: LockedSource) -> list[tuple[str, str]]:
        try:
            done = sources.verify("kern", lock, place=PLACE, store=store, files=files, say=quiet)
        except ImgbuildError as error:
            if type(error).code != error.findings[0].code:
                raise
            return [(f.code, ".".join(map(str, f.place.key))) for f in error.findings if f.place]
        assert done.source == sources.source_tree("kern", lock)
        return []

    assert lock.content == KERN_CONTENT
    assert verify(lock) == []
    other = replace(lock, tree="5" * 40, final=replace(lock.final))
    assert verify(other) == [("tree-mismatch", "sources.kern.tree")]
    assert verify(replace(lock, content=ZERO)) == [("content-mismatch", "sources.kern.content")]
    absent = replace(lock, commit="6" * 40)
    assert verify(absent) == [("commit-missing", "sources.kern.commit")]
    gone = {"x": LockedSubmodule("./x", "7" * 40, "8" * 40)}
    assert verify(replace(lock, tree="5" * 40, submodules=gone)) == [
        ("tree-mismatch", "sources.kern.tree"),
        ("commit-missing", "sources.kern.submodules.x.commit"),
    ]


def test_a_tree_mismatch_says_what_to_do(tmp_path: Path, store: Store, files: FileStore) -> None:
    repo, commit = kern(tmp_path)
    lock = replace(locked(store, files, repo, commit), tree="5" * 40)
    with pytest.raises(sources.TreeMismatch) as caught:
        sources.verify("kern", lock, place=PLACE, store=store, files=files, say=quiet)
    (finding,) = caught.value.findings
    assert finding.what.endswith("the lock says 555555555555")
    assert finding.hint == restoring("demo")


def test_a_moved_gitlink_is_found(tmp_path: Path, store: Store, files: FileStore) -> None:
    top, c_top, _, _ = nest(tmp_path)
    tree = fetched(store, top, c_top)
    subs = resolve(store, tmp_path, tree)
    good = locked(store, files, top, c_top, **subs)
    leaf = subs["third_party/mid/sub/leaf"]
    subs["third_party/mid"] = leaf
    bad = replace(good, submodules=subs)
    with pytest.raises(sources.TreeMismatch, match="the gitlink third_party/mid holds commit"):
        sources.verify("top", bad, place=PLACE, store=store, files=files, say=quiet)


def test_an_unsafe_tree_is_not_verified(tmp_path: Path, store: Store, files: FileStore) -> None:
    repo = Repo(tmp_path / "evil.git")
    commit = repo.commit({"a": ("120000", "../../etc/passwd"), ".GIT": "x", "b\nc": "x"})
    tree = fetched(store, repo, commit)
    lock = LockedSource(ZERO, repo.url, commit, tree, ZERO, 0, Final(tree, ZERO))
    with pytest.raises(trees.TreeUnsafe) as caught:
        sources.verify("evil", lock, place=PLACE, store=store, files=files, say=quiet)
    assert len(caught.value.findings) == 3
    assert not any("\n" in f.what for f in caught.value.findings)


# --- archives


def names(archive: Archive) -> dict[str, str]:
    with tarfile.open(archive.path) as tar:
        return {m.name: f"{m.mode:o} {m.linkname or m.type.decode()}" for m in tar}


def test_an_archive(tmp_path: Path, store: Store, files: FileStore) -> None:
    repo, commit = kern(tmp_path)
    source = SourceTree("kern", fetched(store, repo, commit))
    archive = staging.archive(source, store=store, files=files)
    assert archive.new
    assert archive.sha256 == KERN_CONTENT
    deep = "kern/deep" + "/folderfolderfolderfolder" * 5
    held = names(archive)
    assert list(held) == sorted(held, key=str.encode)
    assert held == {
        "kern": "755 5", "kern/README.md": "644 0", "kern/a": "755 5", "kern/a.txt": "644 0",
        "kern/a/b.txt": "644 0", "kern/csrc": "755 5", "kern/csrc/axpy.cu": "644 0",
        "kern/csrc/kern.h": "644 0", "kern/deep": "755 5",
        **{deep.rsplit("/", i)[0]: "755 5" for i in range(5)}, f"{deep}/file.py": "644 0",
        "kern/docs": "755 5", "kern/docs/latest": "777 ../README.md",
        "kern/docs/übersicht.md": "644 0", "kern/tools": "755 5", "kern/tools/run": "755 0",
    }  # fmt: skip
    again = staging.archive(source, store=store, files=files)
    assert (again.sha256, again.new) == (archive.sha256, False)
    archive.path.chmod(0o644)
    archive.path.write_bytes(b"damaged")
    assert staging.archive(source, store=store, files=files).new
    subprocess.run(("tar", "-xf", archive.path, "-C", tmp_path), check=True)
    assert (tmp_path / "kern/docs/latest").read_text() == "kern\n"


def test_a_split(tmp_path: Path, store: Store, files: FileStore) -> None:
    repo, commit = kern(tmp_path)
    source = SourceTree("kern", fetched(store, repo, commit))
    native = staging.archive(source, store=store, files=files, only=("csrc", "a.txt"))
    rest = staging.archive(source, store=store, files=files, without=("csrc", "a.txt"))
    whole = staging.archive(source, store=store, files=files)
    assert list(names(native)) == [
        "kern", "kern/a.txt", "kern/csrc", "kern/csrc/axpy.cu", "kern/csrc/kern.h",
    ]  # fmt: skip
    both = names(native) | names(rest)
    assert both == names(whole)
    assert {n for n in names(native) if n in names(rest)} == {"kern"}
    other = repo.commit({"csrc/kern.h": "int axpy(void);\n", "a.txt": "1\n", "more.py": "x\n",
                         "csrc/axpy.cu": "".join(f"line {i}\n" for i in range(1, 31))})  # fmt: skip
    moved = SourceTree("kern", fetched(store, repo, other))
    same = staging.archive(moved, store=store, files=files, only=("csrc", "a.txt"))
    assert same.sha256 == native.sha256  # a change in Python compiles nothing


def test_submodules_and_desktop_files(tmp_path: Path, store: Store, files: FileStore) -> None:
    top, c_top, _, _ = nest(tmp_path)
    tree = fetched(store, top, c_top)
    subs = {path: s.tree for path, s in resolve(store, tmp_path, tree).items()}
    filled = staging.archive(SourceTree("top", tree, subs), store=store, files=files)
    assert "top/third_party/mid/sub/leaf/leaf.h" in names(filled)
    empty = staging.archive(SourceTree("top", tree), store=store, files=files)
    assert list(names(empty)) == ["top", "top/.gitmodules", "top/top.c"]
    mac = made(store, tmp_path, {"a/._b": "x", ".DS_Store": "x", "a/b": "x"})
    assert staging.left_out(mac, store=store) == (".DS_Store", "a/._b")
    assert list(names(staging.archive(mac, store=store, files=files))) == [
        "made", "made/a", "made/a/b",
    ]  # fmt: skip
    with pytest.raises(trees.TreeUnsafe, match="no gitlink at b"):
        staging.archive(replace(mac, submodules={"b": tree}), store=store, files=files)


def test_deps_archive(tmp_path: Path, store: Store, files: FileStore) -> None:
    top, c_top, _, _ = nest(tmp_path)
    tree = fetched(store, top, c_top)
    subs = resolve(store, tmp_path, tree)
    leaf = subs["third_party/mid/sub/leaf"].tree
    deps = [("MSA", SourceTree("msa", tree)), ("MSA/third_party/mid", SourceTree("leaf", leaf))]
    archive = staging.deps_archive(deps, store=store, files=files)
    assert list(names(archive)) == [
        "MSA", "MSA/.gitmodules", "MSA/third_party", "MSA/third_party/mid",
        "MSA/third_party/mid/leaf.h", "MSA/top.c",
    ]  # fmt: skip
    raw = gzip.decompress(archive.path.read_bytes())
    assert len(raw) % 512 == 0
    assert archive.path.read_bytes()[:10] == (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff")
    assert staging.deps_archive(deps[::-1], store=store, files=files).new is False
    with pytest.raises(trees.TreeUnsafe, match="there 2 times"):
        staging.deps_archive([deps[0], deps[0]], store=store, files=files)


_ARCHIVE = """
import os, sys
from pathlib import Path
from builder.model.values import GitPin, SourceTree
from builder.steps import staging
from builder.tools.files import FileStore
from builder.tools.git_store import Store
os.umask(int(sys.argv[4], 8))
cache = Path(sys.argv[1])
store = Store(cache)
store.fetch([GitPin("kern", (sys.argv[2],), sys.argv[3])], say=lambda _: None)
source = SourceTree("kern", store.commit(sys.argv[3]).tree)
print(staging.archive(source, store=store, files=FileStore(cache)).sha256)
"""
_CONFIGS = (
    "",
    "[core]\n\tautocrlf = true\n\teol = crlf\n\tignorecase = true\n\tquotepath = true\n"
    "[tar]\n\tumask = 077\n[i18n]\n\tlogOutputEncoding = latin1\n",
)


@pytest.mark.parametrize("umask", ["000", "077"])
@pytest.mark.parametrize(
    ("zone", "lang", "config"),
    [("UTC", "C", 0), ("Pacific/Kiritimati", "tr_TR.UTF-8", 1), ("America/St_Johns", "POSIX", 1)],
)
def test_the_bytes_are_the_same_everywhere(
    tmp_path: Path, umask: str, zone: str, lang: str, config: int
) -> None:
    repo, commit = kern(tmp_path)
    (tmp_path / ".gitconfig").write_text(_CONFIGS[config])
    env = {"PATH": os.environ["PATH"], "TZ": zone, "LANG": lang, "HOME": str(tmp_path)}
    env |= {"LC_ALL": lang, "PYTHONPATH": str(Path(__file__).parents[2])}
    words = (sys.executable, "-c", _ARCHIVE, str(tmp_path / "c"), repo.url, commit, umask)
    done = subprocess.run(words, env=env, capture_output=True, text=True, cwd="/", check=False)
    assert done.stdout.strip() == KERN_CONTENT, done.stderr


# --- patches


def patch(name: str, *changes: str, file: str = "csrc/axpy.cu") -> PatchFile:
    data = f"--- a/{file}\n+++ b/{file}\n{''.join(changes)}".encode()
    digest = hashlib.sha256(data).hexdigest()
    return PatchFile(f"patches/kern/gb10/{name}.patch", f"sha256:{digest}", data)


def new_file(name: str, file: str) -> PatchFile:
    data = (
        f"diff --git a/{file} b/{file}\nnew file mode 100644\n--- /dev/null\n+++ b/{file}\n"
        "@@ -0,0 +1 @@\n+new\n"
    ).encode()
    digest = hashlib.sha256(data).hexdigest()
    return PatchFile(f"patches/kern/gb10/{name}.patch", f"sha256:{digest}", data)


CHANGE = patch("0001-change", "@@ -4,3 +4,3 @@\n line 4\n-line 5\n+LINE 5\n line 6\n")
THERE = patch("0002-there", "@@ -9,3 +9,3 @@\n line 9\n-LINE 10\n+line 10\n line 11\n")
FAILS = patch("0003-fails", "@@ -19,3 +19,3 @@\n line 19\n-LINE 20\n+new\n line 21\n")
GONE = patch("0004-gone", "@@ -1 +1 @@\n-kern\n+Kern\n", file="doc/README.md")
ADDS = patch("0005-adds", "@@ -1 +1 @@\n-1\n+2\n", file="a.txt")


def test_patch_states(tmp_path: Path, store: Store) -> None:
    repo, commit = kern(tmp_path)
    source = SourceTree("kern", fetched(store, repo, commit))
    done = patches.apply(source, [CHANGE, THERE], store=store)
    assert [(r.state, r.tree) for r in done.patches] == [
        ("applied", AFTER_CHANGE),
        ("already-there", AFTER_CHANGE),
    ]
    assert b"LINE 5\n" in (store.blob(done.source.tree, "csrc/axpy.cu") or b"")
    assert not list(store.tmp.iterdir())


def test_failing_patches_are_explained(tmp_path: Path, store: Store) -> None:
    repo, commit = kern(tmp_path)
    source = SourceTree("kern", fetched(store, repo, commit), {"sub": "x"})
    into = patch("0006-into", "@@ -1 +1 @@\n-1\n+2\n", file="sub/x")
    again = patch("0007-again", "@@ -1 +1 @@\n-x\n+y\n")
    with pytest.raises(patches.PatchFailed) as caught:
        patches.apply(source, [CHANGE, FAILS, GONE, ADDS, into, again], store=store)
    fails, gone, inside = caught.value.findings  # `again` touches what `fails` touches
    assert (
        fails.what == "patches/kern/gb10/0003-fails.patch does not apply to kern at csrc/axpy.cu:19"
    )
    assert fails.place == Place(Path("patches/kern/gb10/0003-fails.patch"), 3)
    assert "    20  line 20" in fails.detail
    assert "error: patch failed" in fails.detail
    assert gone.hint == "doc/README.md is gone upstream; is it README.md now?"
    assert "submodule sub" in inside.hint


@pytest.mark.parametrize("three_way", [False, True])
def test_a_file_where_upstream_has_a_folder(tmp_path: Path, store: Store, three_way: bool) -> None:
    source = made(store, tmp_path, {"f": "1\n", "d/x": "1\n"})
    options = PatchOptions(three_way=three_way)
    below = replace(new_file("0001-below", "f/x"), options=options)
    above = replace(new_file("0002-above", "d"), options=options)
    fine = new_file("0003-fine", "e/x")
    done, failed = patches.examine(source, [below, above, fine], store=store)
    assert [one.finding.what for one in failed] == [
        "patches/kern/gb10/0001-below.patch does not apply to made",
        "patches/kern/gb10/0002-above.patch does not apply to made",
    ]
    assert [one.finding.hint for one in failed] == [
        "upstream has f as a file: name it otherwise",
        "upstream has d as a folder: name it otherwise",
    ]
    assert [e.path for e in store.entries(done.source.tree)] == ["d/x", "e/x", "f"]


def test_crlf_targets_are_told(tmp_path: Path, store: Store) -> None:
    source = made(store, tmp_path, {"make.bat": "a\r\nb\r\nc\r\n"})
    wrong = patch("crlf", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", file="make.bat")
    with pytest.raises(patches.PatchFailed) as caught:
        patches.apply(source, [wrong], store=store)
    assert "has CRLF line ends" in caught.value.findings[0].hint
    right = patch("crlf", "@@ -1,3 +1,3 @@\n a\r\n-b\r\n+B\r\n c\r\n", file="make.bat")
    assert patches.apply(source, [right], store=store).patches[0].state == "applied"


@pytest.mark.parametrize(
    "target", ["../../x", "/tmp/imgbuild-is-never-here", ".git/hooks/x", "link/x"]
)
def test_patches_write_nowhere_else(tmp_path: Path, store: Store, target: str) -> None:
    source = made(store, tmp_path, {"link": ("120000", str(tmp_path))})
    data = (
        f"diff --git a/{target} b/{target}\nnew file mode 100644\n"
        f"--- /dev/null\n+++ b/{target}\n@@ -0,0 +1 @@\n+x\n"
    )
    evil = PatchFile("evil.patch", "", data.encode())
    try:
        done = patches.apply(source, [evil], store=store)
    except patches.PatchFailed:
        pass
    else:
        assert trees.check("made", store.entries(done.source.tree), store=store)
    assert not (tmp_path / "x").exists()
    assert not Path("/tmp/imgbuild-is-never-here").exists()


def test_drift(tmp_path: Path, store: Store) -> None:
    repo, commit = kern(tmp_path)
    source = SourceTree("kern", fetched(store, repo, commit))
    done = patches.apply(source, [CHANGE, ADDS], store=store)
    lines = tuple(LockedPatch(r.patch.path, r.patch.sha256, r.state, r.tree) for r in done.patches)
    lock = LockedSource(
        ZERO, repo.url, commit, source.tree, ZERO, 0, Final(done.source.tree, ZERO), patches=lines
    )
    patches.check_locked(done, lock, PLACE)
    first = lines[0]
    for changed, says in (
        (replace(first, sha256=ZERO), "0001-change.patch is sha256:"),
        (replace(first, state="already-there"), "is applied, the lock says already-there"),
        (replace(first, result_tree="1" * 40), "0001-change.patch gives tree"),
        (replace(first, path="other"), "the set names patches/kern/gb10/0001-change.patch"),
    ):
        other = replace(lock, patches=(changed, lines[1]))
        with pytest.raises(patches.PatchDrift, match=says) as caught:
            patches.check_locked(done, other, PLACE)
        place = caught.value.findings[0].place
        assert place is not None
        assert place.key == ("sources", "kern", "patches", 0)
    with pytest.raises(patches.PatchDrift, match="2 patches, the lock has 1"):
        patches.check_locked(done, replace(lock, patches=lines[:1]), PLACE)
    with pytest.raises(patches.PatchDrift, match="the result is tree"):
        patches.check_locked(done, replace(lock, final=Final("1" * 40, ZERO)), PLACE)


AFTER_CHANGE = "e49117e1736e0336e7b46a61cfc3cc2f09a378b0"
