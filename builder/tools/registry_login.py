"""Logins that `docker login` left on this host: its config file and its credential helpers.

https://docs.docker.com/reference/cli/docker/login/#credential-stores
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builder.errors import ToolMissing
from builder.tools import process

_HELPER_S = 30.0


@dataclass(frozen=True, slots=True)
class Login:
    """Never shown; `user` is empty for an identity token."""

    user: str = field(repr=False)
    secret: str = field(repr=False)

    @property
    def basic(self) -> str:
        return "Basic " + base64.b64encode(f"{self.user}:{self.secret}".encode()).decode()


def login(host: str) -> Login | None:
    """What docker would log in with at this registry, if anything."""
    config = _config()
    helper = (config.get("credHelpers") or {}).get(host) or config.get("credsStore")
    if helper and (found := _asked(str(helper), host)):
        return found
    for name, entry in (config.get("auths") or {}).items():
        if re.sub(r"^https?://|/.*$", "", name) == host:
            return _written(entry)
    return None


def _config() -> Mapping[str, Any]:
    folder = os.environ.get("DOCKER_CONFIG") or Path("~/.docker").expanduser()
    try:
        found = json.loads((Path(folder) / "config.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _written(entry: Mapping[str, str]) -> Login | None:
    if token := entry.get("identitytoken"):
        return Login("", token)
    try:
        user, colon, secret = base64.b64decode(entry.get("auth") or "").decode().partition(":")
    except ValueError:
        return None
    return Login(user, secret.rstrip("\0")) if colon else None


def _asked(helper: str, key: str) -> Login | None:
    """What the helper answers; nothing when it has nothing, or is not there."""
    if not re.fullmatch(r"[A-Za-z0-9._-]+", helper):
        return None
    try:
        done = process.run([f"docker-credential-{helper}", "get"], env=process.environment("*"),
                           timeout_s=_HELPER_S, stdin=key.encode(), check=False)  # fmt: skip
        found = json.loads(done.stdout) if done.returncode == 0 else {}
    except (ToolMissing, ValueError, RecursionError):
        return None
    user, secret = found.get("Username"), found.get("Secret")
    if not secret:
        return None
    return Login("" if user == "<token>" else str(user), str(secret))
