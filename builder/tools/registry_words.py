"""What registries and engines say when an image does not go through a registry."""

from __future__ import annotations

import re

from builder.errors import DistributionError, ImgbuildError
from builder.node_ports import Connection
from builder.tools.load_words import load_failed


class RegistryDown(DistributionError):
    """The registry does not answer this host."""

    code = "registry-down"


class RegistryDenied(DistributionError):
    """The registry wants a login, or refuses the one that docker has for it."""

    code = "registry-denied"


class RegistryRefused(DistributionError):
    """The registry answers that it does not take or have something."""

    code = "registry-refused"


class RegistryDiffers(DistributionError):
    """The registry answers with another digest than what was asked for."""

    code = "registry-differs"


class RegistryUnreached(DistributionError):
    """A node's engine does not get through to the registry."""

    code = "registry-unreached"


_DIFFERS = re.compile(
    r"verification failed|digest mismatch|does not match (?:the )?digest|unexpected commit digest"
    r"|failed size validation|filesystem layer verification", re.IGNORECASE
)  # fmt: skip
_DENIED = re.compile(
    r"no basic auth credentials|unauthorized|authorization failed|authentication required"
    r"|access to the resource is denied|401 |403 ", re.IGNORECASE
)  # fmt: skip
_PLAIN = re.compile(r"HTTP response to HTTPS client|does not look like a TLS", re.IGNORECASE)
_UNTRUSTED = re.compile(r"x509:|certificate", re.IGNORECASE)
_ABSENT = re.compile(r"manifest unknown|name unknown|not found|404 ", re.IGNORECASE)
_UNREACHED = re.compile(
    r"dial tcp|connection refused|no such host|timeout|deadline exceeded|no route to host"
    r"|network is unreachable|connection reset|TLS handshake|EOF", re.IGNORECASE
)  # fmt: skip


def pull_failed(link: Connection, host: str, docker: str, complaint: str) -> ImgbuildError:
    """The error for a pull from a registry that ended badly, with the engine's own words."""
    name, detail = link.node.name, complaint.strip()[-3000:]
    if link.closed() or "docker daemon" in complaint:
        return load_failed(link, complaint)
    if _DIFFERS.search(complaint):
        return RegistryDiffers(
            f"{name}: {host} gave it other bytes than their digest says", detail=detail,
            hint="no tag was moved there; look at the registry's storage, or push without --via",
        )  # fmt: skip
    if _DENIED.search(complaint):
        return RegistryDenied(
            f"{name}: {host} wants a login there", detail=detail,
            hint=f"on the node, as the user of the ssh login: {docker} login {host}",
        )  # fmt: skip
    if _PLAIN.search(complaint):
        return RegistryUnreached(
            f"{name}: its engine speaks TLS with {host}, which has none", detail=detail,
            hint=f'there, in /etc/docker/daemon.json: "insecure-registries": ["{host}"], then '
            "systemctl reload docker; or give the registry TLS",
        )  # fmt: skip
    if _UNTRUSTED.search(complaint):
        return RegistryUnreached(
            f"{name}: its engine does not trust the certificate of {host}", detail=detail,
            hint=f"there: put the registry's CA at /etc/docker/certs.d/{host}/ca.crt",
        )  # fmt: skip
    if _ABSENT.search(complaint):
        return RegistryRefused(
            f"{name}: what it reaches as {host} does not have the image", detail=detail,
            hint="is it the same registry as from this host? a mirror may lag: push again",
        )  # fmt: skip
    if _UNREACHED.search(complaint):
        return RegistryUnreached(
            f"{name} cannot reach the registry {host}", detail=detail,
            hint=f"try there: curl -I {host}/v2/; or push without --via",
        )  # fmt: skip
    return load_failed(link, complaint)
