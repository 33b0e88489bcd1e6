"""Ask an OCI registry for manifests, without Docker.

The distribution specification's HEAD and GET, with the anonymous token that a registry offers.
Here no credentials are read: what only a login reaches is said to be unchecked.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from builder.errors import ToolFailed

if TYPE_CHECKING:
    from builder.tools.answers import Anonymous, Answer
    from builder.tools.registry_login import Login

_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_ACCEPT = ", ".join((*_INDEXES, *_MANIFESTS))
_MANIFEST_BYTES = 4 << 20  # what the specification asks registries to take at least
_TOKEN_BYTES = 1 << 16
_CHALLENGE = re.compile(r'([a-zA-Z_]+)="([^"]*)"')
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class RegistryUnreachable(ToolFailed):
    """The registry gives no answer that says yes or no."""

    code = "registry-unreachable"


class ManifestUnknown(ToolFailed):
    """The registry has nothing by that name."""

    code = "manifest-unknown"


class RegistryApi:
    """Implements index_ports.Registry."""

    def digests(self, ref: str) -> Mapping[str, str]:
        """The manifest digest of each platform. Raises: RegistryUnreachable, ManifestUnknown."""
        host, repository = place(ref)
        with _asking(host, repository) as asking:
            digest, held = asking.manifest(reference(ref))
            if held.get("mediaType") in _INDEXES or "manifests" in held:
                return _of_index(held)
            config = asking.blob(held["config"]["digest"])
            return {_platform(config): digest}

    def serves(self, ref: str, digest: str) -> bool:
        """Whether the registry of `ref` has the manifest. Raises: RegistryUnreachable."""
        host, repository = place(ref)
        with _asking(host, repository) as asking:
            return asking.has(digest)


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


def reference(ref: str) -> str:
    """The digest or the tag of a reference, as Docker reads it."""
    name, _, digest = ref.partition("@")
    return digest or name.rpartition("/")[2].partition(":")[2] or "latest"


class _Asking:
    """One repository of one registry, with the token that it gave."""

    def __init__(self, session: Anonymous, host: str, repository: str) -> None:
        scheme = "http" if host.partition(":")[0] in _LOOPBACK else "https"
        self._url = f"{scheme}://{host}/v2/{repository}"
        self._session, self._host, self._repository = session, host, repository
        self._headers = {"Accept": _ACCEPT}

    def has(self, digest: str) -> bool:
        """Whether the manifest is there; where HEAD names no digest, its bytes tell."""
        answer = self._answer("HEAD", f"manifests/{digest}")
        said = answer.headers.get("Docker-Content-Digest")
        if answer.status == 200 and said is None:
            answer = self._answer("GET", f"manifests/{digest}")
            said = _sha256(answer.body)
        if answer.status == 404:
            return False
        self._judge(answer)
        return said == digest

    def manifest(self, name: str) -> tuple[str, Mapping[str, Any]]:
        """The digest and the content behind a tag or a digest. Raises: ManifestUnknown."""
        answer = self._answer("GET", f"manifests/{name}")
        if answer.status == 404:
            raise ManifestUnknown(f"{self._host} has no {self._repository}:{name}")
        return self._read(answer, name if name.startswith("sha256:") else None)

    def blob(self, digest: str) -> Mapping[str, Any]:
        """A JSON blob by its digest."""
        if not _DIGEST.fullmatch(digest):
            raise ValueError("its manifest names no config")
        return self._read(self._answer("GET", f"blobs/{digest}"), digest)[1]

    def _answer(self, method: str, path: str) -> Answer:
        """The answer to a request, asked once more with a token where one is wanted."""
        answer = self._sent(method, path)
        if answer.status == 401 and "Authorization" not in self._headers:
            challenge = answer.headers.get("WWW-Authenticate", "")
            scope = f"repository:{self._repository}:pull"
            self._headers |= authorization(self._session, challenge, scope)
            answer = self._sent(method, path)
        return answer

    def _sent(self, method: str, path: str) -> Answer:
        from builder.tools import answers

        return answers.asked(
            self._session, method, f"{self._url}/{path}",
            most=_MANIFEST_BYTES, headers=self._headers, allow_redirects=True,
        )  # fmt: skip

    def _judge(self, answer: Answer) -> None:
        if answer.status != 200:
            raise RegistryUnreachable(f"{self._host} answers {answer.status}")

    def _read(self, answer: Answer, digest: str | None) -> tuple[str, Mapping[str, Any]]:
        from builder.tools import answers

        self._judge(answer)
        found = _sha256(answer.body)
        if digest is not None and found != digest:
            raise ValueError(f"it gives other bytes for {digest:.19}…")
        held = answers.json_of(answer.body)
        if not isinstance(held, dict):
            raise ValueError("no manifest")
        return found, held


@contextmanager
def _asking(host: str, repository: str) -> Iterator[_Asking]:
    """Raises: RegistryUnreachable, for whatever the registry answers that nobody can read."""
    from builder.tools import answers

    try:
        with answers.Anonymous() as session:
            yield _Asking(session, host, repository)
    except (ValueError, LookupError, TypeError) as error:
        raise RegistryUnreachable(f"{host} does not answer: {_words(error)}") from error


def _of_index(held: Mapping[str, Any]) -> Mapping[str, str]:
    """Digest by platform; of two variants of one, the first, which is what Docker takes."""
    found: dict[str, str] = {}
    for entry in held["manifests"]:
        digest = entry["digest"]
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise ValueError("its index names no digests")
        found.setdefault(_platform(entry.get("platform", {})), digest)
    return found


def _platform(facts: object) -> str:
    if not isinstance(facts, dict):
        raise ValueError("it says nothing of platforms")
    return f"{facts.get('os', 'unknown')}/{facts.get('architecture', 'unknown')}"


def authorization(
    session: Anonymous, challenge: str, scope: str, login: Login | None = None
) -> dict[str, str]:
    """The header that answers the challenge: the login itself, or the token for which the
    challenge says where to ask, anonymously without a login. Raises: ValueError."""
    from builder.tools import answers

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
        answer = answers.asked(session, "POST", words["realm"], most=_TOKEN_BYTES, data=form)
    else:
        headers = {"Authorization": login.basic} if login else {}
        answer = answers.asked(
            session, "GET", words["realm"], most=_TOKEN_BYTES, params=asked, headers=headers
        )
    if answer.status != 200:
        raise ValueError(f"its token service answers {answer.status}")
    held = answers.json_of(answer.body)
    token = held.get("token") or held.get("access_token") if isinstance(held, dict) else None
    if not isinstance(token, str) or not re.fullmatch(r"[!-~]+", token):
        raise ValueError("its token service gives no token")
    return {"Authorization": f"Bearer {token}"}


def _sha256(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def _words(error: Exception) -> str:
    """The kind of an error without the URL that may be long."""
    text = str(error) if isinstance(error, ValueError) else ""
    return text.splitlines()[0][:120] if text else type(error).__name__
