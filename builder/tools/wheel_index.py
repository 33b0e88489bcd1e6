"""Look up the sha256 of a wheel in the index that pip is set to, without downloading it.

The Simple API (PEP 503 and 691): one small page a project. Which index is asked is pip's own
setting (`pip config list`); an index that needs keyring, or that names no sha256, leaves the
wheel unchecked.
"""

from __future__ import annotations

import functools
import html.parser
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from builder.errors import ToolFailed
from builder.tools import process

# pip's own default, asked of the pip that would download: no host is named here.
_ASK_DEFAULT = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
_PAGE_BYTES = 64 << 20
_ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"


class IndexUnreachable(ToolFailed):
    """No index gives an answer that says which digest a file has."""

    code = "index-unreachable"


class WheelIndex:
    """Implements ports.WheelIndex over pip's index and its extra ones."""

    def sha256(self, project: str, filename: str) -> str | None:
        """The digest that the first index with this file names ("sha256:…"); None: none has it.

        Raises: IndexUnreachable, also when an index that may have it does not answer.
        """
        silent, name = "", re.sub(r"[-_.]+", "-", project).lower()
        for index in self._indexes:
            try:
                found = self._page(index, name).get(filename)
            except IndexUnreachable as error:
                silent = silent or error.findings[0].what
                continue
            if found == "":
                raise IndexUnreachable(f"{_shown(index)} names no sha256 for {filename}")
            if found is not None:
                return found
        if silent:
            raise IndexUnreachable(silent)
        return None

    @functools.cached_property
    def _indexes(self) -> tuple[str, ...]:
        """pip's index and extra indexes, the command line's environment before the files."""
        argv = (sys.executable, "-m", "pip", "config", "list")
        env = process.environment("PIP_*", "XDG_CONFIG_DIRS", PIP_DISABLE_PIP_VERSION_CHECK="1")
        done = process.run(argv, env=env, timeout_s=60, check=False)
        if done.returncode:
            raise IndexUnreachable("pip does not say which index it is set to")
        return tuple(_configured(done.text))

    @functools.cache  # noqa: B019  one object a run
    def _page(self, index: str, name: str) -> Mapping[str, str]:
        """File names and their digests ("" where none is named)."""
        if index.startswith("file://"):
            page = Path(unquote(urlsplit(index).path)) / name / "index.html"
            return _links(page.read_text("utf-8", "replace")) if page.is_file() else {}
        return _asked(f"{index.rstrip('/')}/{name}/", index)


def _asked(url: str, index: str) -> Mapping[str, str]:
    import requests

    from builder.tools import answers

    try:
        with requests.Session() as session:  # ~/.netrc holds here as it does for pip
            answer = answers.asked(
                session, "GET", url, most=_PAGE_BYTES, headers={"Accept": _ACCEPT}
            )
        if answer.status == 404:
            return {}
        if answer.status != 200:
            raise IndexUnreachable(f"{_shown(index)} answers {answer.status}")
        if "json" in answer.headers.get("Content-Type", ""):
            return _files(answers.json_of(answer.body))
        return _links(answer.body.decode("utf-8", "replace"))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        said = str(error) if isinstance(error, answers.NoAnswer) else "no page of an index"
        raise IndexUnreachable(f"{_shown(index)} does not answer: {said}") from error


def _files(held: Any) -> Mapping[str, str]:
    found = {}
    for file in held.get("files", ()):
        digest = file.get("hashes", {}).get("sha256", "")
        found[str(file["filename"])] = f"sha256:{digest}" if digest else ""
    return found


def _links(text: str) -> Mapping[str, str]:
    reader = _Links()
    reader.feed(text)
    return reader.found


class _Links(html.parser.HTMLParser):
    """Reads the anchors of a project's page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href") if tag == "a" else None
        if href:
            url, _, fragment = href.partition("#")
            match = re.fullmatch(r"sha256=([0-9a-f]{64})", fragment)
            name = unquote(url.partition("?")[0].rpartition("/")[2])
            self.found[name] = f"sha256:{match[1]}" if match else ""


def _configured(text: str) -> Iterator[str]:
    held: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition("=")
        section, _, option = key.rpartition(".")
        if section in ("global", "download", "install", ":env:"):
            words = shlex.split(value)
            held[f"{section}.{option}"] = words[0] if words else ""
    order = (":env:", "download", "global")

    def first(option: str) -> str:
        return next((held[f"{s}.{option}"] for s in order if held.get(f"{s}.{option}")), "")

    if first("no-index").lower() in ("1", "true", "yes"):
        raise IndexUnreachable("pip is set to ask no index")
    yield first("index-url") or _default()
    yield from first("extra-index-url").split()


def _default() -> str:
    argv = (sys.executable, "-c", _ASK_DEFAULT)
    done = process.run(argv, env=process.environment(), timeout_s=60, check=False)
    if done.returncode or not done.text.strip():
        raise IndexUnreachable("pip does not say which index it takes by default")
    return done.text.strip()


def _shown(index: str) -> str:
    """An index without the userinfo that its URL may hold."""
    parts = urlsplit(index)
    return parts.hostname or index if parts.scheme != "file" else index
