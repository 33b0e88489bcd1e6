"""What every git starts with: a fixed configuration and environment, and no other.

All of it goes by GIT_CONFIG_COUNT/KEY/VALUE variables, never by arguments, which other
users of the machine can read: a person's `http.extraHeader` may hold a token.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from builder.errors import ToolFailed
from builder.model.ids import is_local_url
from builder.tools import process

Setting = tuple[str, str]

FIXED: tuple[Setting, ...] = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.attributesFile", "/dev/null"),
    ("core.excludesFile", "/dev/null"),
    ("core.autocrlf", "false"),
    ("core.alternateRefsPrefixes", "refs/none/"),  # what we have is told by us: git_fetch
    ("core.quotePath", "false"),
    ("apply.whitespace", "nowarn"),
    ("apply.ignoreWhitespace", "no"),
    ("fetch.recurseSubmodules", "false"),
    ("fetch.unpackLimit", "1"),  # always a pack: it can be moved in one piece
    ("fetch.writeCommitGraph", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("http.lowSpeedLimit", "1000"),  # bytes a second, for
    ("http.lowSpeedTime", "60"),  # seconds: a stalled transfer ends
    ("protocol.version", "2"),
    ("submodule.recurse", "false"),
)
_USERS = ("url.", "credential.", "http.", "safe.")
_USERS_EXACT = ("core.sshcommand", "core.askpass", "core.gitproxy", "ssh.variant")
_NETWORK_VARIABLES = (
    "SSH_AUTH_SOCK", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "DISPLAY", "WAYLAND_DISPLAY",
    "DBUS_SESSION_BUS_ADDRESS", "GIT_SSL_*", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT",
    "GIT_ASKPASS", "GIT_HTTP_*", "ALL_PROXY", "all_proxy",
)  # fmt: skip


def local(git_dir: Path, **further: str) -> dict[str, str]:
    """For what happens inside our own repository: no network, no foreign setting."""
    return process.environment(
        GIT_DIR=str(git_dir), GIT_ALLOW_PROTOCOL="", **_base(), **_config(FIXED), **further
    )


def network(git_dir: Path, url: str, own: Sequence[Setting]) -> dict[str, str]:
    """For a transfer from `url`, with the person's `own` rewriting, credentials and ssh.

    https and ssh may be used; a local path only where `url` is one, or where the person's own
    `url.<base>.insteadOf` makes it one (so too http: a mirror in one's own network). Objects
    are known by their ids, so a mirror need not be trusted. `ext::` and `fd::` never.
    """
    used = rewritten(url, own)
    allowed = ["https", "ssh"]
    if is_local_url(used):
        allowed.append("file")
    elif used != url and used.startswith("http://"):
        allowed.append("http")
    return process.environment(
        *_NETWORK_VARIABLES,
        GIT_DIR=str(git_dir),
        GIT_ALLOW_PROTOCOL=":".join(allowed),
        **_base(),
        **_config((*FIXED, *own)),
    )


def users_settings() -> tuple[Setting, ...]:
    """Those settings of the person and the machine that decide how a server is reached."""
    env = process.environment("GIT_CONFIG*", GIT_CEILING_DIRECTORIES="/", GIT_DIR=os.devnull)
    argv = ("git", "config", "--list", "--includes", "--show-scope", "-z")
    done = process.run(argv, env=env, timeout_s=30, cwd=Path("/"), check=False)
    if done.returncode:
        raise ToolFailed("git cannot read your git configuration", detail=done.complaint)
    fields = done.stdout.decode("utf-8", "surrogateescape").split("\0")
    found = []
    for scope, entry in zip(fields[::2], fields[1::2], strict=False):
        key, _, value = entry.partition("\n")
        if scope in ("system", "global", "command") and _matters(key):
            found.append((key, value if "\n" in entry else "true"))
    return tuple(found)


def rewritten(url: str, settings: Iterable[Setting]) -> str:
    """The URL that git will use: the longest `url.<base>.insteadOf` that fits wins."""
    best, base = "", ""
    for key, value in settings:
        fits = key.startswith("url.") and key.endswith(".insteadof") and url.startswith(value)
        if fits and len(value) > len(best):
            best, base = value, key[len("url.") : -len(".insteadof")]
    return base + url[len(best) :] if best else url


def version() -> tuple[int, ...]:
    """Of the git that is installed: (2, 39, 5)."""
    done = process.run(("git", "version"), env=process.environment(), timeout_s=30)
    number = done.text.split()[2]
    return tuple(int(part) for part in number.split(".") if part.isdigit())


def _matters(key: str) -> bool:
    if key.startswith("url."):
        return key.endswith(".insteadof")
    return key.startswith(_USERS) or key in _USERS_EXACT


def _base() -> dict[str, str]:
    return {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "TZ": "UTC",
    }


def _config(settings: Iterable[Setting]) -> dict[str, str]:
    variables = {"GIT_CONFIG_COUNT": "0"}
    for i, (key, value) in enumerate(settings):
        variables |= {f"GIT_CONFIG_KEY_{i}": key, f"GIT_CONFIG_VALUE_{i}": value}
        variables["GIT_CONFIG_COUNT"] = str(i + 1)
    return variables
