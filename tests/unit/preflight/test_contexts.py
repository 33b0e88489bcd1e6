"""What the contexts hold: what a Dockerfile takes from them, and the debs that it installs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from builder.model.lane import Deb
from builder.steps import preflight
from builder.steps.gates import Gate
from builder.steps.gates.headers import Headers
from builder.steps.gates.link import Link
from builder.steps.gates.package import Package
from builder.steps.gates.pkg_config import PkgConfig
from tests.unit.preflight.test_dockerfile import HEAD, LANE, findings, found, told

ROOT = Path(__file__).parents[3]
URING = Package("liburing-dev")
BOTH = {"liburing2_2.3-3_arm64.deb": "liburing2", "liburing-dev_2.3-3_arm64.deb": "liburing-dev"}
ALONE = {"liburing2_2.3-3_arm64.deb": "liburing2"}
MAIN = frozenset(
    {"Dockerfile", "scripts/serve.sh", "sources/kern-native.tar", "sources/kern-rest.tar",
     "sources/pure.tar", "deps/deps-src.tar.gz"}
)  # fmt: skip
MOUNTED = "RUN --network=none --mount=type=bind,from=debs,target=/debs "
DEMO = MOUNTED + "dpkg --install /debs/liburing2_*.deb /debs/liburing-dev_*.deb\n"
EVERY = MOUNTED + "dpkg --install /debs/*.deb\n"
JOVIAN = MOUNTED + "if ls /debs/*.deb >/dev/null; then dpkg --install /debs/*.deb; fi\n"
COPIED = "COPY --from=debs / /tmp/debs/\nRUN dpkg -i /tmp/debs/*.deb\n"
APT = MOUNTED + "apt-get install -y --no-download /debs/*.deb\n"
KNOWN, UNKNOWN = {"bash"}, None


def holding(debs: dict[str, str] | None, main: frozenset[str] | None = None) -> preflight.Contexts:
    named = {} if debs is None else {"debs": debs, "wheels": {"torch-2.9-cp312.whl": "torch"}}
    return preflight.Contexts(main, named)


def seen(
    text: str, *gates: Gate, debs: dict[str, str] | None = None, packages: set[str] | None = None,
    main: frozenset[str] | None = None,
) -> list[str]:  # fmt: skip
    return told(findings(text, *gates, packages=packages, contexts=holding(debs, main)))


# --- what a gate asks for, and the debs context does not bring


@pytest.mark.parametrize("lines", [DEMO, EVERY, JOVIAN, COPIED, APT])
@pytest.mark.parametrize("packages", [KNOWN, UNKNOWN])
def test_locked_debs_bring_what_gates_ask_for(lines: str, packages: set[str] | None) -> None:
    text = HEAD + "FROM base\n" + lines
    assert seen(text, URING, PkgConfig("liburing"), debs=BOTH, packages=packages) == []


@pytest.mark.parametrize("lines", [EVERY, JOVIAN, COPIED, HEAD[:0]])
@pytest.mark.parametrize(
    "gate",
    [URING, PkgConfig("liburing"), Link(("cudart", "uring")), Headers(("liburing.h",)),
     PkgConfig("some-module", compile=("liburing.h",))],
)  # fmt: skip
def test_what_they_do_not_bring_is_missing(lines: str, gate: Gate) -> None:
    text = HEAD + "FROM base\n" + lines
    missing = "package-not-installed None"
    assert seen(text, gate, debs=ALONE, packages=KNOWN) == [f"error {missing}"]
    assert seen(text, gate, debs=ALONE) == [f"warning {missing}"]
    assert seen(text, gate, debs=ALONE, packages={"liburing-dev"}) == []


def test_one_package_is_told_once_whoever_asks() -> None:
    gates = (URING, PkgConfig("liburing"), Link(("uring",)))
    assert seen(HEAD, *gates, debs={}, packages=KNOWN) == ["error package-not-installed None"]


def test_what_an_unknown_base_surely_has_is_not_doubted() -> None:
    assert seen(HEAD, Package("gcc"), Package("libc6-dev"), debs={}) == []


def test_of_a_folder_of_debs_that_came_otherwise_nothing_is_known() -> None:
    text = HEAD + "FROM base\nCOPY debs /debs\nRUN dpkg -i /debs/*.deb\n"
    assert seen(text, URING, debs=ALONE, packages=KNOWN) == []


def test_the_cure_is_the_lanes_own() -> None:
    (locking,) = findings(HEAD, URING, packages=KNOWN, contexts=holding({}))
    assert '[debs.liburing-dev] package = "liburing-dev"' in locking.hint
    lane = replace(LANE, debs={"uring": Deb("liburing-dev")})
    (installing,) = findings(HEAD, URING, packages=KNOWN, lane=lane, contexts=holding(BOTH))
    assert "is locked: install it from the context debs" in installing.hint


# --- what the contexts do not hold


@pytest.mark.parametrize(
    ("line", "code", "hint"),
    [
        ("ADD sources/kern.tar /src/", 1, "sources/kern-native.tar and sources/kern-rest.tar"),
        ("ADD sources/pure-native.tar /src/", 1, "it is sources/pure.tar"),
        ("ADD sources/krn-native.tar /src/", 1, "did you mean sources/kern-native.tar?"),
        ("ADD sources/other-thing.tar /src/", 1, "archives of this lane's sources: "),
        ("ADD sources/kern.ta[r] sources/kern-rest.tar /src/", 0, ""),
        ("COPY serve.sh /", 1, "did you mean scripts/serve.sh?"),
        ("COPY scripts /", 0, ""),
        ("COPY ./scripts/ . /x/", 0, ""),
        ("COPY /scripts/serve.sh /", 0, ""),
        ("ADD https://x.invalid/a HTTP://x.invalid/b me@x.invalid:c git@x.invalid:d.git /", 0, ""),
        ("COPY https://x.invalid/a /", 1, "add it to the image folder"),
        ("COPY entrypoint.py /", 1, "add it to the image folder"),
        ("ARG F=scripts\nCOPY $F/serve.sh $F/none.sh /", 1, "did you mean scripts/serve.sh?"),
        ("COPY $UNKNOWN/x /", 0, ""),
        ("COPY <<EOF /x\ntext\nEOF", 0, ""),
        ("COPY --from=base /none /", 0, ""),
        ("RUN --network=none --mount=type=bind,source=held.py,target=/held.py true", 1, "add it"),
        ("RUN --network=none --mount=type=bind,source=scripts,target=/x true", 0, ""),
        ("RUN --network=none --mount=type=cache,target=/x,source=a true", 0, ""),
        (MOUNTED + "dpkg -i /debs/libaio1_*.deb", 1, "lock it: [debs.libaio1], then"),
        (MOUNTED + "if [ -e x ]; then dpkg -i /debs/libaio1_*.deb; fi", 0, ""),
        ("COPY --from=debs liburing2_2.4_arm64.deb /", 1, "did you mean liburing2_2.3-3_arm64"),
        ("RUN --network=none --mount=type=bind,from=wheels,target=/w pip install /w/torch-*.whl",
         0, ""),
        (MOUNTED + "python3 /held.py /debs/libaio1_*.deb && ls /debs/libaio1_*.deb", 0, ""),
        ("RUN --mount=type=bind,from=wheels,target=/w python3 -m pip install /w/x-*.whl", 1,
         "lock it: [python.x]"),
        ("RUN --network=none --mount=type=bind,from=wheels,target=/w pip install /w/vllm-*.whl",
         1, "lock it: [python.vllm], then imgbuild lock LANE; there is: torch-2.9-cp312.whl"),
    ],
)  # fmt: skip
def test_what_a_context_will_not_hold(line: str, code: int, hint: str) -> None:
    text = HEAD + "FROM base\n" + line + "\n"
    missing = [
        f
        for f in findings(text, contexts=holding(BOTH, MAIN), packages=KNOWN)
        if f.code == "not-in-context"
    ]
    assert len(missing) == code
    assert all(hint in f.hint and f.level == "error" and f.place for f in missing)
    assert "not-in-context" not in " ".join(found(text, packages=KNOWN))  # nothing is locked


def test_a_stage_that_is_not_built_takes_what_it_likes() -> None:
    text = HEAD + "FROM base AS other\nCOPY none /\nFROM base\n"
    assert seen(text, debs=BOTH, main=MAIN) == []


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("COPY --from=attn-pyy /out /", "did you mean attn-py?"),
        ("RUN --network=none --mount=type=bind,from=wheel,target=/w true", "did you mean wheels?"),
        ("COPY --from=later /out /", "stage later stands below, in line 6: move it above this one"),
        ("COPY --from=registry.invalid/uv:1 /uv /", "declare it as [base.NAME]"),
    ],
)
def test_a_name_that_is_nearly_a_stage(line: str, hint: str) -> None:
    text = HEAD + f"FROM base AS attn-py\nFROM base AS main\n{line}\nFROM main AS later\n"
    (near,) = findings(text)
    assert near.code == "from-unpinned"
    assert hint in near.hint


# --- what debs depend on

DEV, TWO = {"Package": "liburing-dev", "Version": "2.3-3"}, {"Package": "liburing2"}
SPLIT = {
    "liburing-dev_2.3-3_arm64.deb": {**DEV, "Depends": "liburing2 (= 2.3-3), libc6-dev | libc-dev"},
    "liburing2_2.3-3_arm64.deb": {**TWO, "Version": "2.3-3", "Depends": "libc6 (>= 2.34)"},
}
DEPENDS = HEAD + "FROM base\n" + EVERY


@pytest.mark.parametrize(
    ("debs", "packages", "expected"),
    [
        (BOTH, {"libc6", "libc6-dev"}, []),
        (BOTH, UNKNOWN, []),
        (BOTH, {"libc6", "libc-dev"}, []),
        (BOTH, {"libc6"}, ["warning deb-depends"]),  # a virtual package of the base's, or missing
        ({"liburing-dev_2.3-3_arm64.deb": "liburing-dev"}, {"libc6-dev"}, ["error deb-depends"]),
        ({"liburing-dev_2.3-3_arm64.deb": "liburing-dev"}, UNKNOWN, ["warning deb-depends"]),
        ({"liburing-dev_2.3-3_arm64.deb": "liburing-dev"}, {"libc6-dev", "liburing2"}, []),
        ({"liburing2_2.3-3_arm64.deb": "liburing2"}, UNKNOWN, []),
        ({"unread_1_all.deb": "unread"}, {"bash"}, []),
    ],
)
def test_debs_without_what_they_depend_on(
    debs: dict[str, str], packages: set[str] | None, expected: list[str]
) -> None:
    lane = replace(LANE, debs={"uring": Deb("liburing-dev")})
    report = findings(DEPENDS, packages=packages, lane=lane, contexts=holding(debs), control=SPLIT)
    assert [f"{f.level} {f.code}" for f in report] == expected
    assert all(f.place and f.place.key == ("debs", "uring") for f in report)


def test_debs_of_two_versions_of_one_source() -> None:
    other = {**SPLIT, "liburing2_2.3-3_arm64.deb": {**TWO, "Version": "2.5-1"}}
    report = findings(DEPENDS, packages={"libc6-dev"}, contexts=holding(BOTH), control=other)
    assert [f.code for f in report] == ["deb-depends"]


def test_a_stage_that_asks_apt_first_is_left_alone() -> None:
    alone = {"liburing-dev_2.3-3_arm64.deb": "liburing-dev"}
    text = DEPENDS.replace("dpkg", "apt-get install -y build-essential && dpkg")
    report = findings(text, packages={"libc6"}, contexts=holding(alone), control=SPLIT)
    assert [f.code for f in report] == []


@pytest.mark.parametrize("image", ["demo", "extend", "glm53-jovian"])
def test_the_images_of_this_project_have_no_finding(image: str) -> None:
    text = (ROOT / f"docker-images/{image}/Dockerfile").read_text()
    text = text.replace("BASE_IMAGE", "BASE_RUNTIME")
    folder = [p.name for p in (ROOT / "docker-images" / image).iterdir()]
    names = ("vllm", "lmcache", "kern")
    split = {f"sources/{n}{part}.tar" for n in names for part in ("-native", "-rest")}
    main = frozenset({*folder, *split, "sources/minipkg.tar", "sources/loader.tar",
                      "deps/deps-src.tar.gz"})  # fmt: skip
    wheels = {"nvidia_cuda_nvcc-13.whl": "nvidia-cuda-nvcc"}
    contexts = preflight.Contexts(main, {"debs": BOTH, "wheels": wheels})
    gates = (URING, PkgConfig("liburing")) if image != "extend" else ()
    report = findings(text, *gates, contexts=contexts, packages={"libc6", "libc6-dev"},
                      control=SPLIT)  # fmt: skip
    assert report == []
