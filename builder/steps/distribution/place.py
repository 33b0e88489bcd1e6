"""Where in a registry an image goes: `--via registry URL`."""

from __future__ import annotations

import ipaddress
import re

from builder.errors import UsageError
from builder.model.distribution import RegistryPlace, SourceImage
from builder.model.schema import quoted
from builder.steps.distribution.plan import PASSING

_URL = re.compile(
    r"(?:(?P<scheme>https?)://)?(?P<host>(?:[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:]+\])"
    r"(?::[0-9]{1,5})?)(?P<folder>(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*)/?"
)
_HOST = re.compile(r"localhost|.*[.:].*")


def place(url: str, image: SourceImage) -> RegistryPlace:
    """The registry at the URL, and in it the image's own repository below the URL's path.

    Without a scheme, plain http on loopback and TLS elsewhere. Raises: UsageError.
    """
    match = parsed(url)
    host = match["host"]
    is_loopback = _is_loopback(host)
    scheme = match["scheme"] or ("http" if is_loopback else "https")
    repository = f"{match['folder']}/{_name(image)}".strip("/")
    return RegistryPlace(scheme, host, repository, is_loopback)


def parsed(url: str) -> re.Match[str]:
    """Its scheme, host and folder. Raises: UsageError; a login in it is not repeated."""
    if (match := _URL.fullmatch(url)) is not None:
        return match
    login, at, host = url.rpartition("@")
    if at:
        raise UsageError(
            "the registry's URL has a login in it, which others can see in the list of processes",
            hint=f"docker login {host.partition('/')[0]}, here and on the nodes; then the URL "
            f"without it: {'http://' if login.startswith('http://') else ''}{host}",
        )
    raise UsageError(
        f"{quoted(url)} is no registry", hint="HOST[:PORT][/PATH], or http://… for one without TLS"
    )


def _name(image: SourceImage) -> str:
    """The image's own name, without the registry of another place."""
    own = [tag for tag in image.tags if not tag.startswith(PASSING)]
    name = own[0].rpartition(":")[0] if own else "imgbuild"
    first, slash, rest = name.partition("/")
    return rest if slash and _HOST.fullmatch(first) else name


def _is_loopback(host: str) -> bool:
    name = re.sub(r":[0-9]+$", "", host).strip("[]")
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
