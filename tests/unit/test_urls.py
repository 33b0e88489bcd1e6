"""No password or token of a URL is shown; all other text stays as it is."""

from __future__ import annotations

import json
import string
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.cli.text import clean, clean_json
from builder.model.schema import quoted, without_secrets
from builder.model.urls import without_userinfo
from builder.tools.git_words import shown

EVERYWHERE: list[Callable[[str], str]] = [
    without_userinfo, clean, without_secrets, shown, quoted,
    lambda text: str(json.loads(clean_json({"a": [text]}))["a"][0]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("https://me:S3cret@h/x", "https://…@h/x"),
        ("https://S3cret@h/x", "https://…@h/x"),
        ("https://S3cret:@h", "https://…@h"),
        ("https://:S3cret@h", "https://…@h"),
        ("https://S3cret:x-oauth-basic@h/x", "https://…@h/x"),
        ("HTTPS://S3cret@h/x", "HTTPS://…@h/x"),
        ("http://me:S3cret@h:8080/x", "http://…@h:8080/x"),
        ("https://me:S3cret@[::1]:8443/x", "https://…@[::1]:8443/x"),
        ("https://me@corp:S3@cret@h/x@v1", "https://…@h/x@v1"),
        ("https://me:S3'cr\"et@h/x", "https://…@h/x"),
        ("https://me:S3<cr>et@h/x", "https://…@h/x"),
        ("ssh://git:S3cret@h/x", "ssh://…@h/x"),
        ("SSH://git:S3cret@h:22/x", "SSH://…@h:22/x"),
        ("ssh://git%3AS3cret@h/x", "ssh://…@h/x"),
        ("git://S3cret@h/x", "git://…@h/x"),
        ("ftp://me:S3cret@h/x", "ftp://…@h/x"),
        ("socks5h://S3cret@h:1080", "socks5h://…@h:1080"),
        ("git+https://S3cret@h/x@v1", "git+https://…@h/x@v1"),
        ("git+ssh://me:S3cret@h/x", "git+ssh://…@h/x"),
        ("transport::https://me:S3cret@h/x", "transport::https://…@h/x"),
        (r"https:\/\/me:S3cret@h\/x", r"https:\/\/…@h\/x"),
        ("https:///me:S3cret@h/x", "https:///…@h/x"),
        ("https://me:S3/cr?e#t@h/x", "https://…@h/x"),
        ("'https://me:S3/cret@h/x' and https://h", "'https://…@h/x' and https://h"),
        ("[https://me:S3cret@h](https://S3cret@h)", "[https://…@h](https://…@h)"),
        ("fatal: unable to access 'https://me:S3cret@h/x/': no",
         "fatal: unable to access 'https://…@h/x/': no"),
    ],
)  # fmt: skip
def test_secrets(text: str, plain: str) -> None:
    assert without_userinfo(text) == plain
    for way in EVERYWHERE:
        assert "S3" not in way(text)


UNCHANGED = [
    "ssh://git@h/x", "ssh://git@h:22/x", "git+ssh://git@h/x@v1", "ssh://ops-1@10.0.0.7",
    "git@h:lab/kern.git", "me@x.example", "https://h/x", "https://h:8443/a@b", "https://h?q=a@b",
    "https://h#a@b", "https://[::1]:8443/a@b", "https://[fe80::1%25eth0]/a@b", "https://HOST:/a@b",
    "file:///srv/me@x/y:z@w", "name:tag@sha256:0123", "h:5000/name:tag@sha256:0123", "a:b@c",
    "pip@git+https://h/x@v1", "'https://h:80',", "(https://h:80).", "<https://h>", "C:/x@y",
    '{"a":"https://h","b":"c@d","e":"https://h:1","f":"g@h"}', "https://", "ssh://git@", "//a@b",
    "://", "@", "…",
]  # fmt: skip


@pytest.mark.parametrize("text", UNCHANGED)
def test_text_without_secrets(text: str) -> None:
    assert without_userinfo(text) == text


PRINTABLE = "".join(sorted({*string.printable} - {*string.whitespace}))
SCHEMES = ["http", "https", "HTTPS", "git", "ftp", "git+https", "oci", "ssh", "sftp"]
words = st.text(string.ascii_letters + string.digits + ".-", max_size=12)
hosts = words.map("h{}".format) | st.sampled_from(["[::1]", "[2001:db8::7]"])
ports = st.just("") | st.integers(1, 65535).map(":{}".format)
paths = st.just("") | st.text(PRINTABLE.replace('"', ""), max_size=12).map("/{}".format)
places = st.builds("{}{}{}".format, hosts, ports, paths)
plain_words = st.lists(st.one_of(
    st.sampled_from(UNCHANGED), st.text(max_size=12).filter(lambda text: ":" not in text),
    places.map("https://{}".format), places.map("ssh://git@{}".format),
), max_size=4).map(" ".join)  # fmt: skip
secrets = st.text([*(c for c in PRINTABLE if c not in "/?#"), "ü", "秘"], min_size=1, max_size=20)
hard = st.text(PRINTABLE, max_size=20)


@settings(max_examples=200, deadline=None)
@given(plain_words, st.sampled_from(SCHEMES), secrets, secrets, places, plain_words)
def test_no_secret_survives(
    before: str, scheme: str, secret: str, user: str, place: str, after: str
) -> None:
    """Whatever stands in it and around it; all else stays."""
    plain = f"{before} {scheme}://…@{place} {after}"
    assert without_userinfo(plain) == plain
    for text in (f"{user}:{secret}", f":{secret}", f"{secret}:"):
        assert without_userinfo(f"{before} {scheme}://{text}@{place} {after}") == plain
    if scheme not in ("ssh", "sftp"):
        assert without_userinfo(f"{before} {scheme}://{secret}@{place} {after}") == plain


@settings(max_examples=200, deadline=None)
@given(hard.map(lambda text: text.replace("@", "")), hard)
def test_no_secret_survives_that_should_have_been_encoded(first: str, more: str) -> None:
    """With `/`, `?` or `#` in it: nothing of it is left, whatever is read as the host then."""
    found = without_userinfo(f"at https://me:S{first}/{more}@h.example/x y")
    assert found == "at https://…@h.example/x y"


@settings(max_examples=200, deadline=None)
@given(plain_words)
def test_text_without_userinfo_is_unchanged(text: str) -> None:
    assert without_userinfo(text) == text


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["://", ":", "/", "@", '"', "\\", " ", "https", "ssh", "a", "…"])))
def test_what_was_hidden_once_is_not_hidden_again(parts: list[str]) -> None:
    once = without_userinfo("".join(parts))
    assert without_userinfo(once) == once


def test_long_text() -> None:
    """Nothing here is tried again from every character."""
    for part in ("a", ":", "/", "://", ".", "@", '"\\', "a://b:c/", '"a://b:/c', "a://.....:x"):
        text = part * (300_000 // len(part))
        assert "S3cret" not in without_userinfo(f"{text} https://me:S3cret@h/x")
