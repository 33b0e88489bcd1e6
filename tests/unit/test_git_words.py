"""What git says, told apart; and the URLs that it will use."""

import io
import re
from pathlib import Path

import pytest

from builder.steps.submodules import relative
from builder.tools import git_env, git_words
from builder.tools.git_words import Why


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("fatal: remote error: upload-pack: not our ref 323107ff", Why.REFUSED),
        ("error: Server does not allow request for unadvertised object 32", Why.REFUSED),
        ("fatal: couldn't find remote ref refs/heads/x", Why.REFUSED),
        ("fatal: Authentication failed for 'https://h/x'", Why.AUTH),
        ("fatal: could not read Username for 'https://h': terminal prompts disabled", Why.AUTH),
        ("git@h: Permission denied (publickey).\nfatal: Could not read from remote", Why.AUTH),
        ("Host key verification failed.\nfatal: the remote end hung up", Why.HOST_KEY),
        ("error: RPC failed; HTTP 503\nfatal: the remote end hung up", Why.TRANSIENT),
        ("fatal: unable to access 'x': The requested URL returned error: 503", Why.TRANSIENT),
        ("fatal: unable to access 'x': The requested URL returned error: 404", Why.NOT_FOUND),
        ("fatal: unable to access 'x': Could not resolve host: h", Why.UNREACHABLE),
        ("fetch-pack: unexpected disconnect\nfatal: early EOF", Why.TRANSIENT),
        ("remote: aborting due to possible repository corruption\nfatal: early EOF", Why.DAMAGED),
        ("fatal: repository 'https://h/x/' not found", Why.NOT_FOUND),
        ("fatal: transport 'ext' not allowed", Why.FORBIDDEN),
        ("fatal: detected dubious ownership in repository at '/x'", Why.OWNER),
        ("fatal: write error: No space left on device\nfatal: early EOF", Why.FULL),
        ("error: file write error: Disk quota exceeded", Why.FULL),
        ("fatal: something new", Why.OTHER),
    ],
)
def test_why(words: str, why: Why) -> None:
    assert git_words.why(words) is why


def test_last_words_hold_no_secret_no_escape_no_progress() -> None:
    stderr = (
        "remote: Counting objects: 1 (delta 0)\rReceiving objects:  42% (1/2)\r"
        "remote: \x1b]52;c;ZXZpbA==\x07\n"
        "fatal: unable to access 'https://user:token@h/x/': no\n"
    )
    said = git_words.last_words(stderr)
    assert "token" not in said
    assert "\x1b" not in said
    assert "Receiving" not in said
    assert said.endswith("fatal: unable to access 'https://…@h/x/': no")


def test_progress_lines() -> None:
    pipe = io.BufferedReader(io.BytesIO(
        b"Receiving objects:  42% (1/3), 3.10 MiB | 2.00 MiB/s\r"
        b"Receiving objects: 100% (3/3), 512 bytes | 1 KiB/s, done.\nrest"
    ))  # fmt: skip
    lines = list(git_words.lines(pipe))
    assert [git_words.amount(line) for line in lines] == [3250586, 512, None]


def test_the_longest_rewriting_wins() -> None:
    settings = [
        ("url./a/.insteadof", "https://github.com/"),
        ("url./b/.insteadof", "https://github.com/lab/"),
        ("url.ssh://x/.pushinsteadof", "https://github.com/lab/kern"),
    ]
    assert git_env.rewritten("https://github.com/lab/kern.git", settings) == "/b/kern.git"
    assert git_env.rewritten("https://gitlab.com/x", settings) == "https://gitlab.com/x"


@pytest.mark.parametrize(
    ("url", "parent", "full"),
    [
        ("../common.git", "https://h/lab/kern.git", "https://h/lab/common.git"),
        ("../../other/x", "https://h/lab/kern.git/", "https://h/other/x"),
        ("./sub", "https://h/lab/kern.git", "https://h/lab/kern.git/sub"),
        ("../common.git", "git@h:lab/kern.git", "git@h:lab/common.git"),
        ("../../x.git", "git@h:lab/kern.git", "git@h:x.git"),
        ("../common.git", "./sources/kern.git", "./sources/common.git"),
        ("../common.git", "/srv/kern.git", "/srv/common.git"),
        ("https://e/x", "https://h/lab/kern.git", "https://e/x"),
    ],
)
def test_relative_urls(url: str, parent: str, full: str) -> None:
    assert relative(url, parent) == full


def test_a_relative_url_stays_on_its_host() -> None:
    with pytest.raises(ValueError, match="above"):
        relative("../../../x", "https://h/lab/kern.git")


def test_gitpython_is_imported_in_one_module() -> None:
    package = Path(git_env.__file__).parents[1]
    importing = re.compile(r"^\s*(?:import git\b|from git(?:\.| import\b))", re.MULTILINE)
    found = [p.name for p in sorted(package.rglob("*.py")) if importing.search(p.read_text())]
    assert found == ["git_read.py"]
