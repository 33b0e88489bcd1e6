"""Put an image into an OCI registry by digest: only what it lacks, never under a tag.

The distribution specification's pushes (github.com/opencontainers/distribution-spec), with the
login and the certificates that docker has for the registry on this host.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from builder.model.distribution import RegistryPlace
from builder.model.schema import without_secrets
from builder.tools.registry_api import authorization
from builder.tools.registry_login import Login, login
from builder.tools.registry_words import (
    RegistryDenied,
    RegistryDiffers,
    RegistryDown,
    RegistryRefused,
)

if TYPE_CHECKING:
    import requests

_LIMITS_S = (10.0, 900.0)  # to connect; a registry may take long to commit a large blob
_CERTS = Path("/etc/docker/certs.d")  # where docker looks for a registry's own CA


@dataclass(frozen=True, slots=True)
class _Body:
    """A stream of known length."""

    chunks: Iterable[bytes]
    size: int

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[bytes]:
        yield from self.chunks


class RegistryClient:
    """One repository of one registry."""

    def __init__(self, place: RegistryPlace) -> None:
        from builder.tools.answers import Anonymous

        self.place = place
        self._login: Login | None = login(place.host)
        self._session = Anonymous()  # what docker's own config says is added, and no more
        self._authorities = _authorities(place.host)
        self._header: dict[str, str] = {}

    def has(self, digest: str, kind: str = "blobs") -> bool:
        """Whether it has the blob (or, by kind, the manifest)."""
        answer = self._ask("HEAD", f"{kind}/{digest}")
        if answer.status_code == 404:
            return False
        self._check(answer, digest, 200)
        return True

    def put(self, digest: str, size: int, chunks: Iterable[bytes]) -> None:
        """Upload a blob in one stream."""
        begun = self._ask("POST", "blobs/uploads/")
        self._check(begun, None, 202)
        try:
            to = urljoin(begun.url, begun.headers.get("Location", ""))
        except ValueError as error:
            raise RegistryDown(
                f"the registry {self.place.host} names no place for an upload", detail=str(error),
                hint="look at it, or push without --via",
            ) from error  # fmt: skip
        to += f"{'&' if urlsplit(to).query else '?'}digest={digest}"
        headers = {"Content-Type": "application/octet-stream"}
        self._check(self._ask("PUT", to, _Body(chunks, size), headers), digest, 201)

    def put_manifest(self, digest: str, media: str, data: bytes) -> None:
        """Publish the manifest by its digest, and see that exactly it is served."""
        headers = {"Content-Type": media}
        answer = self._ask("PUT", f"manifests/{digest}", data, headers)
        self._check(answer, digest, 201)
        served = self._ask("GET", f"manifests/{digest}", headers={"Accept": media})
        self._check(served, digest, 200)
        found = f"sha256:{hashlib.sha256(served.content).hexdigest()}"
        if found != digest:
            raise self._differs(digest, found)

    def _ask(
        self,
        method: str,
        path: str,
        data: bytes | _Body | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> requests.Response:
        import requests

        url = urljoin(f"{self.place.url}/v2/{self.place.repository}/", path)
        try:
            answer = self._send(method, url, data, headers)
            if answer.status_code == 401 and not isinstance(data, _Body):
                challenge = answer.headers.get("WWW-Authenticate", "")
                scope = f"repository:{self.place.repository}:pull,push"
                try:
                    self._header = authorization(self._session, challenge, scope, self._login)
                except ValueError as error:
                    raise self._denied(str(error)) from error
                answer = self._send(method, url, data, headers)
        except requests.exceptions.SSLError as error:
            raise RegistryDown(
                f"this host does not trust the certificate of {self.place.host}",
                hint=f"put its CA at {_CERTS / self.place.host / 'ca.crt'}", detail=str(error),
            ) from error  # fmt: skip
        except (requests.RequestException, ValueError) as error:
            raise RegistryDown(
                f"the registry {self.place.host} does not answer this host",
                detail=without_secrets(str(error)),
                hint=f"try: curl -I {self.place.url}/v2/; or push without --via",
            ) from error  # fmt: skip
        if answer.status_code in (401, 403):
            raise self._denied(answer.text[:300])
        return answer

    def _send(
        self,
        method: str,
        url: str,
        data: bytes | _Body | None,
        headers: Mapping[str, str] | None,
    ) -> requests.Response:
        own = urlsplit(url).netloc == urlsplit(self.place.url).netloc  # else: a storage of its
        return self._session.request(
            method, url, data=data, timeout=_LIMITS_S, verify=self._authorities,
            headers={**(headers or {}), **(self._header if own else {})},
        )  # fmt: skip

    def _check(self, answer: requests.Response, digest: str | None, wanted: int) -> None:
        if answer.status_code != wanted:
            request = answer.request
            raise RegistryRefused(
                f"the registry {self.place.host} answers {answer.status_code} to "
                f"{request.method} {urlsplit(str(request.url)).path}", detail=answer.text[:1000],
                hint="is it a registry that takes pushes, and with room? see its log",
            )  # fmt: skip
        said = answer.headers.get("Docker-Content-Digest", digest)
        if digest is not None and said != digest:
            raise self._differs(digest, str(said))

    def _differs(self, digest: str, found: str) -> RegistryDiffers:
        return RegistryDiffers(
            f"the registry {self.place.host} answers with {found[:19]} for {digest[:19]}",
            hint="nothing moved to the nodes; does it rewrite images? push without --via",
        )

    def _denied(self, said: str) -> RegistryDenied:
        why = "refuses docker's login of this host" if self._login else "wants a login"
        return RegistryDenied(
            f"the registry {self.place.host} {why}", detail=said,
            hint=f"docker login {self.place.host}, as who may push {self.place.repository}",
        )  # fmt: skip


def _authorities(host: str) -> str | bool:
    """The registry's own CA as docker has it, else the system's."""
    own, paths = _CERTS / host / "ca.crt", ssl.get_default_verify_paths()
    return str(own) if own.is_file() else paths.cafile or paths.capath or True
