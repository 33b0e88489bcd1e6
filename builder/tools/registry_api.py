"""Ask an OCI registry whether it serves a manifest, by digest, without Docker.

The distribution specification's HEAD, with the anonymous token that a registry offers. Here no
credentials are read: what only a login reaches is said to be unchecked.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from builder.errors import ToolFailed

if TYPE_CHECKING:
    import requests

    from builder.tools.registry_login import Login

_ACCEPT = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_LIMITS_S = (5.0, 15.0)  # to connect, between two bytes
_TOKEN_BYTES = 1 << 16
_CHALLENGE = re.compile(r'([a-zA-Z_]+)="([^"]*)"')
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class RegistryUnreachable(ToolFailed):
    """The registry gives no answer that says yes or no."""

    code = "registry-unreachable"


class RegistryApi:
    """Implements ports.Registry."""

    def serves(self, ref: str, digest: str) -> bool:
        """Whether the registry of `ref` has the manifest. Raises: RegistryUnreachable."""
        import requests

        host, repository = place(ref)
        scheme = "http" if host.partition(":")[0] in _LOOPBACK else "https"
        url = f"{scheme}://{host}/v2/{repository}/manifests/{digest}"
        try:
            with requests.Session() as session:
                session.max_redirects = 5
                answer = _head(session, url, {})
                if answer.status_code == 401:
                    challenge = answer.headers.get("WWW-Authenticate", "")
                    header = authorization(session, challenge, f"repository:{repository}:pull")
                    answer = _head(session, url, header)
        except (requests.RequestException, ValueError) as error:
            raise RegistryUnreachable(f"{host} does not answer: {_words(error)}") from error
        return _judged(answer, host, digest)


def place(ref: str) -> tuple[str, str]:
    """The registry's host and the repository that a reference means, as Docker reads it."""
    name = ref.partition("@")[0]
    first, slash, rest = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        host, repository = first, rest
    else:
        host, repository = "registry-1.docker.io", name if slash else f"library/{name}"
    folder, _, last = repository.rpartition("/")
    last = last.partition(":")[0]
    host = "registry-1.docker.io" if host in ("docker.io", "index.docker.io") else host
    return host, f"{folder}/{last}" if folder else last


def _head(session: requests.Session, url: str, headers: dict[str, str]) -> requests.Response:
    return session.head(
        url, headers={"Accept": _ACCEPT, **headers}, timeout=_LIMITS_S, allow_redirects=True
    )


def authorization(
    session: requests.Session, challenge: str, scope: str, login: Login | None = None
) -> dict[str, str]:
    """The header that answers the challenge: the login itself, or the token for which the
    challenge says where to ask, anonymously without a login. Raises: ValueError."""
    scheme, _, rest = challenge.partition(" ")
    if scheme.lower() == "basic" and login is not None:
        return {"Authorization": login.basic}
    words = dict(_CHALLENGE.findall(rest))
    realm = urlsplit(words.get("realm", ""))
    safe = realm.scheme == "https" or (realm.scheme == "http" and realm.hostname in _LOOPBACK)
    if scheme.lower() != "bearer" or not safe:
        raise ValueError("it wants a login")
    asked = {"scope": scope}
    if "service" in words:
        asked["service"] = words["service"]
    if login is not None and not login.user:  # an identity token
        form = {**asked, "grant_type": "refresh_token", "refresh_token": login.secret,
                "client_id": "imgbuild"}  # fmt: skip
        answer = session.post(words["realm"], data=form, timeout=_LIMITS_S, stream=True)
    else:
        headers = {"Authorization": login.basic} if login else {}
        answer = session.get(
            words["realm"], params=asked, headers=headers, timeout=_LIMITS_S, stream=True
        )
    if answer.status_code != 200:
        raise ValueError(f"its token service answers {answer.status_code}")
    import json

    held = json.loads(answer.raw.read(_TOKEN_BYTES, decode_content=True))
    token = held.get("token") or held.get("access_token") if isinstance(held, dict) else None
    if not isinstance(token, str) or not re.fullmatch(r"[!-~]+", token):
        raise ValueError("its token service gives no token")
    return {"Authorization": f"Bearer {token}"}


def _judged(answer: requests.Response, host: str, digest: str) -> bool:
    if answer.status_code == 404:
        return False
    if answer.status_code != 200:
        raise RegistryUnreachable(f"{host} answers {answer.status_code}")
    said = answer.headers.get("Docker-Content-Digest", digest)
    return said == digest


def _words(error: Exception) -> str:
    """The kind of an error without the URL that may be long."""
    text = str(error) if isinstance(error, ValueError) else ""
    return text.splitlines()[0][:120] if text else type(error).__name__
