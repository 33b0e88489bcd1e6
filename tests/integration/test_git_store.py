"""The store against real repositories: the ladder, what it says, and that it stays whole."""

import random
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder.model.values import CommitInfo, GitPin
from builder.tools import git_read
from builder.tools.git_fetch import SourceUnavailable
from builder.tools.git_quarantine import sweep
from builder.tools.git_store import Store
from tests.integration.git_http import GitServer, serving
from tests.integration.repositories import Repo, kern, quiet

KERN = "332ff1863f938d992257db1686dd08f88a5e70c8"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's home with a git configuration of their own."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return folder


@pytest.fixture
def server(tmp_path: Path, home: Path) -> Iterator[GitServer]:
    """Serves tmp_path as https://git.test/, by the person's own rewriting."""
    with serving(tmp_path) as server:
        (home / ".gitconfig").write_text(
            f'[url "http://127.0.0.1:{server.port}/"]\n\tinsteadOf = https://git.test/\n'
        )
        yield server


def fetch_error(store: Store, *pins: GitPin) -> SourceUnavailable:
    with pytest.raises(SourceUnavailable) as caught:
        store.fetch(pins, say=quiet)
    assert not any(store.has(pin.commit) for pin in pins)
    assert not list((store.git_dir / "objects/pack").glob("*"))
    assert not list(store.tmp.iterdir())
    return caught.value


def test_a_pin_is_fetched_at_depth_one(tmp_path: Path, store: Store) -> None:
    repo, commit = kern(tmp_path)
    assert commit == KERN
    pin = GitPin("kern", (repo.url,), commit)
    (got,) = store.fetch([pin], say=quiet)
    assert got.url == repo.url
    assert got.size > 500
    assert store.has(commit)
    assert store.commit(commit) == CommitInfo(
        commit, repo.git("rev-parse", "HEAD^{tree}"), 1_700_000_120,
        "A. Author <author@example.invalid>", "commit 2",
        ("b829ecf469bc3f75523acffd55f268f8e7e58798",),
    )  # fmt: skip
    log = subprocess.run(
        ("git", "--git-dir", store.git_dir, "log", "--format=%H", commit),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert log.stdout.split() == [commit]
    subprocess.run(("git", "--git-dir", store.git_dir, "fsck", "--strict"), check=True)


def test_what_is_there_needs_no_process(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, commit = kern(tmp_path)
    pin = GitPin("kern", (repo.url,), commit)
    store.fetch([pin], say=quiet)
    monkeypatch.setenv("PATH", "/nonexistent")
    assert [got.url for got in store.fetch([pin], say=quiet)] == [None]
    subprocess.run(("/usr/bin/git", "--git-dir", store.git_dir, "pack-refs", "--all"), check=True)
    assert store.has(commit)
    assert not store.has("0" * 40)


def test_reading(tmp_path: Path, store: Store) -> None:
    repo, commit = kern(tmp_path)
    store.fetch([GitPin("kern", (repo.url,), commit)], say=quiet)
    tree = store.commit(commit).tree
    assert store.blob(tree, "README.md") == b"kern\n"
    assert store.blob(tree, "docs/übersicht.md") == b"x\n"
    assert [store.blob(tree, p) for p in ("gone", "csrc", "docs/latest", "README.md/x")] == [
        None
    ] * 4
    entries = store.entries(tree)
    assert [e.path for e in entries][:3] == ["README.md", "a.txt", "a/b.txt"]
    assert {e.mode for e in entries} == {"100644", "100755", "120000"}
    objects = [e.object for e in entries]
    assert [name for name, _ in store.stream(objects)] == objects
    first = store.stream(objects)
    next(first)
    del first  # a reader that stops early leaves no process behind


def test_a_damaged_object_is_found(tmp_path: Path, store: Store) -> None:
    repo, commit = kern(tmp_path)
    store.fetch([GitPin("kern", (repo.url,), commit)], say=quiet)
    entry = store.entries(store.commit(commit).tree)[0]
    with pytest.raises(git_read.ObjectDamaged, match="cannot be read"):
        list(store.stream(["1" * 40]))
    with pytest.raises(git_read.ObjectDamaged, match="holds other bytes"):
        git_read._prove(entry.object, b"other", store.git_dir)


def test_names_that_are_not_utf8(tmp_path: Path, store: Store) -> None:
    repo = Repo(tmp_path / "odd.git")
    commit = repo.commit_tree(repo.raw_tree({b"caf\xe9": ("100644", repo.blob(b""))}))
    store.fetch([GitPin("odd", (repo.url,), commit)], say=quiet)
    with pytest.raises(git_read.NameUnreadable, match=r"caf\\xe9"):
        store.entries(store.commit(commit).tree)


def test_only_what_is_new_is_moved(tmp_path: Path, store: Store) -> None:
    repo = Repo(tmp_path / "big.git")
    big = random.Random(1).randbytes(300_000)
    first = repo.commit({"big": big, "a": "1"})
    second = repo.commit({"big": big, "a": "2"})
    sizes = [
        store.fetch([GitPin("big", (repo.url,), c)], say=quiet)[0].size for c in (first, second)
    ]
    assert sizes[0] > 300_000
    assert sizes[1] < 5_000
    subprocess.run(("git", "--git-dir", store.git_dir, "fsck", "--connectivity-only"), check=True)


def test_resolve(tmp_path: Path, store: Store) -> None:
    repo, commit = kern(tmp_path)
    repo.git("tag", "-a", "-m", "v1", "v1", commit, GIT_COMMITTER_DATE="1700000000 +0000")
    for ref in ("HEAD", "refs/heads/main", "refs/tags/v1"):
        assert store.resolve([str(tmp_path / "gone"), repo.url], ref) == commit
    with pytest.raises(SourceUnavailable) as caught:
        store.resolve([repo.url], "refs/heads/mian")
    assert "near: main" in caught.value.findings[0].detail


def test_the_next_place_is_tried(tmp_path: Path, store: Store) -> None:
    repo, commit = kern(tmp_path)
    other = Repo(tmp_path / "other.git")
    other.commit({"x": "y"})
    urls = (str(tmp_path / "gone.git"), other.url, repo.url)
    (got,) = store.fetch([GitPin("kern", urls, commit)], say=quiet)
    assert got.url == repo.url


def test_every_attempt_is_told(tmp_path: Path, store: Store) -> None:
    other = Repo(tmp_path / "other.git")
    other.commit({"x": "y"})
    gone = str(tmp_path / "gone.git")
    error = fetch_error(
        store,
        GitPin("kern", (gone, other.url), KERN, "refs/heads/main"),
        GitPin("b", (gone,), "2" * 40),
    )
    first, second = error.findings
    assert first.what == f"kern: commit {KERN:.12} cannot be had from 2 places"
    assert gone in first.detail
    assert f"not our ref {KERN}" in first.detail
    assert "by refs/heads/main, 5000 deep" in first.detail
    assert "force-pushed" in first.hint
    assert "check the address of b" in second.hint


def test_a_bundle(tmp_path: Path, store: Store) -> None:
    repo, commit = kern(tmp_path)
    bundle = tmp_path / "kern.bundle"
    repo.git("bundle", "create", "-q", str(bundle), "main")
    (got,) = store.fetch([GitPin("kern", (str(bundle),), commit)], say=quiet)
    assert got.url == str(bundle)
    assert store.blob(store.commit(commit).tree, "a.txt") == b"1\n"


def test_a_repository_that_lacks_a_blob(tmp_path: Path, store: Store) -> None:
    repo, commit = kern(tmp_path)
    blob = repo.git("rev-parse", "HEAD:csrc/axpy.cu")
    (repo.path / "objects" / blob[:2] / blob[2:]).unlink()
    error = fetch_error(store, GitPin("kern", (repo.url,), commit, "refs/heads/main"))
    assert "the repository there is damaged or lacks objects" in error.findings[0].detail
    assert "not whole" in error.findings[0].hint


def test_a_bundle_that_lacks_objects(tmp_path: Path, store: Store) -> None:
    repo, commit = kern(tmp_path)
    bundle = tmp_path / "thin.bundle"
    repo.git("bundle", "create", "-q", str(bundle), "main~1..main")
    error = fetch_error(store, GitPin("kern", (str(bundle),), commit))
    assert "as a bundle" in error.findings[0].detail


def test_an_id_that_is_no_commit(tmp_path: Path, store: Store) -> None:
    repo, commit = kern(tmp_path)
    tag = repo.git("mktag", data=f"object {commit}\ntype commit\ntag v1\n"
                   "tagger A <a@b> 1700000000 +0000\n\nv1\n".encode())  # fmt: skip
    repo.git("update-ref", "refs/tags/v1", tag)
    error = fetch_error(store, GitPin("kern", (repo.url,), tag))
    assert "is tag, not a commit" in error.findings[0].detail


def test_over_http(tmp_path: Path, store: Store, server: GitServer) -> None:
    _, commit = kern(tmp_path)
    server.fail_with = [503, 503]
    (got,) = store.fetch([GitPin("kern", ("https://git.test/kern.git",), commit)], say=quiet)
    assert got.url == "https://git.test/kern.git"
    assert store.has(commit)
    assert len([asked for asked in server.asked if "info/refs" in asked]) == 3


def test_a_server_that_stays_broken(tmp_path: Path, store: Store, server: GitServer) -> None:
    _, commit = kern(tmp_path)
    server.fail_with = [503] * 3
    error = fetch_error(store, GitPin("kern", ("https://git.test/kern.git",), commit))
    assert "error: 503" in error.findings[0].detail
    assert "try again later" in error.findings[0].hint


@pytest.mark.parametrize(("status", "hint"), [(401, "credential helper"), (404, "check the add")])
def test_what_is_final_is_tried_once(
    tmp_path: Path, store: Store, server: GitServer, status: int, hint: str
) -> None:
    server.fail_with = [status] * 5
    error = fetch_error(store, GitPin("kern", ("https://git.test/kern.git",), KERN, "refs/heads/m"))
    assert len(server.asked) == 1
    assert hint in error.findings[0].hint


def test_a_server_that_gives_no_bare_ids(tmp_path: Path, store: Store, server: GitServer) -> None:
    repo, commit = kern(tmp_path)
    for i in range(60):
        repo.commit({"README.md": f"{i}\n"})
    server.refuse_ids = True
    pin = GitPin("kern", ("https://git.test/kern.git",), commit)
    error = fetch_error(store, pin)
    assert "unadvertised object" in error.findings[0].detail
    by_ref = GitPin("kern", pin.urls, commit, "refs/heads/main")
    store.fetch([by_ref], say=quiet)
    assert store.blob(store.commit(commit).tree, "a.txt") == b"1\n"


@pytest.mark.parametrize("url", ["ext::sh -c 'touch {canary}' %S", "fd::17/x"])
def test_transports_that_run_programs(tmp_path: Path, store: Store, home: Path, url: str) -> None:
    canary = tmp_path / "canary"
    (home / ".gitconfig").write_text(
        f'[url "{url.format(canary=canary)}"]\n\tinsteadOf = https://evil.test/\n'
        "[protocol]\n\tallow = always\n"
    )
    for place in (url.format(canary=canary), "https://evil.test/x"):
        error = fetch_error(store, GitPin("x", (place,), "3" * 40, "refs/heads/main"))
        assert "not allowed" in error.findings[0].detail
    assert not canary.exists()


def test_http_and_files_only_by_ones_own_rewriting(tmp_path: Path, store: Store) -> None:
    for place in ("http://127.0.0.1:9/x", "git://127.0.0.1:9/x"):
        error = fetch_error(store, GitPin("x", (place,), "3" * 40))
        assert "not allowed" in error.findings[0].detail


def test_nothing_of_a_hostile_repository_runs(
    tmp_path: Path, store: Store, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Canaries in hooks, config and attributes, of the repository and of the person."""
    canary = tmp_path / "canary"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {canary}\ncat\n")
    program.chmod(0o755)
    config = (
        f"[core]\n\tfsmonitor = {program}\n\thooksPath = {tmp_path}/hooks\n\tpager = {program}\n"
        f'[filter "evil"]\n\tclean = {program}\n\tsmudge = {program}\n\trequired = true\n'
        f'[diff]\n\texternal = {program}\n[diff "evil"]\n\ttextconv = {program}\n'
        f"[uploadpack]\n\tpackObjectsHook = {program}\n"
    )
    (home / ".gitconfig").write_text(config.replace("[uploadpack]", "[x]"))
    (tmp_path / "hooks").mkdir()
    repo = Repo(tmp_path / "evil.git")
    commit = repo.commit({".gitattributes": "* filter=evil diff=evil\n", "a": "$Id$\n"})
    for folder in (tmp_path / "hooks", repo.path / "hooks"):
        folder.mkdir(exist_ok=True)
        for hook in ("post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc"):
            (folder / hook).symlink_to(program)
    with (repo.path / "config").open("a") as file:
        file.write(config)
    store.fetch([GitPin("evil", (repo.url,), commit)], say=quiet)
    tree = store.commit(commit).tree
    patch = b"--- a/a\n+++ b/a\n@@ -1 +1 @@\n-$Id$\n+b\n"
    with store.patching(tree) as index:
        assert index.check(patch, strip=1) == ""
        assert store.blob(index.apply(patch, strip=1)[0] or "", "a") == b"b\n"
    assert list(store.stream([e.object for e in store.entries(tree)]))[1][1] == b"$Id$\n"
    assert not canary.exists()


def test_a_tree_that_stands_for_millions_of_paths(tmp_path: Path, store: Store) -> None:
    """Seven trees of ten entries each, one below the other: ten million paths."""
    repo = Repo(tmp_path / "bomb.git")
    below = repo.tree({f"f{i}": "" for i in range(10)})
    for _ in range(6):
        listed = "".join(f"040000 tree {below}\td{i}\n" for i in range(10))
        below = repo.git("mktree", data=listed.encode())
    commit = repo.git("commit-tree", "-m", "x", below)
    store.fetch([GitPin("bomb", (repo.url,), commit)], say=quiet)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(git_read.TreeTooLarge, match="more than 1,000,000 paths"):
        store.entries(below)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kB


def test_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GitPython's own ImportError is never seen."""
    code = (
        "import sys; from pathlib import Path; from builder.tools.git_store import Store\n"
        "from builder.errors import ToolMissing\n"
        "store = Store(Path(sys.argv[1]))\n"
        "for look in (store.commit, store.holds, lambda x: store.blob(x, 'a'), store.entries):\n"
        "    try: look('1' * 40)\n"
        "    except ToolMissing as missing: print(missing)\n"
    )
    (tmp_path / "empty").mkdir()
    env = {"PATH": str(tmp_path / "empty"), "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run((sys.executable, "-c", code, str(tmp_path)), env=env, check=True,
                          capture_output=True, text=True)  # fmt: skip
    assert done.stdout.splitlines() == ["git is not installed"] * 4


_FETCH = """
import sys
from pathlib import Path
from builder.tools.git_store import Store
from builder.model.values import GitPin
pins = [GitPin(f"p{i}", (sys.argv[2],), c) for i, c in enumerate(sys.argv[3:])]
Store(Path(sys.argv[1])).fetch(pins, say=lambda _: None)
"""


def _start(store: Store, repo: Repo, commits: list[str]) -> subprocess.Popen[bytes]:
    cache = str(store.git_dir.parent)
    return subprocess.Popen(
        (sys.executable, "-c", _FETCH, cache, f"file://{repo.path}", *commits),
        cwd=Path(__file__).parents[2],
    )


def _many(tmp_path: Path) -> tuple[Repo, list[str]]:
    repo = Repo(tmp_path / "many.git")
    data = random.Random(2)
    return repo, [repo.commit({f"f{i}": data.randbytes(20_000), "all": f"{i}"}) for i in range(6)]


def test_killed_at_any_moment(tmp_path: Path, store: Store) -> None:
    repo, commits = _many(tmp_path)
    when = random.Random(3)
    for _ in range(10):
        running = _start(store, repo, commits)
        time.sleep(when.uniform(0.08, 0.3))
        running.send_signal(signal.SIGKILL)
        running.wait()
        for commit in commits:  # what is published is whole
            if store.has(commit):
                tree = store.commit(commit).tree
                assert len(list(store.stream([e.object for e in store.entries(tree)]))) == 2
    store.fetch([GitPin("many", (repo.url,), c) for c in commits], say=quiet)
    assert all(map(store.has, commits))
    time.sleep(0.3)  # git processes of the killed ones end by themselves
    sweep(store.tmp)
    assert not [p for p in store.tmp.iterdir() if not p.name.endswith(".new")]
    subprocess.run(("git", "--git-dir", store.git_dir, "fsck"), check=True)


def test_many_processes_at_once(tmp_path: Path, store: Store) -> None:
    repo, commits = _many(tmp_path)
    running = [_start(store, repo, commits[i:] + commits[:i]) for i in range(6)]
    assert [process.wait() for process in running] == [0] * 6
    assert all(map(store.has, commits))
    assert not list(store.tmp.iterdir())
    subprocess.run(("git", "--git-dir", store.git_dir, "fsck"), check=True)


def test_an_interrupt_ends_a_transfer_that_hangs(tmp_path: Path, store: Store) -> None:
    with socket.socket() as mute:  # takes the connection and never answers
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        running = subprocess.Popen(
            (sys.executable, "-c", _FETCH, str(store.git_dir.parent),
             f"https://127.0.0.1:{mute.getsockname()[1]}/x", "1" * 40),
            cwd=Path(__file__).parents[2], stderr=subprocess.DEVNULL,
        )  # fmt: skip
        mute.settimeout(20)
        connection, _ = mute.accept()
        running.send_signal(signal.SIGINT)
        assert running.wait(10) == -signal.SIGINT
        connection.close()
    assert not list(store.tmp.iterdir())
