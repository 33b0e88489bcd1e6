"""Gates on texts and whole trees: log, secrets, layers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builder.model.values import ImageFile, ImageInfo, Verdict
from builder.steps.gates import Gate, LaneFacts, examine, parse
from builder.steps.gates.credentials import find, find_named
from builder.steps.gates.layers import Layers
from builder.steps.gates.log import Log
from builder.steps.gates.secrets import Secrets
from tests.unit.gates.fake_image import Content, FakeImage, To

INFO = ImageInfo("sha256:1", (), {}, (), {"PATH": "/bin"}, "arm64", 1, "")
TOKEN = "hf_" + "a1B2" * 8

NATIVE, LAST, OTHER = "a" * 64, "b" * 64, "c" * 64
HEAD = f"""\
    0.000 [imgbuild] kern 2/3 {NATIVE}
    0.000 [imgbuild] stage-7 2/2 {LAST}
"""
RAN = """\
    0.010 [internal] load build definition
    1.000 [kern 2/3] RUN cmake .
    1.500 [kern 2/3]   -- CUDA target architectures: 12.1a
    1.600 [kern 2/3]   -- CUDA supported target architectures: 12.0;12.1a
    1.700 [kern 2/3] done in 0.7 s
    2.000 [stage-7 2/2] RUN pip install x
    2.100 [stage-7 2/2]   Not building NVFP4 kernels
    2.200 [stage-7 2/2] done in 0.2 s
"""
CACHED = """\
    0.100 [kern 2/3] cached: RUN cmake .
    0.200 [stage-7 2/2] RUN pip install x
    0.300 [stage-7 2/2]   Successfully installed x
    0.400 [stage-7 2/2] done in 0.2 s
"""


def seen(image: FakeImage, gate: Gate, facts: LaneFacts = LaneFacts()) -> tuple[Verdict, ...]:  # noqa: B008
    return examine((gate,), "x", engine=image, facts=facts)  # type: ignore[arg-type]


def logged(folder: Path, *texts: str) -> LaneFacts:
    logs = []
    for i, text in enumerate(texts):
        logs.append(folder / f"{i}.log")
        logs[-1].write_text(text)
    return LaneFacts("demo", "12.1a", logs=tuple(logs))


@pytest.mark.parametrize(
    ("gate", "says"),
    [
        (Log(must=("target architectures",)), "ok: 3 lines are as they must be"),
        (Log(must_not=("Not building",)), "no: a line that must not be there: Not building NVFP4"),
        (Log(must_not=("Not building",), stage="kern"), "ok: 2 lines are as they must be"),
        (Log(must=("NVFP4 on",)), "no: no line matches 'NVFP4 on'"),
        (Log(architectures="supported target architectures: (.*)"), "ok: 3 lines"),
        (Log(architectures="no such line (.*)"), "no: no line matches"),
    ],
)
def test_log(tmp_path: Path, gate: Gate, says: str) -> None:
    (verdict,) = seen(FakeImage(), gate, logged(tmp_path, RAN))
    assert f"{'ok' if verdict.passed else 'no'}: {verdict.seen}".startswith(says)


def test_log_architectures_that_fell_back(tmp_path: Path) -> None:
    facts = logged(tmp_path, RAN.replace("12.0;12.1a", "12.0"))
    (verdict,) = seen(FakeImage(), Log(architectures="supported target arch.*: (.*)"), facts)
    assert verdict.seen == "asked for 12.1a, effective is 12.0: without 12.1a"


def test_log_of_steps_that_came_from_the_cache(tmp_path: Path) -> None:
    gate = Log(must=("target architectures: 12.1a",), must_not=("Not building",))
    cached = HEAD + CACHED
    assert seen(FakeImage(), gate, logged(tmp_path, cached, "", HEAD + RAN))[0].passed
    others = (
        HEAD.replace(NATIVE, OTHER) + RAN,  # made from something else
        RAN,  # who knows from what
        HEAD + RAN.replace("    1.700 [kern 2/3] done in 0.7 s\n", ""),  # did not end
        HEAD + RAN.replace("[kern 2/3] done in", "[kern 2/3] failed after"),
    )
    for logs in ((cached,), (cached, *others)):
        (blind,) = seen(FakeImage(), gate, logged(tmp_path, *logs))
        assert blind.seen == (
            "could not look: steps of kern came from the cache, and no log here holds what they "
            "printed"
        )
    # A step of which BuildKit said nothing at all came from the cache, too.
    silent = "".join(line for line in cached.splitlines(keepends=True) if "cached:" not in line)
    assert seen(FakeImage(), gate, logged(tmp_path, silent))[0] == blind
    assert seen(FakeImage(), gate, logged(tmp_path, silent, HEAD + RAN))[0].passed
    (no_log,) = seen(FakeImage(), gate)
    assert "not on this machine" in no_log.seen


def test_log_of_the_newest_build_of_the_same(tmp_path: Path) -> None:
    other = RAN.replace("12.0;12.1a", "12.0").replace("Not", "Now")
    logs = (HEAD + CACHED, HEAD.replace(NATIVE, OTHER) + other, HEAD + RAN)
    gate = Log(architectures="supported target architectures: (.*)", stage="KERN")
    assert seen(FakeImage(), gate, logged(tmp_path, *logs))[0].passed
    (verdict,) = seen(FakeImage(), gate, logged(tmp_path, logs[0], HEAD + other, HEAD + RAN))
    assert verdict.seen.startswith("asked for 12.1a, effective is 12.0")


def test_log_of_a_build_that_was_tried_again(tmp_path: Path) -> None:
    """What counts of a step is what it printed when it ended well."""
    log = HEAD + RAN.replace("done in 0.2", "failed after 0.2")
    log += "    9.000 a server answered 5xx: trying again in 5 s, with what is done in the cache\n"
    log += RAN.replace("Not", "Now").replace("[kern 2/3] RUN", "[kern 2/3] cached: RUN")
    assert seen(FakeImage(), Log(must_not=("Not building",)), logged(tmp_path, log))[0].passed
    gate = Log(must=("Now building", "target architectures: 12.1a"))
    assert seen(FakeImage(), gate, logged(tmp_path, log))[0].passed


def test_log_of_equal_instructions_in_one_stage(tmp_path: Path) -> None:
    lines = (
        "[one 1/2] RUN make", "[one 1/2]   Not building NVFP4", "[one 1/2] done in 0.1 s",
        "[one 2/2] RUN make", "[one 2/2]   all well", "[one 2/2] done in 0.1 s",
    )  # fmt: skip
    log = "".join(f"    1.000 {line}\n" for line in lines)
    (verdict,) = seen(FakeImage(), Log(must_not=("Not building",)), logged(tmp_path, log))
    assert verdict.seen == "a line that must not be there: Not building NVFP4"


def test_log_that_the_engine_cut_off(tmp_path: Path) -> None:
    cut = "    1.650 [kern 2/3]   [output clipped, log limit 200KiB/s reached]\n    1.700"
    facts = logged(tmp_path, HEAD + RAN.replace("    1.700", cut))
    blind = "could not look: the engine cut off what kern 2/3 printed"
    for gate, says in (
        (Log(must_not=("NVFP5",)), blind),
        (Log(must=("NVFP5",)), blind),
        (Log(must=("NVFP5",), stage="kern"), blind),
        (Log(architectures="supported target architectures: (.*)"), blind),
        (Log(must=("CUDA target architectures: 12.1a",)), "4 lines are as they must be"),
        (
            Log(must_not=("Not building",)),
            "a line that must not be there: Not building NVFP4 kernels",
        ),
        (Log(must_not=("CUDA",), stage="stage-7"), "1 line is as it must be"),
    ):
        (verdict,) = seen(FakeImage(), gate, facts)
        assert verdict.seen == says
    assert "BUILDKIT_STEP_LOG_MAX_SIZE=-1" in seen(FakeImage(), Log(must=("no",)), facts)[0].hint


def test_log_of_stages(tmp_path: Path) -> None:
    """BuildKit names stages in small letters, and one that is alone not at all."""
    facts = logged(tmp_path, HEAD + RAN)
    assert seen(FakeImage(), Log(must=("supported",), stage="Kern"), facts)[0].passed
    (verdict,) = seen(FakeImage(), Log(must_not=("x y",), stage="kern-typo"), facts)
    assert (verdict.passed, verdict.seen) == (
        False, "could not look: no RUN of stage kern-typo is in the log",
    )  # fmt: skip
    alone = f"    0.000 [imgbuild] kern 2/3 {NATIVE}\n" + RAN.partition("    2.000")[0].replace(
        "[kern 2/3]", "[2/3]"
    )
    assert seen(FakeImage(), Log(must=("supported",), stage="kern"), logged(tmp_path, alone))[
        0
    ].passed
    assert not seen(FakeImage(), Log(must_not=("x",)), logged(tmp_path, "    0.1 [a] FROM x\n"))[
        0
    ].passed


SECRETS = {
    "root/.netrc": b"machine github.com login me password abcdef12",
    "root/.config/pip.conf": b"[global]\nindex-url = https://me:hunter22@pypi.example/simple\n",
    "etc/key.pem": b"-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAxyz",
    "home/a/.cache/token": TOKEN.encode(),
    "root/binary": b"\0" + TOKEN.encode(),
    "root/large": TOKEN.encode() + bytes(300_000),
    "usr/lib/python3/dist-packages/test_key.py": b"-----BEGIN PRIVATE KEY-----\nMIIEowIBAAKCAQEA",
    "etc/apt/sources.list": b"deb https://deb.example/debian bookworm main",
    "etc/docs": b"https://user:password@example.com https://$USER:$TOKEN@x",
}


def test_secrets_in_files() -> None:
    verdicts = seen(FakeImage(SECRETS, info=INFO), Secrets())
    assert {v.about: v.seen.split(" (")[0] for v in verdicts} == {
        "root/.netrc": "holds a login of netrc",
        "root/.config/pip.conf": "holds a password in a URL",
        "etc/key.pem": "holds a private key",
        "home/a/.cache/token": "holds a Hugging Face token",
    }
    assert not any(TOKEN in v.seen + v.detail + v.hint or "hunter22" in v.seen for v in verdicts)
    allowed = Secrets(allow=(r"^root/", r"^etc/key\.pem: a private key$", "Hugging"))
    (good,) = seen(FakeImage(SECRETS, info=INFO, made_by=("COPY x",)), allowed)
    assert (good.passed, good.seen) == (True, "none in 1 lines of history and 6 small files")


def test_secrets_in_history_env_and_labels() -> None:
    info = ImageInfo(
        "sha256:1", (), {"note": f"by {TOKEN}"}, (), {"HF_TOKEN": "s3cr3t-value"}, "arm64", 1, ""
    )
    history = ("COPY a b", "|2 GIT_TOKEN=tok3n-abcdefgh MAX_JOBS=16 /bin/sh -c make")
    verdicts = seen(FakeImage(info=info, made_by=history), Secrets())
    assert [(v.about, v.seen) for v in verdicts] == [
        ("ENV HF_TOKEN", "holds a secret, by its name HF_TOKEN (s3cr…)"),
        ("LABEL note", "holds a Hugging Face token (hf_a1B2a…)"),
        ("history, line 2", "holds a secret, by its name GIT_TOKEN (tok3…)"),
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SCCACHE_S3_NO_CREDENTIALS", "0"), ("AWS_ACCESS_KEY_ID", ""),
        ("TOKENIZERS_PARALLELISM", "x"),
        ("GPG_KEY", "A035C8C19219BA821ECEA86B64E628F8D684696D"), ("HF_TOKEN", "${HF_TOKEN}"),
        ("SECRET_KEY", "/run/secrets/key"), ("MONKEY", "banana-split"),
        ("CACHE_KEY", "abc-def-ghi"),
        ("NV_CUDA_LIB", "13.0"), ("URL", "https://github.com/a/b.git"),
        ("DB_PASS", ""), ("DB_PASS", "/run/secrets/db"), ("FILE_PAT", "*.py"), ("PWD", "/work"),
        ("OPENAI_KEY", "${OPENAI_KEY}"), ("OPENAI_KEY", "/run/secrets/openai"),
        ("MY_CACHE_KEY", "a035c8c19219ba821ecea86b64e628f8d684696d"), ("SORT_KEY", "x" * 20),
        ("PASS", "true"), ("BYPASS", "abc"),
        ("PATH", "/usr/bin"), ("OPENAI_KEY_FILE", "abcdefghijklmnopqrst"), ("TTY_KEY", "short"),
    ],
)  # fmt: skip
def test_names_and_values_that_are_harmless(name: str, value: str) -> None:
    assert list(find_named(name, value)) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GITHUB_PAT", "0123456789abcdef"), ("DB_PASS", "hunter2"), ("MYSQL_PWD", "hunter2"),
        ("OPENAI_KEY", "abcdefgh12345678"), ("SSH_PASSPHRASE", "correct horse"),
        ("AWS_SECRET_ACCESS_KEY", "aB3/" * 10), ("DB_URL", "postgres://me:pa$$word@db/x"),
    ],
)  # fmt: skip
def test_names_and_values_that_are_not(name: str, value: str) -> None:
    (found,) = find_named(name, value)
    assert value not in found.shown


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"//registry.example/:_authToken=npm_" + b"aB3x" * 9, "an npm token"),
        (b"//registry.example/:_authToken=0123abcd-4567", "a login of npm"),
        (b"_auth = bWU6aHVudGVyMjI=", "a login of npm"),
        (b"https://0123456789abcdef0123@github.com/a/b", "a token in a URL"),
        (b"https://0123456789abcdef0123:x-oauth-basic@github.com/a", "a password in a URL"),
        (b"https://ghp_" + b"aB3x" * 9 + b"@github.com/a", "a GitHub token"),
        (b"amqp://me:pa$sw0rd@host/", "a password in a URL"),
        (b"aws_secret_access_key = " + b"aB3/" * 10, "an AWS secret key"),
    ],
)
def test_forms_of_credentials(text: bytes, what: str) -> None:
    assert [credential.what for credential in find(b"x = 1\n" + text + b"\n")] == [what]


def test_folders_where_people_leave_credentials() -> None:
    folders = ("opt/x", "data", "vllm-workspace/a", "usr/local/etc", "var/lib/app")
    token = f"token {TOKEN}".encode()
    installed = ("opt/venv/lib/python3.12/test/a.pem", "opt/app/node_modules/b/c.js")
    image = FakeImage(
        {f"{f}/k": token for f in folders} | dict.fromkeys(installed, token), info=INFO
    )
    assert {v.about for v in seen(image, Secrets())} == {f"{folder}/k" for folder in folders}
    assert {v.about for v in seen(image, Secrets(("opt/**",)))} == {"opt/x/k", *installed}


def test_no_alarm_on_what_only_resembles() -> None:
    for text in (b"https://TOKEN@github.com/a", b"https://me@host.example/",
                 b"_authToken=${NPM_TOKEN}", b"    _auth = BasicAuth1(name)",
                 b"_auth = provider1()",
                 b"https://u:$PASSWORD@x", b"https://cdn.example/npm/abcdefgh12345678@1.0",
                 b"aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                 b"AKIAIOSFODNN7EXAMPLE", b"https://$TOKEN@x", b"user_password = abcdefghijkl",
                 b"sk-learn", b"hf_transfer", b"ghp_x", b"-----BEGIN CERTIFICATE-----",
                 b"-----BEGIN PRIVATE KEY-----\\n", b"https://host:8000/x@y",
                 b"git@github.com:a/b"):  # fmt: skip
        assert list(find(text)) == []


BASE: dict[str, Content] = {
    "opt": None, "opt/a.py": b"1", "opt/b.py": b"2", "opt/gone": b"3", "usr/bin/x": b"4",
    "opt/l": To("a.py"),
}  # fmt: skip
OVER: tuple[dict[str, Content], ...] = (
    {"opt": None, "opt/a.py": b"1!", "opt/b.py": b"2", "opt/l": To("b.py"), "opt/tmp": b"x"},
    {"opt": None, "opt/.wh.gone": b"", "opt/.wh.tmp": b"", "opt/.wh.never": b"",
     "opt/new/c.py": b"5", "opt/imgbuild": None, "opt/imgbuild/lane.lock": b"6"},
)  # fmt: skip


def over(*layers: Mapping[str, Content], base: tuple[str, ...] = ("sha256:a",)) -> FakeImage:
    below = FakeImage(BASE, info=replace(INFO, layers=("sha256:a",)))
    ids = (*base, *(f"sha256:{i}" for i in range(len(layers))))
    return FakeImage(
        info=replace(INFO, layers=ids), bases={"base:1": below}, layers=(BASE, *layers)
    )


def test_layers() -> None:
    facts = LaneFacts(bases={"runtime": "base:1"})
    image = over(*OVER)
    (bad,) = seen(image, Layers("runtime", ("opt/new/**",)), facts)
    assert not bad.passed
    assert bad.seen == "3 undeclared differences, such as changed: opt/a.py"
    assert bad.detail.splitlines() == ["changed: opt/a.py", "removed: opt/gone", "changed: opt/l"]
    assert image.reads[0] == ("layers above 1",)
    assert ("",) not in image.reads  # neither image was read whole
    (good,) = seen(image, Layers("runtime", ("opt/new/**", "opt/[alg]*")), facts)
    assert good.seen == "10 paths in 2 layers over it, all of them declared"
    (part,) = seen(image, Layers("runtime", (), ("usr/**",)), facts)
    assert part.passed
    (blind,) = seen(image, Layers("runtime", ()))
    assert blind.seen == "could not look: which image base runtime is, is not known here"


BARE = replace(INFO, env={}, more={"EXPOSE": '["80/tcp"]'})
DEFAULT = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # buildx sets it
ROOT = {"io.imgbuild.lane": "x", "org.opencontainers.image.title": "y"}


@pytest.mark.parametrize(
    ("info", "words"),
    [
        (replace(BARE, labels=ROOT, workdir="/"), ""),
        (replace(BARE, env={"PATH": DEFAULT}), ""),
        (replace(BARE, env={"PATH": "/opt/bin"}), "ENV PATH"),
        (replace(BARE, env={"LD_PRELOAD": "/opt/x.so"}), "ENV LD_PRELOAD"),
        (replace(BARE, user="nobody", entrypoint=("sh",)), "ENTRYPOINT USER"),
        (replace(BARE, command=("x",), workdir="/srv"), "CMD WORKDIR"),
        (replace(BARE, more={"HEALTHCHECK": "{}"}), "EXPOSE HEALTHCHECK"),
        (replace(BARE, labels={"a": "b"}), "LABEL a"),
    ],
)  # fmt: skip
def test_layers_compares_the_config(info: ImageInfo, words: str) -> None:
    image = over({}, base=("sha256:a",))
    image.bases = {"base:1": FakeImage(BASE, info=replace(BARE, layers=("sha256:a",)))}
    assert image.info is not None
    image.info = replace(info, layers=image.info.layers)
    facts = LaneFacts(bases={"runtime": "base:1"})
    (verdict,) = seen(image, Layers("runtime", ()), facts)
    said = [line.removeprefix("changed: ") for line in verdict.detail.splitlines()]
    assert (verdict.passed, said) == (not words, re.findall("(?:ENV |LABEL )?[^ ]+", words))
    declared = Layers("runtime", (), config=("ENV *", "LABEL ?", *words.split()))
    assert seen(image, declared, facts)[0].passed


def test_layers_compares_owners_and_capabilities() -> None:
    class Owned(FakeImage):
        def _entry(self, path: str, content: Content, *, alone: bool) -> tuple[ImageFile, Any]:
            file, data = super()._entry(path, content, alone=alone)
            more = {
                "opt/a.py": {"owner": (33, 0)}, "opt/b.py": {"owner": (0, 44)},
                "usr/bin/x": {"xattrs": (("security.capability", "net_raw"),)},
            }  # fmt: skip
            return replace(file, **more.get(path, {})), data

    plain = over({path: BASE[path] for path in ("opt/a.py", "opt/b.py", "usr/bin/x", "opt/l")})
    facts = LaneFacts(bases={"runtime": "base:1"})
    assert seen(plain, Layers("runtime", ()), facts)[0].passed
    owned = Owned(info=plain.info, bases=plain.bases, layers=plain.layers)
    (bad,) = seen(owned, Layers("runtime", ()), facts)
    assert bad.detail.splitlines() == [
        "changed: opt/a.py", "changed: opt/b.py", "changed: usr/bin/x",
    ]  # fmt: skip


def test_layers_that_empty_a_folder_and_that_come_back() -> None:
    facts = LaneFacts(bases={"runtime": "base:1"})
    emptied = over({"opt/.wh..wh..opq": b"", "opt/a.py": b"1"})
    (bad,) = seen(emptied, Layers("runtime", ()), facts)
    assert bad.detail == "removed: opt/*"
    fresh = over({"srv": None, "srv/new": None, "srv/new/.wh..wh..opq": b"", "srv/new/x": b"1"})
    (bad,) = seen(fresh, Layers("runtime", ()), facts)
    assert bad.detail.splitlines() == ["added: srv", "added: srv/new", "added: srv/new/x"]
    back = over({"opt/.wh.a.py": b""}, {"opt/a.py": b"1"})
    assert seen(back, Layers("runtime", ()), facts)[0].passed
    (other,) = seen(over({}, base=("sha256:b",)), Layers("runtime", ()), facts)
    assert other.seen == "is not built on base runtime: its lowest layers are others"
    many = over({f"opt/{i}": b"" for i in range(600)} | {"opt/.wh.gone": b""})
    (bad,) = seen(many, Layers("runtime", ()), facts)
    assert bad.seen.startswith("601 undeclared differences")


def test_a_credential_that_a_later_layer_removes() -> None:
    """It is seen in the layer, once, and what the base holds is the base's."""
    token = f"token {TOKEN}\n".encode()
    image = over({"root/.netrc": token, "etc/x": token}, {"root/.wh..netrc": b""})
    image.files = {"etc/x": token}
    image.layers = ({"root/of-the-base": token}, *image.layers[1:])
    verdicts = seen(image, Secrets(), LaneFacts(bases={"runtime": "base:1"}))
    assert {(v.about, "hidden" in v.seen) for v in verdicts} == {
        ("etc/x", False), ("root/.netrc", True),
    }  # fmt: skip
    assert "in layer 2, hidden by a later one" in verdicts[-1].seen
    assert {v.about for v in seen(image, Secrets())} == {
        "etc/x", "root/.netrc", "root/of-the-base",
    }  # fmt: skip  # which layers are a base's is not known
    assert seen(image, Secrets(allow=("^(root|etc)/",)))[0].passed


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"kind": "log"}, "must: is missing"),
        ({"kind": "log", "must": ["("]}, "is no regular expression"),
        ({"kind": "log", "architectures": "x"}, "must have one group"),
        ({"kind": "secrets", "allow": ["("]}, "is no regular expression"),
        ({"kind": "layers", "base": "b"}, "allow: is missing"),
        ({"kind": "layers", "base": "b", "allow": [], "config": ["PATH"]}, "begins with none of"),
    ],
)
def test_tables_that_make_no_sense(table: dict[str, object], says: str) -> None:
    _, findings = parse([table], file=Path("x.toml"))
    assert says in findings[0].what
